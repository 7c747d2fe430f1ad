"""Bounded, shrunken and redescending means against loops over single entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.small import in_blocks, responses_from
from unswayed.arrays import FloatArray
from unswayed.learners.discount.means.bounded import (
    _third,
    _variances,
    cell_values,
    shrunken_means,
)
from unswayed.learners.discount.means.redescending import Leaning, leaning_cells, upright_means
from unswayed.learners.discount.responses.noise import Noise
from unswayed.learners.discount.responses.responses import Responses
from unswayed.randomness import generator

N_USERS, N_CONTEXTS, N_ACTIONS = 40, 3, 4
N_CELLS = N_CONTEXTS * N_ACTIONS


def random_responses(rng: np.random.Generator, *, is_binary: bool = False) -> Responses:
    """Return responses to some cells; nobody met the last one, and busy users met cell 0."""
    is_met = rng.random((N_USERS, N_CELLS)) < 0.5
    is_met[:, -1] = False
    users, cells = np.nonzero(is_met)
    plays = rng.integers(1, 6, len(users)).astype(float)
    plays[cells == 0] *= rng.integers(1, 30, (cells == 0).sum())
    means = rng.normal(1.0, 1.0, len(users)) + 0.3 * cells
    if is_binary:
        means = rng.random(len(users))
    within = np.where(rng.random(len(users)) < 0.2, np.nan, rng.random(len(users)) * plays)
    return responses_from(
        users,
        cells,
        plays,
        means,
        rewards=means + 0.01,
        within=within,
        n_users=N_USERS,
        n_contexts=N_CONTEXTS,
        n_actions=N_ACTIONS,
        is_binary=is_binary,
    )


def third_largest(values: list[float]) -> float:
    return sorted([0.0, 0.0, 0.0, *values])[-3]


def values_by_hand(
    r: Responses, weights: FloatArray
) -> tuple[FloatArray, dict[str, FloatArray], float]:
    """Return means with bounded influence, sums for their variances, and the share cut off."""
    entries = [
        (int(u), int(c), float(n), float(y), float(w))
        for u, c, n, y, w in zip(r.users, r.cells, r.plays, r.rewards, r.within, strict=True)
    ]
    cells = range(r.n_cells)
    most = [
        max(10.0, third_largest([weights[u] * n for u, c, n, _, _ in entries if c == cell]))
        for cell in cells
    ]
    centre, limits, one_play = np.zeros(r.n_cells), np.full(r.n_cells, 1e300), 1e300
    for step in range(4):
        if step:
            pulls: list[list[float]] = [[] for _ in cells]
            far = np.zeros(r.n_users)
            for u, c, n, y, _ in entries:
                pulls[c].append(min(weights[u] * n, most[c]) * abs(y - centre[c]))
                far[u] = max(far[u], min(weights[u], 1.0) * abs(y - centre[c]))
            one_play = third_largest(list(far))
            limits = np.array([max(third_largest(own), one_play) for own in pulls])
        sums = {name: np.zeros(r.n_cells) for name in ("mass", "pulls", "spread", "masses")}
        plays, total = 0.0, np.zeros(r.n_cells)
        for u, c, n, y, within in entries:
            mass = min(weights[u] * n, most[c])
            pull = float(np.clip(mass * (y - centre[c]), -limits[c], limits[c]))
            own = 0.0 if math.isnan(within) else within / n
            plays += weights[u] * n
            total[c] += pull
            sums["mass"][c] += mass
            sums["pulls"][c] += pull**2
            sums["spread"][c] += mass * (
                min(abs(y - centre[c]), one_play) ** 2 + min(own, one_play * one_play)
            )
            sums["masses"][c] += mass**2
        centre = centre + np.where(sums["mass"] > 0, total / np.maximum(sums["mass"], 1e-9), 0.0)
    centre[sums["mass"] == 0] = np.nan
    return centre, sums, 1.0 - sums["mass"].sum() / plays


@pytest.mark.parametrize("edges", [(), (15, 15, 31)])
def test_plays_and_pulls_count_up_to_the_third_largest(
    rng: np.random.Generator, edges: tuple[int, ...]
) -> None:
    responses, weights = random_responses(rng), rng.random(N_USERS) * 1.2
    found = cell_values(in_blocks(responses, *edges), weights)
    means, sums, bounded = values_by_hand(responses, weights)
    shape = (N_CONTEXTS, N_ACTIONS)
    assert_allclose(found.means, means.reshape(shape), rtol=1e-9)
    assert found.bounded == pytest.approx(bounded)
    assert found.bounded > 0.01
    variances = _variances(*(sums[name].reshape(shape) for name in sums))
    assert_allclose(found.variances, variances, rtol=1e-9)
    assert np.isinf(found.variances[-1, -1])
    assert_allclose(found.shrunken, shrunken_means(found.means, found.variances).means)


def test_the_third_largest_is_taken_over_all_blocks() -> None:
    found = _third([np.array([[1.0, 5.0, 9.0]]), np.array([[0.0, 0.0, 7.0]])])
    assert found.tolist() == [5.0]


def test_sampling_variances_share_a_context_and_a_part_between_users() -> None:
    """Two contexts of two actions; the last was never seen."""
    mass = np.array([[10.0, 30.0], [60.0, 0.0]])
    spread = np.array([[10.0, 50.0], [240.0, 0.0]])
    masses = np.array([[40.0, 90.0], [300.0, 0.0]])
    whole = 300.0 / 100.0
    first, second = (60.0 + 100 * whole) / (40.0 + 100), (240.0 + 100 * whole) / (60.0 + 100)
    again = np.array([30.0, 60.0, 240.0])
    expected_pulls = np.array([10.0, 30.0, 60.0]) * [first, first, second]
    of_again = again @ [first, first, second]
    for excess, between in ((0.25 * of_again, 0.25), (-5.0, 0.0), (3.0 * of_again, 1.0)):
        pulls = np.append(expected_pulls, 0.0)
        pulls[0] += excess
        found = _variances(mass, pulls.reshape(2, 2), spread, masses)
        expected = [
            first * (10.0 + between * 30.0) / 10.0**2,
            first * (30.0 + between * 60.0) / 30.0**2,
            second * (60.0 + between * 240.0) / 60.0**2,
            np.inf,
        ]
        assert_allclose(found.ravel(), expected)


def test_masses_below_one_have_no_repetition() -> None:
    found = _variances(
        np.full((1, 1), 0.5), np.full((1, 1), 9.0), np.full((1, 1), 2.0), np.full((1, 1), 0.25)
    )
    assert_allclose(found, (2.0 + 100 * 4.0) / 100.5 * 0.5 / 0.25)


def test_rewards_that_never_vary_have_a_variance_that_is_hardly_anything() -> None:
    found = _variances(np.ones((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2)))
    assert (found > 0.0).all()
    assert found.max() < 1e-100


def shrunken_by_hand(means: FloatArray, variances: FloatArray) -> tuple[FloatArray, list[float]]:
    """Return posterior means and variances of effects after sixty steps, cell by cell."""
    n_contexts, n_actions = means.shape
    seen = [
        (s, a)
        for s in range(n_contexts)
        for a in range(n_actions)
        if math.isfinite(means[s, a]) and math.isfinite(variances[s, a])
    ]
    y, q = dict.fromkeys(seen, 0.0), dict.fromkeys(seen, 0.0)
    for at in seen:
        y[at], q[at] = float(means[at]), 1.0 / float(variances[at])
    total = sum(q.values())
    centre = sum(q[at] * y[at] for at in seen) / total
    least = 1e-3 * len(seen) / total
    spread = (sum(q[at] * (y[at] - centre) ** 2 for at in seen) - len(seen)) / total
    of_contexts = of_actions = of_cells = max(spread / 3.0, least)
    contexts, actions = [0.0] * n_contexts, [0.0] * n_actions
    cells = dict.fromkeys(seen, 0.0)
    for _ in range(60):
        if n_contexts > 1:
            squares = 0.0
            for s in range(n_contexts):
                here = [at for at in seen if at[0] == s]
                known = sum(q[at] for at in here) + 1.0 / of_contexts
                rest = sum(q[at] * (y[at] - centre - actions[at[1]] - cells[at]) for at in here)
                contexts[s] = rest / known
                squares += contexts[s] ** 2 + 1.0 / known
            of_contexts = max(squares / n_contexts, 1e-3 * least)
        if n_contexts >= 3:
            squares = 0.0
            for a in range(n_actions):
                here = [at for at in seen if at[1] == a]
                known = sum(q[at] for at in here) + 1.0 / of_actions
                rest = sum(q[at] * (y[at] - centre - contexts[at[0]] - cells[at]) for at in here)
                actions[a] = rest / known
                squares += actions[a] ** 2 + 1.0 / known
            of_actions = max(squares / n_actions, 1e-3 * least)
        squares = 0.0
        for at in seen:
            known = q[at] + 1.0 / of_cells
            cells[at] = q[at] * (y[at] - centre - contexts[at[0]] - actions[at[1]]) / known
            squares += cells[at] ** 2 + 1.0 / known
        of_cells = max(squares / len(seen), least)
        rest = sum(q[at] * (y[at] - contexts[at[0]] - actions[at[1]] - cells[at]) for at in seen)
        centre = rest / total
    result = np.full(means.shape, np.nan)
    for s, a in seen:
        result[s, a] = centre + contexts[s] + actions[a] + cells[s, a]
    return result, [of_contexts, of_actions, of_cells]


@pytest.mark.parametrize("shape", [(1, 4), (2, 3), (3, 2), (5, 4)])
@pytest.mark.parametrize("noise", [0.01, 1.0, 100.0])
def test_shrinkage_is_that_of_the_steps_cell_by_cell(
    rng: np.random.Generator, shape: tuple[int, int], noise: float
) -> None:
    means = 5.0 + rng.normal(size=(shape[0], 1)) + rng.normal(size=shape)
    variances = noise * (0.5 + rng.random(shape))
    means[0, -1] = np.nan
    variances[-1, 0] = np.inf
    found = shrunken_means(means, variances)
    expected, effects = shrunken_by_hand(means, variances)
    assert_allclose(found.means, expected, rtol=1e-9)
    assert_allclose(found[1:], effects, rtol=1e-7)


def test_where_nothing_was_seen_nothing_is_known() -> None:
    found = shrunken_means(np.full((2, 3), np.nan), np.full((2, 3), np.inf))
    assert np.isnan(found.means).all()
    assert found.means.shape == (2, 3)
    assert found[1:] == (0.0, 0.0, 0.0)


def redescended_by_hand(r: Responses, weights: FloatArray, noise: Noise) -> FloatArray:
    """Return redescending means of all cells; worth of entries as ρ + (1 − ρ)/n says."""
    centres = np.zeros(r.n_cells)
    for cell in range(r.n_cells):
        own = np.flatnonzero((r.cells == cell) & (weights[r.users] > 0.05))
        if len(own) == 0:
            continue
        y, w = r.means[own], weights[r.users[own]]
        worth = 1.0 / (noise.taste_share + (1.0 - noise.taste_share) / r.plays[own])
        deviation = math.sqrt(noise.variances[cell])
        centre = float(np.median(y))
        for _ in range(12):
            z = np.abs(y - centre) * np.sqrt(worth) / deviation
            share = np.where(z > 1.5, 0.5 * (1.0 + np.cos(np.pi * (z - 1.5) / 1.5)), 1.0)
            mass = np.where(z < 3.0, share, 0.0) * worth * w
            if mass.sum() == 0.0:
                break
            last, centre = centre, float(mass @ y / mass.sum())
            if abs(centre - last) < 0.01 * deviation / math.sqrt(float(worth @ w)):
                break
        centres[cell] = centre
    return centres


def noise_by_hand(rng: np.random.Generator, r: Responses) -> Noise:
    users = np.bincount(r.cells, minlength=r.n_cells).astype(float)
    return Noise(
        taste_share=0.3,
        means=rng.normal(1.5, 0.5, r.n_cells),
        variances=0.5 + rng.random(r.n_cells),
        users=users,
        mass=2.0 * users,
    )


@pytest.mark.parametrize("edges", [(), (15, 15, 31)])
def test_cells_lean_if_they_lean_otherwise_than_the_others(
    rng: np.random.Generator, edges: tuple[int, ...]
) -> None:
    responses, weights = random_responses(rng), rng.random(N_USERS)
    noise = noise_by_hand(rng, responses)
    noise.means[3] += 9.0
    found = leaning_cells(in_blocks(responses, *edges), noise, weights)
    centres = redescended_by_hand(responses, weights, noise)
    deviations = np.sqrt(noise.variances)
    leans = (noise.means - centres) / deviations
    is_met = noise.mass > 0
    common = np.median(leans[is_met])
    clear = np.abs(leans - common) * np.sqrt(noise.mass)
    is_far = is_met & (clear > 4.5 * 1.4826 * np.median(clear[is_met]))
    assert_allclose(found.centres, centres + common * deviations, rtol=1e-4)
    assert_array_equal(found.is_leaning, is_far)
    assert found.is_leaning[3]
    assert not found.is_leaning[-1]


def test_leans_have_a_least_deviation(rng: np.random.Generator) -> None:
    """If all but one cell lean exactly alike, a quarter of a standard error is usual."""
    responses, weights = random_responses(rng), np.ones(N_USERS)
    noise = noise_by_hand(rng, responses)
    centres = redescended_by_hand(responses, weights, noise)
    deviations = np.sqrt(noise.variances)
    just = 4.5 * 0.25 / np.sqrt(noise.mass[5])
    for lean, is_leaning in ((0.98 * just, False), (1.02 * just, True)):
        means = centres + 0.2 * deviations
        means[5] += lean * deviations[5]
        known = Noise(0.3, means, noise.variances, noise.users, noise.mass)
        found = leaning_cells(in_blocks(responses), known, weights)
        assert found.is_leaning[5] == is_leaning
        assert found.is_leaning.sum() == is_leaning


def test_binary_cells_have_a_shape_only_with_enough_plays(rng: np.random.Generator) -> None:
    responses, weights = random_responses(rng, is_binary=True), np.ones(N_USERS)
    users = np.full(N_CELLS, 10.0)
    given: dict[str, Any] = {"taste_share": 0.3, "users": users, "mass": np.full(N_CELLS, 60.0)}
    means = np.full(N_CELLS, 0.5)
    means[2] = 7.0
    # Plays times variance are 15 for 10 users at .25; that is not more than one and a half.
    variances = np.full(N_CELLS, 0.25)
    nothing = leaning_cells(
        in_blocks(responses), Noise(means=means, variances=variances, **given), weights
    )
    assert not nothing.is_leaning.any()
    assert nothing.centres is means
    for n_shapes in (3, 4):
        variances = np.full(N_CELLS, 0.25)
        variances[:n_shapes] = 0.2501
        found = leaning_cells(
            in_blocks(responses), Noise(means=means, variances=variances, **given), weights
        )
        assert found.is_leaning.any() == (n_shapes == 4)
        assert not found.is_leaning[n_shapes:].any()


def test_leaning_cells_stand_upright_if_their_leans_aim(rng: np.random.Generator) -> None:
    upright = rng.normal(size=(30, 5))
    worst = upright.argmin(axis=1)
    means = upright.copy()
    means[np.arange(30), worst] += 9.0
    leans = np.zeros((30, 5), np.bool_)
    leans[np.arange(30), worst] = True
    centres = np.where(leans, upright, 77.0)  # centres of other cells are not read
    leaning = Leaning(leans.ravel(), centres.ravel())
    found = upright_means(means, np.ones((30, 5)), leaning, generator(0))
    assert_array_equal(found, upright)
    nobody = Leaning(np.zeros(150, np.bool_), centres.ravel())
    assert upright_means(means, np.ones((30, 5)), nobody, generator(0)) is means
