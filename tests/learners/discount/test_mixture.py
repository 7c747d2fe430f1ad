"""The mixture of good users and a coalition, and the search for it, against plain formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from tests.learners.discount.small import responses_from
from unswayed.arrays import FloatArray
from unswayed.learners.discount.means.redescending import redescending_means
from unswayed.learners.discount.one_mean import mixture, search
from unswayed.learners.discount.one_mean.mixture import Accusation, Model, fit_coalitions
from unswayed.learners.discount.one_mean.search import (
    Finding,
    Null,
    rival_cells,
    search_coalitions,
    search_with_more_room,
    start_directions,
)
from unswayed.learners.discount.responses.noise import (
    Noise,
    measure_noise,
    permuted_within_cells,
    top_directions,
)
from unswayed.learners.discount.responses.residuals import Residuals, residuals_of
from unswayed.randomness import generator

N_USERS, N_CONTEXTS, N_ACTIONS = 120, 3, 5
N_CELLS = N_CONTEXTS * N_ACTIONS
EVERYWHERE = np.ones(N_CELLS)


def data_of(
    rng: np.random.Generator, *, dtype: Any = np.float64, is_binary: bool = False
) -> tuple[Residuals, Noise]:
    """Return residuals of users of whom a fifth is shifted, and their noise."""
    users, cells = np.nonzero(rng.random((N_USERS, N_CELLS)) < 0.6)
    plays = rng.integers(1, 4, len(users)).astype(float)
    shift = np.where(users < N_USERS // 5, np.where(cells % 2, 1.5, -1.5), 0.0)
    means = rng.random(N_CELLS)[cells] + shift + rng.standard_normal(len(users)) / np.sqrt(plays)
    if is_binary:
        means = np.rint(plays * special.expit(2.0 * means - 1.0)) / plays
    responses = responses_from(
        users, cells, plays, means, is_binary=is_binary,
        n_users=N_USERS, n_contexts=N_CONTEXTS, n_actions=N_ACTIONS,
    )  # fmt: skip
    weights = np.where(rng.random(N_USERS) < 0.1, 0.3, 0.6 + 0.4 * rng.random(N_USERS))
    noise = measure_noise(responses, weights, 0.2)
    return residuals_of(responses, weights, noise, dtype), noise


def fit_by_hand(data: Residuals, start: FloatArray, model: Model, n_steps: int) -> dict[str, Any]:
    """Return what EM finds along one line, with dense arrays."""
    r, w = data.responses, data.weights
    e, x = np.zeros((2, N_USERS, N_CELLS))
    e[r.users, r.cells], x[r.users, r.cells] = data.worth, data.residuals
    smallest, largest = 2.0 / N_USERS, model.largest_mass
    mass, total = w @ e, w @ (e * x)
    gammas = w * start
    log_odds = special.logit(np.clip(gammas.sum() / w.sum(), smallest, largest))
    for step in range(n_steps):
        ramp = min(1.0, (step + 1) / 8)
        theirs, of_theirs = gammas @ e, gammas @ (e * x)
        means = (total - of_theirs) / np.maximum(mass - theirs, 1e-9)
        shifts = of_theirs / np.maximum(theirs, 1e-9) - means
        kept = 1.0 - (ramp * model.shrinkage) ** 2 / np.maximum(shifts**2 * theirs, 1e-12)
        shifts = shifts * np.maximum(kept, 0.0) * model.cells
        scores, strengths = (e * (x - means)) @ shifts, e @ shifts**2
        before, last = log_odds, gammas
        gammas = w * special.expit(log_odds + scores - 0.5 * strengths)
        share = gammas.sum() / w.sum()
        if share > largest:
            log_odds = log_odds - np.log(share / largest)
        else:
            log_odds = special.logit(max(share, smallest))
        if ramp == 1.0 and np.abs(gammas - last).sum() < 1e-3 * gammas.sum():
            break
    ratios, prior = scores - 0.5 * strengths, special.expit(log_odds)
    gain = w @ np.logaddexp(np.log1p(-prior), np.log(prior) + ratios)
    gain += 0.5 * (2.0 * total * means - mass * means**2 - total**2 / mass).sum()
    is_good = (scores < 0.0) & (strengths > 1e-9)
    spread = 0.0
    if w[is_good].sum() >= 20.0:
        squares = scores[is_good] ** 2 / strengths[is_good]
        spread = float(np.average(squares, weights=w[is_good])) - 1.0
    return {
        "means": means,
        "shifts": shifts,
        "scores": scores,
        "strengths": strengths,
        "probabilities": special.expit(before + ratios),
        "mass": share,
        "raw_gain": gain,
        "spread_of_the_good": spread,
        "is_void": share > 1.1 * largest,
    }


def random_models(rng: np.random.Generator, n: int) -> list[Model]:
    return [
        Model(
            largest_mass=[0.25, 0.1, 0.02, 0.45][k % 4],
            shrinkage=[1.0, 3.0, 2.0][k % 3],
            cells=EVERYWHERE if k % 2 else (rng.random(N_CELLS) < 0.6).astype(float),
        )
        for k in range(n)
    ]


@pytest.mark.parametrize("n_steps", [1, 7, 8, 40])
@pytest.mark.parametrize("n_fits", [1, 3, 20])
def test_fits_are_em_along_a_line(
    rng: np.random.Generator, n_steps: int, n_fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty fits are made in two panels of sixteen lines, if memory is short."""
    monkeypatch.setattr(mixture, "PANEL_NUMBERS", 17 * N_USERS)
    data, _ = data_of(rng)
    data = replace(data, residuals=data.residuals + 0.2)  # the mean of all need not be zero
    starts, models = rng.random((N_USERS, n_fits)) ** 2, random_models(rng, n_fits)
    starts[: N_USERS // 5, ::2] = 0.9
    found = fit_coalitions(data.strips, starts, models, n_steps)
    for k, fit in zip(range(n_fits), found, strict=True):
        expected = fit_by_hand(data, starts[:, k], models[k], n_steps)
        for name, value in expected.items():
            assert_allclose(getattr(fit, name), value, rtol=2e-5, atol=2e-6, err_msg=name)
        assert fit.gain == (-np.inf if fit.is_void else fit.raw_gain)


def test_fits_in_single_precision_are_those_in_double_up_to_rounding(
    rng: np.random.Generator,
) -> None:
    data, _ = data_of(rng, dtype=np.float32)
    start, model = (np.arange(N_USERS) < 30).astype(float), random_models(rng, 1)[0]
    (found,) = fit_coalitions(data.strips, start[:, None].astype(np.float32), [model], 5)
    expected = fit_by_hand(data, start, model, 5)
    assert found.scores.dtype == np.float32
    assert found.raw_gain == pytest.approx(expected["raw_gain"], rel=1e-3)
    assert_allclose(found.probabilities, expected["probabilities"], atol=1e-3)


def test_panels_are_filled_up_to_a_multiple_of_eight_lines() -> None:
    assert mixture._filled(np.array([4])).tolist() == [4]
    assert mixture._filled(np.array([4, 7, 9])).tolist() == [4, 7, 9, 4, 7, 9, 4, 7]
    assert mixture._filled(np.arange(8)).tolist() == list(range(8))
    assert len(mixture._filled(np.arange(9))) == 16


def test_models_among_rivals_follow_the_rivals() -> None:
    other = np.zeros(N_CELLS)
    free = Model(largest_mass=0.2, shrinkage=1.0, cells=EVERYWHERE)
    assert free.among(other) is free
    rivals = replace(free, rivals_only=True)
    assert rivals.among(other).cells is other
    assert rivals.among(other).largest_mass == 0.2


def test_searches_start_along_eigenvectors_winners_and_runners_up(
    rng: np.random.Generator,
) -> None:
    data, _ = data_of(rng)
    cell_means = rng.random(N_CELLS)
    found = start_directions(data, cell_means, generator(1))
    assert found.shape == (N_CELLS, 4 + 3)
    _, vectors = top_directions(
        data.responses, np.sqrt(data.worth) * data.residuals, data.weights, 4, generator(1)
    )
    assert_allclose(found[:, :4], vectors)
    order = np.argsort(-cell_means.reshape(3, 5), axis=1)
    winners, runners_up = np.zeros((2, 3, 5))
    for context in range(3):
        winners[context, order[context, 0]] = 1.0
        runners_up[context, order[context, 1]] = 1.0
    for column, expected in enumerate((winners, runners_up, winners - runners_up)):
        assert_allclose(found[:, 4 + column], expected.ravel() / data.deviations)
    rivals = rival_cells(data.responses, cell_means).reshape(3, 5)
    for context in range(3):
        assert np.flatnonzero(rivals[context]).tolist() == sorted(order[context, :3])


def dense(data: Residuals) -> tuple[FloatArray, FloatArray]:
    e, x = np.zeros((2, N_USERS, N_CELLS))
    users, cells = data.responses.users, data.responses.cells
    e[users, cells], x[users, cells] = data.worth, data.residuals
    return e, x


def test_guesses_are_how_far_out_kept_users_lie_both_ways(rng: np.random.Generator) -> None:
    data, _ = data_of(rng)
    directions = rng.standard_normal((N_CELLS, 2))
    directions[:, 1] = 0.0
    found = search._guesses(data, directions)
    e, x = dense(data)
    scores, strengths = (e * x) @ directions[:, 0], e @ directions[:, 0] ** 2
    z = np.where(data.weights > 0.5, scores / np.sqrt(strengths), 0.0)
    assert len(found) == 4
    assert_allclose(found[0], z)
    assert_allclose(found[1], -z)
    assert not found[2].any()


def test_suspects_are_the_share_farthest_out_if_four_lie_out_at_all() -> None:
    guess = np.array([5.0, 4.0, 3.0, 2.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    (found,) = search._suspects([guess], 0.2)
    assert np.flatnonzero(found).tolist() == [0, 1]
    assert search._suspects([np.where(guess == 2.0, 0.0, guess)], 0.2) == []
    (many,) = search._suspects([guess], 0.45)
    assert np.flatnonzero(many).tolist() == [0, 1, 2, 3]  # the cut is never below zero


def test_leaning_users_respond_where_the_means_lean(rng: np.random.Generator) -> None:
    data, _ = data_of(rng)
    data = replace(data, residuals=3.0 * data.residuals)
    r, w = data.responses, data.weights
    e, x = dense(data)
    mean = (w @ (e * x)) / (w @ e)
    order, starts = (
        np.argsort(r.cells, kind="stable"),
        np.searchsorted(np.sort(r.cells), np.arange(N_CELLS + 1)),
    )
    centres = redescending_means(
        starts, data.worth[order], data.residuals[order], w[r.users[order]], EVERYWHERE, 1.5, 3.0
    )
    z = np.sign(mean - centres) * (x - centres) * np.sqrt(e) - 2.0
    expected = np.where((z > 0) & (e > 0), z**2, 0.0).sum(axis=1) * (w > 0.5)
    assert_allclose(search._leaning(data), expected, rtol=1e-9)
    assert expected.any()


def accusation(**options: Any) -> Accusation:
    zeros = np.zeros(N_USERS)
    fields: dict[str, Any] = {
        "means": np.zeros(N_CELLS),
        "shifts": np.ones(N_CELLS),
        "probabilities": zeros,
        "scores": zeros,
        "strengths": zeros,
        "spread_of_the_good": 0.0,
        "mass": 0.1,
        "raw_gain": 1.0,
        "is_void": False,
    }
    return Accusation(**(fields | options))


@pytest.mark.parametrize(("mass", "share"), [(0.1, 0.1), (0.001, 0.01), (0.9, 0.45)])
def test_the_other_tail_has_as_many_users(
    rng: np.random.Generator, mass: float, share: float
) -> None:
    data, _ = data_of(rng)
    scores, strengths = rng.standard_normal(N_USERS), rng.random(N_USERS)
    strengths[5] = 0.0
    found = search._other_tail(data, accusation(scores=scores, strengths=strengths, mass=mass))
    has_say = (data.weights > 0.5) & (strengths > 0)
    z = np.full(N_USERS, -np.inf)
    z[has_say] = -scores[has_say] / np.sqrt(strengths[has_say])
    cut = max(np.sort(z)[int((1.0 - share) * (N_USERS - 1))], 0.0)
    assert_array_equal(found, z > cut)
    assert found.any()
    nobody = search._other_tail(data, accusation(scores=np.abs(scores), strengths=strengths))
    assert not nobody.any()


def searched_by_hand(data: Residuals, directions: FloatArray, models: list[Model]) -> list[Finding]:
    """Return the best of the two best starts of each model after long fits, both ways."""
    found = []
    for model in models:
        guesses = [*search._guesses(data, directions * model.cells[:, None]), search._leaning(data)]
        starts = search._suspects(guesses, 0.2)
        short = [fitted(data, start, model, 5) for start in starts]
        short.sort(key=lambda fit: -fit.gain)
        long = [fitted(data, fit.probabilities, model, 25) for fit in short[:2]]
        best = max(long, key=lambda fit: fit.gain)
        other = fitted(data, search._other_tail(data, best), model, 25)
        found.append(search._both_ways(best, other))
    return found


def fitted(data: Residuals, start: Any, model: Model, n_steps: int) -> Accusation:
    (found,) = fit_coalitions(data.strips, start[:, None].astype(np.float64), [model], n_steps)
    return found


def test_a_search_fits_the_best_starts_of_each_model_for_long(rng: np.random.Generator) -> None:
    data, noise = data_of(rng)
    directions = start_directions(data, noise.means, generator(2))
    rivals = rival_cells(data.responses, noise.means)
    models = [
        Model(largest_mass=0.25, shrinkage=1.0, cells=EVERYWHERE),
        Model(largest_mass=0.25, shrinkage=3.0, cells=EVERYWHERE),
        Model(largest_mass=0.25, shrinkage=1.0, cells=rivals, rivals_only=True),
    ]
    found = search_coalitions(data, directions, models, adversarial_fraction=0.2)
    for one, other in zip(found, searched_by_hand(data, directions, models), strict=True):
        assert one.accusation.gain == pytest.approx(other.accusation.gain, rel=1e-5)
        assert one.opposite_gain == pytest.approx(other.opposite_gain, rel=1e-5)
        assert_allclose(one.accusation.probabilities, other.accusation.probabilities, atol=1e-4)
    assert found[0].accusation.gain > 20.0


def test_where_nobody_lies_out_nobody_is_accused(rng: np.random.Generator) -> None:
    data, _ = data_of(rng)
    silent = replace(data, residuals=np.zeros_like(data.residuals))
    model = Model(largest_mass=0.25, shrinkage=1.0, cells=EVERYWHERE)
    (found,) = search_coalitions(silent, np.ones((N_CELLS, 1)), [model], adversarial_fraction=0.2)
    assert found.opposite_gain == -np.inf
    assert not found.accusation.shifts.any()


def test_with_more_room_a_fit_goes_on_from_where_it_was(rng: np.random.Generator) -> None:
    data, _ = data_of(rng)
    start = np.where(np.arange(N_USERS) < 30, 0.8, 0.1)
    model = Model(largest_mass=0.45, shrinkage=1.0, cells=EVERYWHERE)
    before = Finding(accusation(probabilities=start), 0.0)
    (found,) = search_with_more_room(data, [before], [model])
    best = fitted(data, start, model, 25)
    expected = search._both_ways(best, fitted(data, search._other_tail(data, best), model, 25))
    assert found.accusation.gain == pytest.approx(expected.accusation.gain)
    assert found.opposite_gain == pytest.approx(expected.opposite_gain)
    assert search_with_more_room(data, [], []) == []


def test_a_null_exchanges_responses_within_their_cells(rng: np.random.Generator) -> None:
    data, noise = data_of(rng)
    null = Null(data, noise, 0.2, generator(3))
    copy, means = null._copy
    own = generator(3)
    worth, moved = permuted_within_cells(
        data.responses, data.weights, own, data.worth, data.residuals
    )
    assert_array_equal(copy.worth, worth)
    assert_array_equal(copy.residuals, moved)
    w = data.weights[data.responses.users]
    shifts = np.bincount(data.responses.cells, w * worth * moved) / np.bincount(
        data.responses.cells, w * worth
    )
    assert_allclose(means, noise.means + data.deviations * shifts)
    model = Model(largest_mass=0.25, shrinkage=1.0, cells=EVERYWHERE)
    among = Model(largest_mass=0.45, shrinkage=2.0, cells=np.zeros(N_CELLS), rivals_only=True)
    starts = start_directions(copy, means, own)
    rivals = rival_cells(copy.responses, means)
    stated = [model, replace(among, cells=rivals, largest_mass=0.25)]
    first, second = search_coalitions(copy, starts, stated, adversarial_fraction=0.2)
    (roomy,) = search_with_more_room(copy, [second], [replace(among, cells=rivals)])
    assert null.gains([model, among]) == [first.accusation.raw_gain, roomy.accusation.raw_gain]
    other = null.fresh()
    assert not np.array_equal(other._copy[0].residuals, moved)
    assert other.gains([model]) != null.gains([model])


def likely_by_hand(noise: Noise, rng: np.random.Generator) -> FloatArray:
    is_met, mass, means = noise.mass > 0, noise.mass, np.clip(noise.means, 0.0, 1.0)
    centre = np.average(means[is_met], weights=mass[is_met])
    scatter = np.average((means[is_met] - centre) ** 2, weights=mass[is_met])
    chance, of_chance = centre * (1.0 - centre), is_met.sum() / mass.sum()
    between = np.clip(
        (scatter - chance * of_chance) / (1.0 - of_chance), 1e-4 * chance, 0.99 * chance
    )
    prior = chance / between - 1.0
    yes = prior * centre + mass * means
    return np.asarray(rng.beta(yes + 1e-9, prior + mass - yes + 1e-9))


@pytest.mark.parametrize("scatter", [0.0, 0.2, 1.0])
def test_likely_means_are_drawn_from_a_beta_posterior(scatter: float) -> None:
    means = 0.4 + 0.5 * scatter * np.linspace(-1.0, 1.2, 8)
    mass = np.array([5.0, 9.0, 0.0, 20.0, 7.0, 3.0, 8.0, 11.0])
    noise = Noise(0.0, means, np.ones(8), mass, mass)
    found = search._likely_means(noise, generator(4))
    assert_allclose(found, likely_by_hand(noise, generator(4)), rtol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_binary_nulls_are_drawn_anew_with_tastes_of_their_own(
    rng: np.random.Generator, share: float
) -> None:
    data, noise = data_of(rng, is_binary=True)
    noise = replace(noise, taste_share=share)
    responses, own = data.responses, generator(5)
    found = search._binary_responses(responses, noise, generator(5))
    p = np.clip(likely_by_hand(noise, own), 0.001, 0.999)[responses.cells]
    if share > 0.0:
        certainty = max((1.0 - share) / share, 0.01)
        p = own.beta(p * certainty, (1.0 - p) * certainty)
    plays = np.maximum(np.rint(responses.plays), 1).astype(np.int64)
    assert_allclose(found, own.binomial(plays, p) / plays)
    null = Null(data, noise, 0.2, generator(5))
    copy, means = null._copy
    drawn = replace(responses, means=found)
    measured = measure_noise(drawn, data.weights, share)
    assert_allclose(means, measured.means)
    expected = residuals_of(drawn, data.weights, measured, np.float64)
    assert_allclose(copy.residuals, expected.residuals)
    assert copy.residuals.dtype == np.float64
