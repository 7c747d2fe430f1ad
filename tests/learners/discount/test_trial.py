"""The tests of an accusation, on numbers that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.learners.discount.small import grid_of, responses_from
from unswayed.arrays import FloatArray
from unswayed.learners.discount.responses.noise import measure_noise
from unswayed.learners.discount.settings import Trial
from unswayed.learners.discount.trial import aims, verdicts
from unswayed.learners.discount.trial.aims import (
    aims_by_chance,
    alignment,
    chance_of_aim,
    pooled_means,
    stake,
    unless_by_chance,
)
from unswayed.learners.discount.trial.verdicts import Discounted, Round, Verdict, held_to_aim
from unswayed.policy import best_known
from unswayed.randomness import generator

ROUND = Round(
    stage="mean",
    model="shifts",
    taste_share=0.25,
    gain=12.0,
    null_gain=float("nan"),
    opposite_gain=float("-inf"),
    alignment=4.5,
    accused=0.1,
    removed=0.2,
    stake=0.5,
    verdict=Verdict.DISCOUNTED,
)


def test_a_gain_must_exceed_the_margin_times_the_null_and_a_clear_gain() -> None:
    trial = Trial(rounds=1, nulls=1, margin=2.0, clear_gain=5.0)
    assert trial.needed(3.0) == 11.0
    assert trial.needed(-7.0) == 5.0
    assert not trial.is_beyond(11.0, 3.0)
    assert trial.is_beyond(11.001, 3.0)


def test_a_round_is_plain_json_without_numbers_that_are_not_finite() -> None:
    assert ROUND.to_json() == {
        "stage": "mean",
        "model": "shifts",
        "taste_share": 0.25,
        "gain": 12.0,
        "null_gain": None,
        "opposite_gain": None,
        "alignment": 4.5,
        "accused": 0.1,
        "removed": 0.2,
        "stake": 0.5,
        "verdict": "discounted",
    }


def test_rounds_that_are_overruled_or_contradicted_are_not_believed() -> None:
    too_many = replace(ROUND, verdict=Verdict.TOO_MANY)
    assert ROUND.overruled() == replace(ROUND, verdict=Verdict.LIKE_A_TASTE)
    assert too_many.overruled() == too_many
    before, after = np.ones(3), np.zeros(3)
    found = Discounted(after, True, [ROUND, too_many, ROUND])
    assert found.n_coalitions == 2
    dropped = found.contradicted(before)
    assert dropped.weights is before
    assert dropped.allows_tastes
    assert [r.verdict for r in dropped.rounds] == [
        "contradicted by the majority",
        "too many accused",
        "contradicted by the majority",
    ]
    assert dropped.n_coalitions == 0


def test_a_coalition_is_aimed_if_it_was_believed_and_is_clearly_aligned() -> None:
    aligned = replace(ROUND, alignment=4.51)
    refused = replace(aligned, verdict=Verdict.TOO_MANY)
    for rounds, is_aimed in (([], False), ([ROUND], False), ([refused], False)):
        assert Discounted(np.ones(1), False, rounds).is_aimed == is_aimed
    assert Discounted(np.ones(1), False, [ROUND, refused, aligned]).is_aimed


SMALL: dict[str, Any] = {  # users, cells, plays and means; two contexts of two actions
    "users": [0, 0, 1, 1, 2],
    "cells": [0, 2, 0, 1, 2],
    "plays": [1.0, 2.0, 3.0, 1.0, 2.0],
    "means": [1.0, 0.0, 0.0, 0.5, 1.0],
    "n_users": 3,
    "n_contexts": 2,
    "n_actions": 2,
}


def test_pooled_means_weigh_users_and_plays() -> None:
    responses = responses_from(**SMALL)
    found = pooled_means(responses, np.array([1.0, 0.5, 0.5]))
    assert_allclose(found, [[1.0 / 2.5, 0.5], [1.0 / 3.0, np.nan]])
    assert np.isnan(pooled_means(responses, np.array([1.0, 0.0, 1.0]))[0, 1])


def test_what_is_at_stake_is_the_gain_over_standing_decisions() -> None:
    """By the means after: [0.4, 0.5] and [1/3, unknown]; contexts have shares .25 and .75."""
    responses = responses_from(**SMALL, context_probabilities=[0.25, 0.75])
    after = np.array([1.0, 0.5, 0.5])
    assert stake(responses, np.array([0, 0]), after) == pytest.approx(0.25 * 0.1)
    assert stake(responses, np.array([1, 0]), after) == 0.0
    assert stake(responses, np.array([1, 1]), after) == 0.0  # against the unknown nothing is said


def test_the_accused_are_aligned_by_their_opinions_where_decisions_change(
    rng: np.random.Generator,
) -> None:
    means = rng.random((40, 3, 4))
    responses, weights, accused = grid_of(means), 0.5 + 0.5 * rng.random(40), rng.random(40)
    noise = measure_noise(responses, weights)
    standing, proposed = np.array([0, 1, 2]), np.array([3, 1, 0])
    theirs, others = weights * accused, weights * (1.0 - accused)
    of_theirs = np.average(means, axis=0, weights=theirs)
    of_others = np.average(means, axis=0, weights=others)
    errors = np.sqrt(noise.variances.reshape(3, 4) * (1 / theirs.sum() + 1 / others.sum()))
    opinions = (of_theirs - of_others) / errors
    preferred = opinions[0, 0] - opinions[0, 3] + opinions[2, 2] - opinions[2, 0]
    by_chance = 2.0 * (opinions[0].var() + opinions[2].var()) * 4.0 / 3.0
    found = alignment(responses, noise, weights, accused, standing=standing, proposed=proposed)
    assert found == pytest.approx(preferred / math.sqrt(by_chance))
    same = alignment(responses, noise, weights, accused, standing=standing, proposed=standing)
    assert same == 0.0


def test_opinions_need_more_than_half_a_response_on_both_sides(rng: np.random.Generator) -> None:
    """A cell that only the accused met, or hardly any of them, is no opinion."""
    means = rng.random((40, 2, 3))
    responses = grid_of(means)
    noise = measure_noise(responses, np.ones(40))
    decisions: dict[str, Any] = {"standing": np.array([0, 0]), "proposed": np.array([1, 2])}
    few, many = np.zeros(40), np.ones(40)
    few[:5] = 0.1  # half a response
    many[:5] = 0.9
    for accused in (few, many):
        assert alignment(responses, noise, np.ones(40), accused, **decisions) == 0.0
        accused[0] += 0.001 if accused is few else -0.001
        assert alignment(responses, noise, np.ones(40), accused, **decisions) != 0.0


def lift_by_hand(means: FloatArray, pull: FloatArray, clear: FloatArray) -> float:
    lifts = []
    for own, pulled, cleared in zip(means, pull, clear, strict=True):
        others = np.where(np.isfinite(own), own - pulled, -np.inf)
        lifts.append(cleared[own.argmax()] - cleared[others.argmax()])
    return float(np.mean(lifts))


def test_the_lift_is_by_how_much_what_wins_is_pulled_above_what_would() -> None:
    means = np.array([[[3.0, 2.0, -np.inf], [1.0, 5.0, 4.0]]])
    pull = np.array([[2.0, 0.5, 9.0], [0.0, 1.0, 3.0]])
    clear = np.array([[4.0, 1.0, 9.0], [0.0, 2.0, 8.0]])
    # Without the group: 1 and 1.5, the second wins; 1, 4 and 1, the second stays.
    assert aims._lift(means, pull, clear).tolist() == [1.5]


def chance_by_hand(
    pooled: FloatArray, without: FloatArray, errors: FloatArray, rng: np.random.Generator
) -> float:
    """Return the p-value by dealing the known means of each context to its known actions."""
    is_known = np.isfinite(pooled) & np.isfinite(without)
    pull = np.where(is_known, pooled - without, 0.0)
    clear = np.where(is_known, pull / errors, 0.0)
    observed = lift_by_hand(np.where(is_known, pooled, -np.inf), pull, clear)
    keys = rng.random((199, *pooled.shape))
    n_above = [1, 1]
    for draw in range(199):
        for kind, means in enumerate((pooled, without)):
            dealt = np.full(pooled.shape, -np.inf)
            for context in range(len(pooled)):
                known = np.flatnonzero(is_known[context])
                to = known[np.argsort(keys[draw, context, known])]
                dealt[context, to] = means[context, known]
            dealt += kind * pull
            n_above[kind] += lift_by_hand(dealt, pull, clear) >= observed - 1e-12
    return min(1.0, 2.0 * min(n_above) / 200)


@pytest.mark.parametrize("case", range(6))
def test_the_chance_of_an_aim_is_its_rank_among_permutations(
    case: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, errors = rng.normal(size=(4, 3)), 0.5 + rng.random((4, 3))
    pooled = without + rng.normal(size=(4, 3)) * [0.1, 1.0, 3.0][case % 3]
    if case > 2:
        pooled[1, 0] = without[2, 1] = np.nan
    expected = chance_by_hand(pooled, without, errors, generator(case))
    assert chance_of_aim(pooled, without, errors, generator(case)) == expected
    monkeypatch.setattr(aims, "PERMUTED_AT_ONCE", 7 * pooled.size)
    assert chance_of_aim(pooled, without, errors, generator(case)) == expected
    monkeypatch.setattr(aims, "PERMUTED_AT_ONCE", 1)
    assert chance_of_aim(pooled, without, errors, generator(case)) == expected


def test_where_nothing_turns_every_permutation_is_as_far() -> None:
    means = np.arange(12.0).reshape(3, 4)
    assert chance_of_aim(means, means, np.ones((3, 4)), generator(0)) == 1.0


def test_the_smallest_chance_is_one_in_a_hundred(rng: np.random.Generator) -> None:
    honest = rng.normal(size=(30, 6))
    pushed = honest.copy()
    pushed[np.arange(30), honest.argmin(axis=1)] += 9.0
    assert chance_of_aim(pushed, honest, np.ones((30, 6)), generator(0)) == 0.01


def test_robust_means_are_taken_where_what_they_leave_out_aims() -> None:
    """One draw for all seeds: a taste passes for an aim in one of ten."""
    rng = generator(0, "robust means")
    honest, errors = rng.normal(size=(30, 5)), np.ones((30, 5))
    pushed = honest.copy()
    pushed[np.arange(30), honest.argmin(axis=1)] += 9.0
    assert unless_by_chance(pushed, honest, errors, generator(0)) is honest
    taste = honest + 0.5 * rng.normal(size=(30, 5))
    assert (best_known(taste) != best_known(honest)).any()
    assert unless_by_chance(taste, honest, errors, generator(0)) is taste
    higher = pushed + 1.0  # decides alike
    assert unless_by_chance(pushed, higher, errors, generator(0)) is pushed


@pytest.mark.parametrize(("level", "is_robust"), [(0.099, False), (0.1, True)])
def test_a_chance_of_a_tenth_is_small_enough(
    level: float, is_robust: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both of the last tests take an aim for clear up to and with their error rate."""
    means, robust = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    monkeypatch.setattr(aims, "chance_of_aim", lambda *_: 0.2 - level)
    found = unless_by_chance(means, robust, means, generator(0))
    assert (found is robust) == is_robust
    monkeypatch.setattr(verdicts, "aims_by_chance", lambda *_: 0.2 - level)
    responses = responses_from(**SMALL)
    judged = held_to_aim(ROUND, responses, np.ones(3), np.zeros(3), generator(0))
    assert judged.verdict == (Verdict.DISCOUNTED if is_robust else Verdict.LIKE_A_TASTE)


