from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.worlds import make_world, responses_of
from unswayed.learners.discount.loud import rounds as loud_rounds
from unswayed.learners.discount.one_mean import search
from unswayed.learners.discount.one_mean.mixture import Accusation, Model, fit_coalitions
from unswayed.learners.discount.one_mean.search import (
    Finding,
    Null,
    search_coalitions,
    start_directions,
)
from unswayed.learners.discount.responses.kernels import cell_sums, gram_product
from unswayed.learners.discount.responses.line_kernels import line_scores, line_sums
from unswayed.learners.discount.responses.noise import (
    measure_noise,
    permuted_within_cells,
    top_directions,
)
from unswayed.learners.discount.responses.residuals import residuals_of
from unswayed.learners.discount.trial.aims import pooled_means
from unswayed.tallies import tally
from unswayed.tallies.grouping import counting_order


def test_passes_equal_dense_sums(rng: np.random.Generator) -> None:
    world = make_world(rng, n_users=30, plays=15)
    t = world.tallies
    weights = rng.random(30)
    dense = t.csr(t.sums).toarray()
    vector = rng.standard_normal(t.n_cells)
    product = gram_product(t.indptr, t.cells, t.sums, weights, vector)
    assert_allclose(product, dense.T @ (weights * (dense @ vector)), atol=1e-10)
    ones = np.ones(len(t.cells))
    users, mass, total, squares = cell_sums(t.indptr, t.cells, ones, t.sums, weights, t.n_cells)
    assert_allclose(users, mass)
    assert_allclose(total, weights @ dense)
    assert_allclose(squares, weights @ dense**2)


def test_passes_for_many_lines_equal_dense_products(rng: np.random.Generator) -> None:
    t = make_world(rng, n_users=30, plays=15).tallies
    weights, gammas = rng.random(30), rng.random((30, 3))
    x, e = t.sums / t.counts, t.counts
    means, shifts = rng.standard_normal((2, t.n_cells, 3))
    for chosen in (slice(0, 1), slice(0, 3)):
        scores, strengths = line_scores(
            t.indptr, t.cells, e, x, weights, means[:, chosen], shifts[:, chosen]
        )
        masses, totals = line_sums(t.indptr, t.cells, e, x, gammas[:, chosen], t.n_cells)
        plays, sums = t.csr(e).toarray(), t.csr(e * x).toarray()
        products = sums @ shifts - plays @ (shifts * means)
        assert_allclose(scores, products[:, chosen], atol=1e-10)
        assert_allclose(strengths, (plays @ shifts**2)[:, chosen], atol=1e-10)
        assert_allclose(masses, (plays.T @ gammas)[:, chosen], atol=1e-10)
        assert_allclose(totals, (sums.T @ gammas)[:, chosen], atol=1e-10)


def test_fits_side_by_side_equal_fits_alone(rng: np.random.Generator) -> None:
    """Nine starts fill two panels of eight; copies that fill up change nothing."""
    responses = responses_of(make_world(rng, n_users=400).tallies)
    noise = measure_noise(responses, np.ones(400))
    data = residuals_of(responses, np.ones(400), noise, np.float64)
    starts = (rng.random((400, 9)) < 0.2).astype(float)
    models = [
        Model(largest_mass=0.25, shrinkage=c, cells=np.ones(responses.n_cells))
        for c in np.linspace(0.5, 2.0, 9)
    ]
    together = fit_coalitions(data.strips, starts, models, 12)
    for k in range(9):
        alone = fit_coalitions(data.strips, starts[:, [k]], [models[k]], 12)[0]
        assert_allclose(together[k].gain, alone.gain, rtol=1e-6, atol=1e-6)
        assert_allclose(together[k].probabilities, alone.probabilities, atol=1e-6)


def test_top_directions_are_the_top_eigenvectors(rng: np.random.Generator) -> None:
    responses = responses_of(make_world(rng, n_users=300, plays=40).tallies)
    values = 2.0 * rng.standard_normal(300)[responses.users] + rng.standard_normal(
        len(responses.cells)
    )
    dense = np.zeros((300, responses.n_cells))
    dense[responses.users, responses.cells] = values
    found, vectors = top_directions(responses, values, np.ones(300), 1, rng)
    expected, basis = np.linalg.eigh(dense.T @ dense)
    assert_allclose(found[0], expected[-1], rtol=1e-6)
    assert_allclose(abs(vectors[:, 0] @ basis[:, -1]), 1.0, rtol=1e-6)


def test_exchanged_responses_stay_in_their_cell_and_with_kept_users(
    rng: np.random.Generator,
) -> None:
    responses = responses_of(make_world(rng, n_users=100).tallies)
    weights = np.repeat([1.0, 0.2], 50)
    entries = np.arange(len(responses.cells), dtype=float)
    (moved,) = permuted_within_cells(responses, weights, rng, entries)
    source = moved.astype(np.int64)
    assert_array_equal(np.sort(source), entries)
    assert_array_equal(responses.cells[source], responses.cells)
    assert_array_equal(source[responses.users >= 50], entries[responses.users >= 50])
    # A kept entry stays with probability 1/m for m in its cell: about one of each cell does.
    assert (source == entries)[responses.users < 50].sum() < 4 * responses.n_cells


