"""Moments of users' preferences, against all pairs and triples of their plays."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.learners.discount.small import grid_of, in_blocks, responses_from
from unswayed.learners.discount.trial import majority
from unswayed.learners.discount.trial.aims import pooled_means
from unswayed.learners.discount.trial.majority import Preferences, contradicts


def test_two_populations_have_the_moments_that_give_the_majority_away() -> None:
    """A fifth of the users at 5 and the others at 1: variance 2.56, third moment 6.144."""
    found = Preferences(mean=1.8, variance=2.56, skew=6.144, skew_error=1.0)
    assert found.of_the_majority == pytest.approx(1.0)
    mirrored = Preferences(mean=-1.8, variance=2.56, skew=-6.144, skew_error=1.0)
    assert mirrored.of_the_majority == pytest.approx(-1.0)
    assert Preferences(2.0, 0.0, 1.0, 1.0).of_the_majority == 2.0
    assert Preferences(2.0, -1.0, 1.0, 1.0).of_the_majority == 2.0
    assert not Preferences(0.0, 1.0, -3.0, 1.0).is_minority_opposed
    assert Preferences(0.0, 1.0, -3.001, 1.0).is_minority_opposed
    assert not Preferences(0.0, 1.0, 30.0, 1.0).is_minority_opposed


def test_moments_are_sums_over_different_plays_of_a_user(rng: np.random.Generator) -> None:
    """By trying all pairs, and all triples that do not lie in one cell."""
    signs, centre, farthest = np.array([1.0, -1.0, 0.0, 1.0]), rng.random(4), 0.4
    weights, most = np.array([1.0, 0.5, 0.25]), 2.2
    rows: list[dict[str, float]] = []
    expected = np.zeros(7)
    for user, counts in enumerate(([3, 2, 4, 1], [1, 1, 2, 0], [0, 2, 1, 0])):
        away, cells = [], []
        for cell, n in enumerate(counts):
            if n == 0:
                continue
            rewards = rng.random(n)
            within = float(n * rewards.var())
            rows.append(
                {"user": user, "cell": cell, "plays": n, "mean": rewards.mean(), "within": within}
            )
            if signs[cell] != 0.0:
                # The mean is cut where it lies far against the accusation; plays move with it.
                mean = signs[cell] * (rewards.mean() - centre[cell])
                moved = max(mean, -farthest)
                away += list(signs[cell] * (rewards - rewards.mean()) + moved)
                cells += [cell] * n
        pairs = list(permutations(range(len(away)), 2))
        triples = [
            (i, j, k)
            for i, j, k in permutations(range(len(away)), 3)
            if not cells[i] == cells[j] == cells[k]
        ]
        of_pairs = sum(away[i] * away[j] for i, j in pairs)
        of_triples = sum(away[i] * away[j] * away[k] for i, j, k in triples)
        share = weights[user] * min(1.0, most**2 / len(pairs))
        expected[:2] += share * len(pairs), share * of_pairs
        if triples:
            counted = weights[user] * min(len(triples), most**3)
            product = of_triples / len(triples)
            expected[2:] += (
                counted,
                counted * product,
                counted**2,
                counted**2 * product,
                counted**2 * product**2,
            )
    responses = responses_from(
        users=[row["user"] for row in rows],
        cells=[row["cell"] for row in rows],
        plays=[row["plays"] for row in rows],
        means=[row["mean"] for row in rows],
        within=[row["within"] for row in rows],
        n_users=3,
        n_contexts=2,
        n_actions=2,
    )
    found = majority._moments(responses, weights, signs, centre, farthest, 9.0, most)
    assert_allclose(found, expected, rtol=1e-9)


def test_where_squares_are_unknown_plays_scatter_as_usual() -> None:
    given: dict[str, Any] = {"users": [0, 0], "cells": [0, 1], "plays": [3.0, 1.0]}
    size: dict[str, Any] = {"n_users": 1, "n_contexts": 1, "n_actions": 2}
    found = [
        majority._moments(
            responses_from(**given, means=[0.6, 0.5], within=within, **size),
            np.ones(1),
            np.array([1.0, -1.0]),
            np.array([0.2, 0.1]),
            5.0,
            0.3,
            9.0,
        )
        for within in ([np.nan, np.nan], [2 * 0.3**2, 0.0])
    ]
    assert_allclose(found[0], found[1], rtol=1e-12)


def test_a_preference_is_the_mean_over_compared_cells(rng: np.random.Generator) -> None:
    responses, weights = grid_of(rng.random((20, 2, 3))), rng.random(20)
    signs = np.array([1.0, 0.0, -1.0, 0.0, 1.0, -1.0])
    means = pooled_means(responses, weights).ravel()
    found = majority._preference(in_blocks(responses), weights, signs)
    assert found == pytest.approx((means[0] - means[2] + means[4] - means[5]) / 4.0)


def test_moments_of_preferences_are_ratios_of_their_sums(rng: np.random.Generator) -> None:
    means = rng.random((25, 2, 3))
    responses, weights = grid_of(means), rng.random(25)
    signs = np.array([1.0, 0.0, -1.0, 0.0, 1.0, -1.0])
    assert_allclose(
        majority._plays_there(responses, weights, signs), [weights.sum(), 4.0 * weights.sum()]
    )
    centre = pooled_means(responses, weights).ravel()
    # Four plays a user, of which up to eight would count.
    sums = majority._moments(responses, weights, signs, centre, 0.3, 0.1, 8.0)
    found = majority._preferences(in_blocks(responses), weights, signs, 0.3, 0.1)
    assert found.mean == pytest.approx(majority._preference(in_blocks(responses), weights, signs))
    assert found.variance == pytest.approx(sums[1] / sums[0])
    assert found.skew == pytest.approx(sums[3] / sums[2])
    scatter = sums[6] - 2.0 * found.skew * sums[5] + found.skew**2 * sums[4]
    assert found.skew_error == pytest.approx(math.sqrt(scatter) / sums[2])


def test_without_plays_there_preferences_are_nothing() -> None:
    responses = grid_of(np.zeros((3, 2, 2)))
    nothing = majority._preferences(
        in_blocks(responses), np.zeros(3), np.array([1.0, -1.0, 0, 0]), 1.0, 1.0
    )
    assert nothing == (0.0, 0.0, 0.0, 0.0)


def test_an_accusation_that_changes_no_decision_is_not_contradicted(
    rng: np.random.Generator,
) -> None:
    responses = grid_of(rng.random((20, 2, 3)))
    assert contradicts(in_blocks(responses), np.ones(20), np.ones(20)) is False
