"""Responses, their noise and residuals: small examples, and loops over single entries."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.small import grid_of, in_blocks, responses_from, tallies_from
from unswayed.arrays import FloatArray
from unswayed.learners.discount.responses import clipping, residuals
from unswayed.learners.discount.responses import responses as rooms
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.responses.noise import (
    Noise,
    measure_noise,
    top_directions,
    worth_of,
)
from unswayed.learners.discount.responses.residuals import blocked_residuals, residuals_of
from unswayed.learners.discount.responses.responses import BlockedResponses, Responses
from unswayed.randomness import generator
from unswayed.tallies import Tallies


def random_responses(
    rng: np.random.Generator, *, n_users: int = 60, taste: float = 0.0, is_binary: bool = False
) -> Responses:
    users, cells = np.nonzero(rng.random((n_users, 12)) < 0.6)
    plays = rng.integers(1, 5, len(users)).astype(float)
    means = rng.normal(size=12)[cells] + taste * rng.normal(size=len(users))
    means += rng.normal(size=len(users)) / np.sqrt(plays)
    if is_binary:
        means = rng.random(len(users)) ** 3
    within = np.where(rng.random(len(users)) < 0.1, np.nan, rng.chisquare(plays))
    return responses_from(
        users, cells, plays, means, within=within, is_binary=is_binary,
        n_users=n_users, n_contexts=3, n_actions=4,
    )  # fmt: skip


def share_by_hand(r: Responses, weights: FloatArray) -> float:
    """Return the share of variance between users, from entries of several plays."""
    w = weights[r.users]
    is_again = (r.plays > 1.5) & ~np.isnan(r.within)
    n = r.plays[is_again]
    inside = float(w[is_again] @ r.within[is_again] / (w[is_again] @ (n - 1.0)))
    centre = np.array(
        [np.average(r.means[r.cells == j], weights=(w * r.plays)[r.cells == j]) for j in range(12)]
    )
    squares = n * (r.means - centre[r.cells])[is_again] ** 2
    between = float(w[is_again] @ (squares - inside) / (w[is_again] @ n))
    return between / (between + inside)


@pytest.mark.parametrize("edges", [(), (20, 20, 41)])
def test_noise_is_measured_with_one_witness_a_user(
    rng: np.random.Generator, edges: tuple[int, ...]
) -> None:
    r, weights = random_responses(rng, taste=2.0), rng.random(60)
    found = measure_noise(in_blocks(r, *edges), weights)
    share = share_by_hand(r, weights)
    assert found.taste_share == pytest.approx(share)
    assert 0.1 < share < 0.99
    worth, w = 1.0 / (share + (1.0 - share) / r.plays), weights[r.users]
    assert_allclose(worth_of(r, share), worth)
    users, mass = np.bincount(r.cells, w), np.bincount(r.cells, w * worth)
    means = np.bincount(r.cells, w * worth * r.means) / mass
    scatter = np.bincount(r.cells, w * worth * (r.means - means[r.cells]) ** 2)
    pooled = scatter.sum() / (users.sum() - 12)
    variances = (scatter + 10.0 * pooled) / (users + 10.0)
    variances = np.clip(variances, 0.1 * pooled, 1.5 * np.median(variances))
    assert_allclose(found.users, users)
    assert_allclose(found.mass, mass)
    assert_allclose(found.means, means)
    assert_allclose(found.variances, variances)
    given = measure_noise(r, weights, 0.0)
    assert given.taste_share == 0.0
    assert_allclose(given.mass, np.bincount(r.cells, w * r.plays))


def test_binary_cells_have_the_variance_of_their_mean(rng: np.random.Generator) -> None:
    r = random_responses(rng, is_binary=True)
    r.means[r.cells == 0] = 0.001
    r.means[r.cells == 1] = 1.0
    found = measure_noise(r, np.ones(60))
    inside = np.clip(found.means, 0.03, 0.97)
    assert_allclose(found.variances, inside * (1.0 - inside))
    assert found.variances[0] == pytest.approx(0.03 * 0.97)
    assert found.variances[1] == pytest.approx(0.03 * 0.97)


def test_few_repeats_and_small_shares_are_no_taste() -> None:
    """Fifty repeated plays are enough; a share of two percent is taken for zero."""
    users = np.repeat(np.arange(25), 2)
    for plays, n_repeats in ((2.0, 50), (1.98, 49)):
        r = responses_from(
            users, np.tile([0, 1], 25), np.full(50, plays), np.tile([3.0, -3.0], 25) * users,
            within=np.full(50, 0.1), n_users=25, n_contexts=1, n_actions=2,
        )  # fmt: skip
        assert (measure_noise(r, np.ones(25)).taste_share > 0.5) == (n_repeats == 50)
    # With n plays and squares of n − 1 around each mean, the noise of a play is one.
    for between, is_taste in ((0.019, False), (0.0215, True)):
        spread = math.sqrt(between + 1.0 / 40.0)
        means = np.where(np.arange(100) % 2, spread, -spread)
        r = responses_from(
            np.arange(100), np.zeros(100), np.full(100, 40.0), means,
            within=np.full(100, 39.0), n_users=100, n_contexts=1, n_actions=1,
        )  # fmt: skip
        share = measure_noise(r, np.ones(100)).taste_share
        assert share == (pytest.approx(between / (between + 1.0)) if is_taste else 0.0)


def test_a_log_of_one_value_has_a_variance_that_is_hardly_anything() -> None:
    found = measure_noise(grid_of(np.full((5, 2, 2), 3.0)), np.ones(5))
    assert (found.variances > 0.0).all()
    # Rounding, a part in 10^12 of the mean, is no scatter.
    np.testing.assert_allclose(found.variances, (1e-12 * 3.0) ** 2)
    nobody = measure_noise(grid_of(np.full((5, 2, 2), 3.0)), np.zeros(5))
    assert nobody.means.tolist() == [0.0] * 4


def test_top_directions_begin_at_random_and_end_after_twenty_steps_more(
    rng: np.random.Generator,
) -> None:
    r = random_responses(rng)
    values, vectors = top_directions(r, r.means, np.ones(60), 2, rng)
    dense = np.zeros((60, 12))
    dense[r.users, r.cells] = r.means
    expected = np.linalg.eigvalsh(dense.T @ dense)[::-1]
    assert_allclose(values, expected[:2], rtol=1e-6)
    assert vectors.shape == (12, 2)


def test_residuals_are_responses_in_deviations_of_their_cells(rng: np.random.Generator) -> None:
    r, weights = random_responses(rng), rng.random(60)
    noise = Noise(0.3, rng.normal(size=12), 0.5 + rng.random(12), np.ones(12), np.ones(12))
    for dtype in (np.float32, np.float64):
        found = residuals_of(r, weights, noise, dtype)
        expected = (r.means - noise.means[r.cells]) / np.sqrt(noise.variances[r.cells])
        assert found.residuals.dtype == found.worth.dtype == dtype
        assert_allclose(found.residuals, expected, rtol=1e-5, atol=1e-6)
        assert_allclose(found.worth, 1.0 / (0.3 + 0.7 / r.plays), rtol=1e-6)
        assert_allclose(found.deviations, np.sqrt(noise.variances))
        assert found.weights is weights
        assert found.strips.dtype == dtype
    w = weights[r.users]
    strips = found.strips
    assert_allclose(strips.mass, np.bincount(r.cells, w * found.worth))
    assert_allclose(strips.total, np.bincount(r.cells, w * found.worth * found.residuals))
    blocked = blocked_residuals(in_blocks(r, 20, 20), noise, weights)
    assert blocked.dtype == np.float32
    assert blocked.n_users == 60
    assert_allclose(blocked.mass, strips.mass, rtol=1e-5)
    assert_allclose(blocked.total, strips.total, rtol=1e-4, atol=1e-5)


def test_many_entries_are_read_in_two_strips_of_users(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    r, weights = random_responses(rng, n_users=61), rng.random(61)
    noise = measure_noise(r, weights)
    data = residuals_of(r, weights, noise, np.float64)
    assert data.strips.blocks.n_blocks == 1
    for most, sizes in ((len(r.cells), (61,)), (len(r.cells) - 1, (30, 31))):
        monkeypatch.setattr(residuals, "STRIP_ENTRIES", most)
        again = residuals_of(r, weights, noise, np.float64)
        assert again.strips.blocks.sizes == sizes
        assert_allclose(again.strips.mass, data.strips.mass)
        assert_allclose(again.strips.total, data.strips.total, atol=1e-12)
        gammas, lines = rng.random((61, 3)), rng.normal(size=(2, 12, 3))
        for one, other in zip(
            (*again.strips.line_sums(gammas), *again.strips.line_scores(*lines)),
            (*data.strips.line_sums(gammas), *data.strips.line_scores(*lines)),
            strict=True,
        ):
            assert one.shape == other.shape
            assert_allclose(one, other, atol=1e-9)


def test_a_part_of_the_contexts_has_their_share_of_visits(rng: np.random.Generator) -> None:
    r = replace(random_responses(rng), context_probabilities=np.array([0.5, 0.3, 0.2]))
    chosen = r.in_contexts(np.array([True, False, True]))
    assert_allclose(chosen.context_probabilities, [0.5 / 0.7, 0.0, 0.2 / 0.7])
    assert chosen.n_users == 60
    assert chosen.n_cells == 12
    nothing = r.in_contexts(np.zeros(3, np.bool_))
    assert len(nothing.cells) == 0
    assert nothing.context_probabilities.tolist() == [0.0] * 3


def test_samples_are_of_users_with_about_as_many_entries(rng: np.random.Generator) -> None:
    r = random_responses(rng, n_users=200)
    everybody = in_blocks(r, 90, 90, 140)
    n_entries = len(r.cells)
    assert everybody.n_entries == n_entries
    assert everybody.cells_per_user == n_entries / 200
    assert (everybody.n_users, everybody.n_cells) == (200, 12)
    whole = everybody.sampled(rng, n_entries)
    assert whole.users == slice(None)
    assert whole.is_everything
    assert_array_equal(whole.responses.means, r.means)
    part = everybody.sampled(generator(3), n_entries - 1)
    size = int(200 * (n_entries - 1) / n_entries)
    chosen = np.sort(generator(3).choice(200, size=size, replace=False))
    assert_array_equal(part.users, chosen)
    assert part.contexts.tolist() == [True] * 3
    assert not part.is_everything
    assert_array_equal(part.responses.means, r.of_users(chosen).means)
    # In some contexts only their entries count.
    contexts = np.array([True, False, False])
    n_there = int((r.cells < 4).sum())
    there = everybody.sampled(rng, n_there, contexts)
    assert there.users == slice(None)
    assert not there.is_everything
    assert_array_equal(there.responses.means, r.means[r.cells < 4])
    half = everybody.sampled(generator(4), n_there // 2, contexts)
    assert len(np.asarray(half.users)) == int(200 * (n_there // 2) / n_there)
    assert half.responses.cells.max() < 4
    assert_array_equal(half.contexts, contexts)


def many_contexts(
    probabilities: FloatArray, entries: FloatArray, n_actions: int
) -> BlockedResponses:
    one = in_blocks(grid_of(np.zeros((1, 1, n_actions))))
    return replace(
        one,
        entries=entries.astype(np.int64),
        n_contexts=len(entries),
        context_probabilities=probabilities,
    )


def test_dense_contexts_have_five_hundred_responses_a_cell_or_a_thousand_cells() -> None:
    """Ten actions; contexts from the rarest to the most frequent, each with 6,000 entries."""
    probabilities = np.arange(1.0, 301.0) / 300.0
    busy = many_contexts(probabilities, np.full(300, 6000.0), 10)
    # Entries of a sample are limited: 600,000 are 500 for each of 1,200 cells.
    assert np.flatnonzero(busy.dense_contexts(600_000)).tolist() == list(range(180, 300))
    assert np.flatnonzero(busy.dense_contexts(599_999)).tolist() == list(range(181, 300))
    assert busy.dense_contexts(10_000_000).all()
    # With few responses a thousand cells, and those that reach a thousand.
    assert busy.dense_contexts(1000).sum() == 100
    odd = many_contexts(probabilities, np.full(300, 6.0), 7)
    assert odd.dense_contexts(1000).sum() == 143  # 1,001 cells, with the last context to reach it
    equal = many_contexts(np.full(300, 1.0 / 300), np.full(300, 6.0), 10)
    assert np.flatnonzero(equal.dense_contexts(1000)).tolist() == list(range(100))
    assert rooms.DENSE == 500.0


def test_the_usual_share_of_visits_is_a_median_and_three_deviations() -> None:
    shares = np.array([0.2, 0.3, 0.5, np.nan, 0.3, 0.9])
    # The median of the known is .3, of their distances .1, .0, .2, .0, .6 it is .1.
    assert clipping._usual_share(shares) == pytest.approx(0.3 + 3.0 * 1.4826 * 0.1)
    assert clipping._usual_share(np.full(4, np.nan)) == 1.0
    assert clipping._usual_share(np.array([0.25])) == 0.25


def flooded(n_floods: int = 3) -> Tallies:
    """Return 40 users who visit five contexts in turn, of whom some visit the first only."""
    users, cells, plays = [], [], []
    for user in range(40):
        visits = [50, 0, 0, 0, 0] if user < n_floods else [10, 10, 10, 10, 10 + user % 2]
        for context, n in enumerate(visits):
            if n:
                users.append(user)
                cells.append(context)
                plays.append(float(n))
    size = len(users)
    return tallies_from(
        users, cells, plays, np.linspace(0.0, 1.0, size), np.full(size, 0.2),
        n_users=40, n_contexts=5, n_actions=1,
    )  # fmt: skip


def floods_by_hand(t: Tallies) -> tuple[FloatArray, FloatArray]:
    """Return context probabilities after six rounds, and the factor of each entry."""
    users = np.repeat(np.arange(t.n_users), np.diff(t.indptr))
    total = np.bincount(users, t.plays)[users]
    factors = np.ones(len(users))
    largest = np.zeros(t.n_users)
    np.maximum.at(largest, users, t.plays / total)
    usual = np.median(largest)
    habit = usual + 3.0 * 1.4826 * np.median(np.abs(largest - usual))
    for _ in range(6):
        shares = np.bincount(t.cells, factors * t.plays / total)
        probabilities = shares / shares.sum()
        expected = total * probabilities[t.cells]
        cap = np.maximum(expected + 3.0 * np.sqrt(expected) + 2.0, habit * total)
        factors = np.where(t.plays > cap, (cap / t.plays) ** 3, 1.0)
    return probabilities, factors


@pytest.mark.parametrize("bounds", [(), (0, 2, 2, 25, 40)])
def test_floods_are_capped_in_turn_with_the_context_probabilities(bounds: tuple[int, ...]) -> None:
    tallies = replace(flooded(), bounds=bounds)
    everybody = clipped_responses(tallies)
    found = everybody.sampled(generator(0), everybody.n_entries).responses
    probabilities, factors = floods_by_hand(tallies)
    assert_allclose(everybody.context_probabilities, probabilities, rtol=1e-9)
    assert_allclose(found.plays, tallies.plays * factors, rtol=1e-9)
    assert factors[:3].max() < 0.5
    assert everybody.entries.tolist() == [40, 37, 37, 37, 37]
    calm = flooded(0)
    plain = clipped_responses(calm)
    assert_array_equal(plain.sampled(generator(0), plain.n_entries).responses.plays, calm.plays)
    shares = np.bincount(calm.cells, calm.plays / np.repeat(calm.interactions, 5)) / 40.0
    assert_allclose(plain.context_probabilities, shares)


def test_rewards_are_believed_as_far_as_most_users_and_the_cell_go() -> None:
    """Nine users with means 0, 0.1, … 0.8 in one cell and twice that in another; one is wild."""
    users, cells = np.repeat(np.arange(9), 2), np.tile([0, 1], 9)
    means = np.where(cells == 0, 0.1 * users, 0.2 * users)
    means[-1] = 50.0
    tallies = tallies_from(
        users, cells, np.full(18, 2.0), means, np.full(18, 0.01),
        n_users=9, n_contexts=1, n_actions=2,
    )  # fmt: skip
    low, high = clipping._believable(tallies)
    medians = np.array([0.4, 0.8])
    deviations = np.array([0.2, 0.4])
    lowest, highest = 0.4, 0.8  # of the median user
    margin = 0.25 * (highest - lowest)
    far = np.median([0.8, 0.6, 0.4, 0.2, 0.0, 0.2, 0.4, 0.6, 49.2])
    reach = np.maximum(3.0 * 1.4826 * deviations, 1.25 * far)
    assert_allclose(low, np.minimum(lowest - margin, medians - reach))
    assert_allclose(high, np.maximum(highest + margin, medians + reach))
    everybody = clipped_responses(tallies)
    found = everybody.sampled(generator(0), 18).responses
    assert_allclose(found.means[:-1], means[:-1])
    assert found.means[-1] == pytest.approx(high[1])
    assert_array_equal(found.rewards, found.means)
    assert np.isnan(found.within[-1])
    assert_allclose(found.within[:-1], 2.0 * 0.01)
    assert not found.is_binary
    reached = clipped_responses(tallies, reach=1.0)
    again = reached.sampled(generator(0), 18).responses
    assert_allclose(again.rewards, np.clip(means, -1.0, 1.0))
    assert_array_equal(again.means, found.means)


def test_squares_of_weighted_plays_are_those_of_as_many_plays() -> None:
    plain = tallies_from(
        [0, 0, 1, 1], [0, 1, 0, 1], [4.0, 2.0, 3.0, 5.0], [0.3, 0.2, 0.6, 0.5],
        [0.1, 0.2, 0.1, 0.2], n_users=2, n_contexts=1, n_actions=2,
    )  # fmt: skip
    everybody = clipped_responses(plain.scaled(0.25))
    found = everybody.sampled(generator(0), 4).responses
    assert_allclose(found.plays, plain.plays)
    assert_allclose(found.within, plain.plays * [0.1, 0.2, 0.1, 0.2])


@pytest.mark.parametrize(("n_binary", "is_binary"), [(2, False), (3, True)])
def test_most_users_decide_whether_rewards_are_binary(n_binary: int, is_binary: bool) -> None:
    means = np.where(np.arange(4) < n_binary, 1.0, 1.4)
    variances = np.zeros(4)
    tallies = tallies_from(
        range(4), np.zeros(4), np.full(4, 2.0), means, variances,
        n_users=5, n_contexts=1, n_actions=1,
    )  # fmt: skip
    everybody = clipped_responses(tallies)
    assert everybody.is_binary == is_binary
    found = everybody.sampled(generator(0), 4).responses
    assert found.means.max() == (1.0 if is_binary else pytest.approx(1.4))
