"""Tastes, profiles and crowds without a coalition against dense linear algebra."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.small import in_blocks, responses_from
from unswayed.arrays import FloatArray
from unswayed.learners.discount.responses.noise import Noise, top_directions
from unswayed.learners.discount.responses.residuals import Residuals, residuals_of
from unswayed.learners.discount.settings import TASTES
from unswayed.learners.discount.tastes import profiles as rooms
from unswayed.learners.discount.tastes import rounds
from unswayed.learners.discount.tastes.populations import Populations
from unswayed.learners.discount.tastes.profiles import (
    Profiler,
    Tastes,
    fit_tastes,
    has_tastes,
    profiler_for,
    without_coalition,
)
from unswayed.learners.discount.trial.verdicts import Verdict
from unswayed.randomness import generator

N_USERS, N_CONTEXTS, N_ACTIONS = 50, 4, 5
N_CELLS = N_CONTEXTS * N_ACTIONS


def data_of(rng: np.random.Generator) -> Residuals:
    """Return residuals with one direction of taste, of users with all kinds of weights."""
    users, cells = np.nonzero(rng.random((N_USERS, N_CELLS)) < 0.5)
    plays = rng.integers(1, 4, len(users)).astype(float)
    likes, loadings = rng.standard_normal(N_USERS), rng.standard_normal(N_CELLS)
    means = likes[users] * loadings[cells] + rng.standard_normal(len(users)) / np.sqrt(plays)
    responses = responses_from(
        users, cells, plays, means, n_users=N_USERS, n_contexts=N_CONTEXTS, n_actions=N_ACTIONS
    )
    ones = np.ones(N_CELLS)
    noise = Noise(0.2, 0.1 * ones, 1.5 * ones, ones, ones)
    return residuals_of(responses, rng.random(N_USERS), noise, np.float64)


def tastes_by_hand(data: Residuals, rng: np.random.Generator) -> Tastes:
    """Return twelve steps of EM for a factor model, user by user."""
    r, e, x, w = data.responses, data.worth, data.residuals, data.weights
    users = np.bincount(r.cells, w[r.users], N_CELLS)
    energy = np.bincount(r.cells, w[r.users] * e * x * x, N_CELLS)
    values, vectors = top_directions(r, np.sqrt(e) * x, w, 5, rng)
    loadings = vectors * np.sqrt(np.maximum(values, 0.0) / users.mean()) / 2.0
    left = np.full(N_CELLS, 0.7)
    for _ in range(12):
        squares, products = np.zeros((N_CELLS, 5, 5)), np.zeros((N_CELLS, 5))
        for i in range(N_USERS):
            own = slice(r.indptr[i], r.indptr[i + 1])
            L, h = loadings[r.cells[own]], e[own] / left[r.cells[own]]
            covariance = np.linalg.inv(np.eye(5) + (L.T * h) @ L)
            f = covariance @ (L.T @ (h * x[own]))
            for cell, worth, response in zip(r.cells[own], e[own], x[own], strict=True):
                squares[cell] += w[i] * worth * (covariance + np.outer(f, f))
                products[cell] += w[i] * worth * response * f
        for cell in range(N_CELLS):
            loadings[cell] = np.linalg.solve(squares[cell] + 10.0 * np.eye(5), products[cell])
        rest = np.array(
            [
                energy[j] - 2.0 * loadings[j] @ products[j] + loadings[j] @ squares[j] @ loadings[j]
                for j in range(N_CELLS)
            ]
        )
        rest = np.maximum(rest, 0.0)
        common = rest.sum() / users.sum()
        left = np.maximum((rest + 10.0 * common) / (users + 10.0), 0.15 * common)
    return Tastes(loadings, left)


def test_tastes_are_a_factor_model_with_shrunken_loadings(rng: np.random.Generator) -> None:
    data = data_of(rng)
    found, expected = fit_tastes(data, generator(1)), tastes_by_hand(data, generator(1))
    assert found.loadings.shape == (N_CELLS, 5)  # a direction for every four cells
    assert_allclose(found.loadings, expected.loadings, rtol=1e-6, atol=1e-8)
    assert_allclose(found.left, expected.left, rtol=1e-6)


def test_few_cells_have_one_direction_and_many_have_six(rng: np.random.Generator) -> None:
    for n_cells, rank in ((2, 1), (8, 2), (40, 6)):
        users, cells = np.nonzero(rng.random((40, n_cells)) < 0.9)
        means = rng.standard_normal(len(users))
        responses = responses_from(
            users, cells, np.ones(len(users)), means,
            n_users=40, n_contexts=1, n_actions=n_cells,
        )  # fmt: skip
        ones = np.ones(n_cells)
        data = residuals_of(
            responses, np.ones(40), Noise(0.0, 0 * ones, ones, ones, ones), np.float64
        )
        assert fit_tastes(data, rng).loadings.shape == (n_cells, rank)


def test_profiles_are_tastes_and_what_is_said_beyond_them(rng: np.random.Generator) -> None:
    data, cell_means = data_of(rng), rng.random(N_CELLS)
    found = profiler_for(data, cell_means, generator(2))
    tastes = fit_tastes(data, generator(2))
    assert_array_equal(found.tastes.loadings, tastes.loadings)
    assert (found.n_rivals, found.n_tastes) == (3, 5)
    ranks = (-cell_means.reshape(4, 5)).argsort(axis=1).argsort(axis=1).ravel()
    assert_array_equal(found.rank_of_cell, ranks)
    r, e, x = data.responses, data.worth, data.residuals
    raw = np.zeros((N_USERS, 8))
    for i in range(N_USERS):
        own = slice(r.indptr[i], r.indptr[i + 1])
        cells = r.cells[own]
        L, h = tastes.loadings[cells], e[own] / tastes.left[cells]
        raw[i, :5] = np.linalg.solve(np.eye(5) + (L.T * h) @ L, L.T @ (h * x[own]))
        beyond = (x[own] - L @ raw[i, :5]) / np.sqrt(tastes.left[cells])
        for rank in range(3):
            is_it = ranks[cells] == rank
            said = e[own][is_it] @ beyond[is_it]
            raw[i, 5 + rank] = said / np.sqrt(1.0 + e[own][is_it].sum())
    kept = raw[data.weights > 0.5]
    centre = np.median(kept, axis=0)
    spread = 1.4826 * np.median(np.abs(kept - centre), axis=0)
    assert_allclose(found.centre, centre, rtol=1e-9)
    assert_allclose(found.spread, spread, rtol=1e-9)
    assert_allclose(found.of(data), np.clip((raw - centre) / spread, -4.0, 4.0), atol=1e-9)
    tight = replace(found, spread=spread / 10.0).of(data)
    assert (tight.min(), tight.max()) == (-4.0, 4.0)


def test_of_two_actions_there_are_two_rivals_and_equal_means_rank_as_they_stand(
    rng: np.random.Generator,
) -> None:
    users, cells = np.nonzero(rng.random((40, 8)) < 0.9)
    responses = responses_from(
        users, cells, np.ones(len(users)), rng.standard_normal(len(users)),
        n_users=40, n_contexts=4, n_actions=2,
    )  # fmt: skip
    ones = np.ones(8)
    data = residuals_of(responses, np.ones(40), Noise(0.0, 0 * ones, ones, ones, ones), np.float64)
    found = profiler_for(data, np.array([1.0, 1.0, 0.0, 2.0, 3.0, 1.0, 0.0, 0.0]), rng)
    assert found.rank_of_cell.tolist() == [0, 1, 1, 0, 0, 1, 0, 1]
    assert found.n_rivals == 2
    assert found.of(data).shape == (40, found.n_tastes + 2)


def test_numbers_that_are_the_same_for_all_have_a_spread(rng: np.random.Generator) -> None:
    data = data_of(rng)
    silent = replace(data, residuals=np.zeros_like(data.residuals))
    found = profiler_for(silent, np.zeros(N_CELLS), generator(2))
    assert found.spread.tolist() == [1e-6] * len(found.spread)


def test_a_crowd_is_dealt_its_responses_by_normal_numbers(rng: np.random.Generator) -> None:
    data, own = data_of(rng), generator(3)
    tastes = Tastes(rng.standard_normal((N_CELLS, 2)), 0.5 + rng.random(N_CELLS))
    found = without_coalition(data, tastes, generator(3))
    r, e = data.responses, data.worth
    likes = own.standard_normal((N_USERS, 2))
    drawn = own.standard_normal(len(r.cells))
    latent = np.empty(len(r.cells))
    for k, (user, cell) in enumerate(zip(r.users, r.cells, strict=True)):
        noise = np.sqrt(tastes.left[cell] / e[k])
        spread = np.sqrt(np.square(tastes.loadings[cell]).sum() + noise**2)
        latent[k] = (tastes.loadings[cell] @ likes[user] + noise * drawn[k]) / spread
    for cell in range(N_CELLS):
        here = np.flatnonzero(r.cells == cell)
        dealt = found.residuals[here][np.argsort(latent[here])]
        assert_array_equal(dealt, np.sort(data.residuals[here]))
    assert found.weights is data.weights


class Accused(SimpleNamespace):
    """What is read of an accusation."""


def accused(spread: float, shifts: FloatArray, probabilities: FloatArray) -> Any:
    return Accused(spread_of_the_good=spread, shifts=shifts, probabilities=probabilities)


def users_along(rng: np.random.Generator, *directions: FloatArray, plays: float = 1.0) -> Any:
    """Return responses of 600 users of whom halves differ along directions."""
    sides = np.where(rng.random((600, len(directions))) < 0.5, 1.0, -1.0)
    means = sides @ np.array(directions).reshape(len(directions), 20)
    means = means + rng.standard_normal((600, 20))
    return in_blocks(
        responses_from(
            np.repeat(np.arange(600), 20), np.tile(np.arange(20), 600), np.full(12_000, plays),
            means.ravel(), within=np.full(12_000, np.nan if plays == 1.0 else plays - 1.0),
            n_users=600, n_contexts=4, n_actions=5,
        )
    )  # fmt: skip


def test_users_who_differ_along_other_directions_than_the_accused_have_tastes(
    rng: np.random.Generator,
) -> None:
    nobody, ones = np.zeros(600), np.ones(600)
    one, other = np.zeros((2, 20))
    one[:10], other[10:] = 0.5, 0.7
    plain = users_along(rng, np.zeros(20))
    assert not has_tastes(plain, ones, [], generator(0))
    along = users_along(rng, one)
    assert has_tastes(along, ones, [], generator(0))
    explained = [accused(0.0, one, nobody)]
    assert not has_tastes(along, ones, explained, generator(0))
    assert has_tastes(along, ones, [accused(0.0, other, nobody)], generator(0))
    both = users_along(rng, one, other)
    assert has_tastes(both, ones, explained, generator(0))
    assert not has_tastes(both, ones, [*explained, accused(0.0, other, nobody)], generator(0))
    # Good users who differ along the accused direction itself, beyond a tenth.
    assert not has_tastes(plain, ones, [accused(0.1, one, nobody)], generator(0))
    assert has_tastes(plain, ones, [accused(0.11, one, nobody)], generator(0))


def test_those_who_were_accused_or_discounted_have_no_say_about_tastes(
    rng: np.random.Generator,
) -> None:
    """A fifth of the users lies at one side; without them nobody differs."""
    responses = users_along(rng, np.zeros(20))
    (block,) = responses.blocks.map_blocks(lambda block: block)
    is_bad = np.arange(600) < 120
    lied = replace(block, means=block.means + 1.5 * is_bad[block.users])
    responses = in_blocks(lied)
    assert has_tastes(responses, np.ones(600), [], generator(0))
    assert not has_tastes(responses, (~is_bad).astype(float), [], generator(0))
    halves = np.where(is_bad, 0.5, 0.51)
    assert not has_tastes(responses, halves, [], generator(0))
    away = np.linspace(-1.0, 1.0, 20)
    found = [accused(0.0, away, is_bad.astype(float))]
    assert not has_tastes(responses, np.ones(600), found, generator(0))


@pytest.mark.parametrize(("taste", "is_taste"), [(0.3, False), (0.5, True)])
def test_a_share_between_users_beyond_an_eighth_is_a_taste(
    rng: np.random.Generator, taste: float, is_taste: bool
) -> None:
    """Own tastes for every cell, which no direction shows: shares .083 and .2."""
    responses = users_along(rng, np.zeros(20), plays=40.0)
    (block,) = responses.blocks.map_blocks(lambda block: block)
    means = taste * rng.standard_normal(12_000) + rng.standard_normal(12_000) / np.sqrt(40.0)
    assert has_tastes(in_blocks(replace(block, means=means)), np.ones(600), [], rng) == is_taste


def split(gain: float = 50.0, **options: Any) -> Populations:
    found = Populations(
        good=np.zeros(1),
        coalition=np.ones(1),
        root=np.eye(1),
        alikeness=1.0,
        log_odds=0.0,
        probabilities=np.array([0.9, 0.1, 0.6, 0.0]),
        mass=0.1,
        gain=gain,
    )
    return replace(found, **options)


def candidate(
    gain: float = 50.0, verdict: Verdict | None = None, aligned: float = 5.0, **options: Any
) -> rounds._Candidate:
    found = split(gain, **options)
    return rounds._Candidate(found, found.alikeness < 1.0, aligned, 0.2, 0.3, verdict)


NULLS = {False: 10.0, True: 30.0}


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (candidate(25.0), Verdict.WITHIN_CHANCE),  # 1.5 · 10 + 10 is not enough
        (candidate(25.1), Verdict.DISCOUNTED),
        (candidate(50.0, alikeness=0.5), Verdict.WITHIN_CHANCE),  # 1.5 · 30 + 10
        (candidate(56.0, alikeness=0.5), Verdict.DISCOUNTED),
        # Without clear alignment 10 accused users must bring a nat each beyond the null.
        (candidate(29.9, aligned=4.5, mass=0.2), Verdict.LIKE_A_TASTE),
        (candidate(30.0, aligned=4.5, mass=0.2), Verdict.DISCOUNTED),
        (candidate(29.9, aligned=4.51, mass=0.2), Verdict.DISCOUNTED),
        (candidate(99.0, Verdict.TOO_MANY), Verdict.TOO_MANY),
    ],
)
def test_a_split_is_believed_beyond_chance_and_taste(
    one: rounds._Candidate, verdict: Verdict
) -> None:
    judged, against = rounds._judged([one], NULLS, 100.0)
    assert judged is not None
    assert judged.verdict == verdict
    assert judged.found is one.found
    assert against == -np.inf


def test_the_largest_gain_that_is_believed_decides_and_those_against_it_are_named() -> None:
    contrary = np.array([0.1, 0.9, 0.2, 0.9])
    some = [
        candidate(60.0),
        candidate(90.0),
        candidate(70.0, probabilities=contrary),
        candidate(65.0, probabilities=contrary),
        candidate(500.0, Verdict.TOO_MANY),
    ]
    best, against = rounds._judged(some, NULLS, 100.0)
    assert best is not None
    assert (best.found.gain, against) == (90.0, 70.0)
    closest, against = rounds._judged([candidate(1.0), candidate(9.0), candidate(3.0)], NULLS, 1.0)
    assert closest is not None
    assert (closest.found.gain, closest.verdict) == (9.0, Verdict.WITHIN_CHANCE)
    assert rounds._judged([], NULLS, 1.0) == (None, -np.inf)
    assert TASTES.margin == 1.5


def test_a_round_says_what_was_found_among_tastes() -> None:
    one = candidate(50.0, Verdict.DISCOUNTED, alikeness=0.257)
    weights = np.array([1.0, 1.0, 0.5, 1.0])
    assert rounds._round(one, 0.4, 12.0, -3.0, weights).to_json() == {
        "stage": "tastes",
        "model": "profiles, alikeness 0.26",
        "taste_share": 0.4,
        "gain": 50.0,
        "null_gain": 12.0,
        "opposite_gain": -3.0,
        "alignment": 5.0,
        "accused": 1.5 / 4.0,
        "removed": 0.2,
        "stake": 0.3,
        "verdict": "discounted",
    }


def test_profiles_of_a_profiler_are_centred_and_scaled(rng: np.random.Generator) -> None:
    data = data_of(rng)
    tastes = Tastes(np.zeros((N_CELLS, 1)), np.ones(N_CELLS))
    ranks = np.zeros(N_CELLS, np.int64)
    profiler = Profiler(tastes, ranks, 1, np.array([0.0, 0.5]), np.array([1.0, 2.0]))
    worth = np.bincount(data.responses.users, data.worth)
    said = np.bincount(data.responses.users, data.worth * data.residuals) / np.sqrt(1.0 + worth)
    assert_allclose(profiler.of(data)[:, 1], np.clip((said - 0.5) / 2.0, -4.0, 4.0))
    assert rooms.FARTHEST == 4.0