def test_errors_of_a_pull_grow_with_the_share_of_the_accused(rng: np.random.Generator) -> None:
    means = rng.random((50, 6, 3))
    responses, weights, accused = grid_of(means), 0.2 + rng.random(50), rng.random(50)
    theirs, mass = (weights * accused).sum(), weights.sum()
    expected = chance_of_aim(
        np.average(means, axis=0, weights=weights),
        np.average(means, axis=0, weights=weights * (1.0 - accused)),
        np.full((6, 3), math.sqrt(theirs / ((mass - theirs) * mass))),
        generator(4),
    )
    assert aims_by_chance(responses, weights, accused, generator(4)) == expected


def test_cells_that_the_accused_met_more_often_count_with_larger_errors() -> None:
    """Users 0 and 1 are accused; they met some cells alone, others once among many."""
    rng = generator(0, "unequal cells")
    users, cells = np.nonzero(rng.random((30, 12)) < np.linspace(0.2, 0.9, 12))
    plays, means = rng.integers(1, 5, len(users)).astype(float), rng.random(len(users))
    given: dict[str, Any] = {"n_users": 30, "n_contexts": 4, "n_actions": 3}
    responses = responses_from(users=users, cells=cells, plays=plays, means=means, **given)
    accused = (np.arange(30) < 10).astype(float)
    mass, theirs = (np.bincount(cells, plays * w[users], 12) for w in (np.ones(30), accused))
    assert ((mass > theirs) & (theirs > 0)).all()
    errors = np.sqrt(theirs / ((mass - theirs) * mass)).reshape(4, 3)
    expected = chance_of_aim(
        pooled_means(responses, np.ones(30)),
        pooled_means(responses, 1.0 - accused),
        errors,
        generator(5),
    )
    assert aims_by_chance(responses, np.ones(30), accused, generator(5)) == expected


def test_an_accusation_that_was_not_believed_is_not_asked_for_its_aim(
    rng: np.random.Generator,
) -> None:
    means = np.full((30, 8, 4), 0.5)
    means[:, :, 0] = 0.6
    means[:5, np.arange(8), 1 + np.arange(8) % 3] = 5.0
    responses, accused = grid_of(means), (np.arange(30) < 5).astype(float)
    assert held_to_aim(ROUND, responses, np.ones(30), accused, rng) is ROUND
    nobody = rng.random(30)
    judged = held_to_aim(ROUND, responses, np.ones(30), nobody, rng)
    assert judged == replace(ROUND, verdict=Verdict.LIKE_A_TASTE)
    refused = replace(ROUND, verdict=Verdict.TOO_MANY)
    assert held_to_aim(refused, responses, np.ones(30), nobody, rng) is refused