def test_entries_are_ordered_by_cell(rng: np.random.Generator) -> None:
    cells = rng.integers(7, size=50).astype(np.int32)
    order, starts = counting_order(cells, 8)
    assert_array_equal(order, np.argsort(cells, kind="stable"))
    assert_array_equal(np.diff(starts), np.bincount(cells, minlength=8))


def test_a_flood_of_visits_counts_less_than_an_honest_share() -> None:
    n_users, per_user = 200, 40
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(n_users), per_user)
    contexts = rng.integers(20, size=len(users))
    contexts[users < 20] = 0
    actions = np.zeros(len(users), dtype=np.int64)
    tallies = tally(
        users, contexts, actions, np.zeros(len(users)), n_users=n_users, n_contexts=20, n_actions=1
    )
    responses = responses_of(tallies)
    in_context = responses.cells == 0
    flooded = responses.plays[in_context & (responses.users < 20)]
    honest = responses.plays[in_context & (responses.users >= 20)]
    assert flooded.max() < honest.mean()
    assert responses.context_probabilities[0] < 0.06


def test_extreme_rewards_are_clipped_and_bounded_honest_ones_are_not(
    rng: np.random.Generator,
) -> None:
    world = make_world(rng, is_binary=True, adversarial_fraction=0.0, n_users=300)
    t = world.tallies
    honest = responses_of(t)
    assert_array_equal(honest.means, t.sums / t.counts)
    wild = t.sums.copy()
    is_wild = honest.users < 60
    wild[is_wild] = 1e6 * t.counts[is_wild]
    squares = np.where(is_wild, 1e12 * t.counts, t.squares)
    clipped = responses_of(t.with_sums(t.counts, wild, squares))
    # Medians and their deviations stay honest: at most 1 and 1/2. 1 + 3 · 1.4826 · 1/2 = 3.2.
    assert clipped.means.max() <= 3.3
    assert_array_equal(clipped.means[~is_wild], honest.means[~is_wild])


def test_a_coalition_cannot_make_binary_rewards_look_otherwise(rng: np.random.Generator) -> None:
    t = make_world(rng, is_binary=True, adversarial_fraction=0.0, n_users=300).tallies
    is_odd = np.repeat(np.arange(300) < 140, np.diff(t.indptr))
    sums = np.where(is_odd, 0.5 * t.counts, t.sums)
    squares = np.where(is_odd, 0.25 * t.counts, t.squares)
    assert responses_of(t.with_sums(t.counts, sums, squares)).is_binary
    assert not responses_of(t.with_sums(t.counts, 0.5 * t.counts, 0.25 * t.counts)).is_binary


def test_the_taste_share_is_found(rng: np.random.Generator) -> None:
    """Tastes with variance .15² per cell beside noise of variance .3²: a share of .2."""
    world = make_world(rng, adversarial_fraction=0.0, taste=0.15)
    noise = measure_noise(responses_of(world.tallies), np.ones(1500))
    # Loadings are 60 squared normals: their mean has standard error sqrt(2/60) = .18, relative.
    assert 0.2 * (1 - 3 * 0.18) < noise.taste_share < 0.2 * (1 + 3 * 0.18)
    plain = make_world(rng, adversarial_fraction=0.0)
    assert measure_noise(responses_of(plain.tallies), np.ones(1500)).taste_share == 0.0


def test_pooled_means_are_the_ratio_of_sums(rng: np.random.Generator) -> None:
    world = make_world(rng, is_binary=True, n_users=300)
    weights = rng.random(300)
    assert_allclose(
        pooled_means(responses_of(world.tallies), weights), world.pooled(weights), atol=0.02
    )


@pytest.mark.parametrize("is_binary", [True, False])
def test_where_there_is_no_coalition_the_null_gains_as_much_as_the_data(
    rng: np.random.Generator, is_binary: bool
) -> None:
    """Fifteen responses per cell: a fit with a mean of its own for each cell follows chance.

    Gains of twelve such worlds and their nulls had ratios with a standard deviation of .09, so the
    mean of eight lies within 3·.09/sqrt(8) = .1 of one. Nulls that were searched less, or whose
    means were the measured ones, gained a fifth less.
    """
    ratios = []
    for own in rng.spawn(8):
        world = make_world(
            own,
            n_users=1000,
            n_contexts=200,
            n_actions=10,
            plays=30,
            adversarial_fraction=0.0,
            is_binary=is_binary,
        )
        responses, everybody = responses_of(world.tallies), np.ones(1000)
        noise = measure_noise(responses, everybody)
        data = residuals_of(responses, everybody, noise, np.float32)
        model = Model(largest_mass=0.25, shrinkage=1.0, cells=np.ones(responses.n_cells))
        (found,) = search_coalitions(
            data, start_directions(data, noise.means, own), [model], adversarial_fraction=0.2
        )
        (by_chance,) = Null(data, noise, 0.2, own).gains([model])
        ratios.append(by_chance / found.accusation.raw_gain)
    assert abs(np.mean(ratios) - 1.0) < 0.1


def test_binary_responses_of_users_who_never_change_their_mind_have_a_null(
    rng: np.random.Generator,
) -> None:
    """All that differs between users is taste then, and nothing is left to chance."""
    users, cells = np.repeat(np.arange(300), 12), np.tile(np.arange(6), 600)
    likes = rng.random((300, 6)) < 0.4
    tallies = tally(
        users,
        cells // 2,
        cells % 2,
        likes[users, cells].astype(float),
        n_users=300,
        n_contexts=3,
        n_actions=2,
    )
    responses, everybody = responses_of(tallies), np.ones(300)
    noise = measure_noise(responses, everybody)
    assert noise.taste_share == 1.0
    data = residuals_of(responses, everybody, noise, np.float32)
    model = Model(largest_mass=0.25, shrinkage=1.0, cells=np.ones(responses.n_cells))
    (gain,) = Null(data, noise, 0.2, rng).gains([model])
    assert np.isfinite(gain)


def test_a_fit_that_accuses_more_than_it_may_is_void_whatever_it_gains(
    rng: np.random.Generator,
) -> None:
    """Two fifths of the users stand apart; a model that allows a tenth cannot lower the odds."""
    world = make_world(rng, n_users=600, adversarial_fraction=0.4)
    responses, everybody = responses_of(world.tallies), np.ones(600)
    data = residuals_of(responses, everybody, measure_noise(responses, everybody), np.float64)
    allowed = np.ones(responses.n_cells)
    models = [Model(largest_mass=mass, shrinkage=1.0, cells=allowed) for mass in (0.1, 0.45)]
    starts = np.repeat(world.is_bad[:, None].astype(float), 2, axis=1)
    tight, wide = fit_coalitions(data.strips, starts, models, 10)
    assert tight.raw_gain > 100.0
    assert tight.gain == -np.inf
    assert wide.gain == wide.raw_gain > 100.0


def test_a_null_whose_best_fit_is_void_gains_all_the_same(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted as nothing, it would let every accusation pass."""
    world = make_world(rng, n_users=600, adversarial_fraction=0.4)
    responses, everybody = responses_of(world.tallies), np.ones(600)
    noise = measure_noise(responses, everybody)
    data = residuals_of(responses, everybody, noise, np.float64)
    model = Model(largest_mass=0.1, shrinkage=1.0, cells=np.ones(responses.n_cells))
    (fit,) = fit_coalitions(data.strips, world.is_bad[:, None].astype(float), [model], 10)
    void = replace(fit, is_void=True)
    assert void.gain == -np.inf
    monkeypatch.setattr(search, "search_coalitions", lambda *_, **__: [Finding(void, -np.inf)])
    assert Null(data, noise, 0.2, rng).gains([model]) == [void.raw_gain]


def accusation(shifts: list[float], gain: float) -> Accusation:
    """Return an accusation of half of two users."""
    two = np.zeros(2)
    return Accusation(
        means=two,
        shifts=np.array(shifts),
        probabilities=np.array([0.0, 1.0]),
        scores=two,
        strengths=two,
        spread_of_the_good=0.0,
        mass=0.5,
        raw_gain=gain,
        is_void=False,
    )


def test_of_two_opposite_accusations_the_one_that_gains_more_is_found() -> None:
    up, down = accusation([1.0, 0.5], 30.0), accusation([-1.0, 0.0], 50.0)
    for first, second in ((up, down), (down, up)):
        found = search._both_ways(first, second)
        assert found.accusation is down
        assert found.opposite_gain == 30.0


def test_a_fit_that_points_the_same_way_is_not_the_opposite_one() -> None:
    best, same = accusation([1.0, 0.5], 30.0), accusation([1.0, 0.0], 50.0)
    found = search._both_ways(best, same)
    assert found.accusation is best
    assert found.opposite_gain == -np.inf


def test_of_two_opposite_loud_lies_the_one_with_fewer_accounts_is_believed() -> None:
    """However close: honest users who praise too little may look like liars beside many bots."""

    def candidate(mass: float, loudness: float, about: int = 0) -> Any:
        lie = SimpleNamespace(about=about)
        first = SimpleNamespace(is_by_action=True, found=SimpleNamespace(gain=100.0))
        return SimpleNamespace(
            first=first, fitted=SimpleNamespace(lie=lie, mass=mass), loudness=loudness
        )

    best = candidate(0.10, 9.0)
    fewer = 0.99 * best.fitted.mass
    opposite, elsewhere = candidate(fewer, -9.0), candidate(fewer, -9.0, about=1)
    alike, larger = candidate(fewer, 9.0), candidate(0.11, -9.0)
    assert loud_rounds._fewest_accused([best, opposite], strongest=5.0) is opposite
    for other in (elsewhere, alike, larger, candidate(fewer, -4.0)):
        assert loud_rounds._fewest_accused([best, other], strongest=5.0) is best
    far_fewer = candidate(0.5 * loud_rounds.FEWER * best.fitted.mass, 9.0)
    assert loud_rounds._fewest_accused([best, far_fewer], strongest=5.0) is far_fewer
