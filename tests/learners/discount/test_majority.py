"""Accusations that the majority contradicts: whom a coalition frames, and who it cannot acquit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from unswayed.arrays import BoolArray, FloatArray
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.responses.responses import BlockedResponses
from unswayed.learners.discount.trial import majority
from unswayed.learners.discount.trial.aims import pooled_means
from unswayed.learners.discount.trial.majority import contradicts
from unswayed.policy import best_known
from unswayed.tallies import tally

USERS, CONTEXTS, ACTIONS, PLAYS = 2000, 10, 4, 20
ALPHA, GAP, NOISE = 0.2, 0.2, 0.5


class Crowd(NamedTuple):
    """Everybody's responses, who colludes, and how much users favour action 0 over action 1."""

    responses: BlockedResponses
    is_bad: BoolArray
    lie: float
    preferences: FloatArray


def crowd(lies: FloatArray, rng: np.random.Generator) -> Crowd:
    """Return users of whom the first lie by so much each, without noise; action 0 is the best."""
    users = np.repeat(np.arange(USERS), PLAYS)
    contexts, actions = (rng.integers(0, n, len(users)) for n in (CONTEXTS, ACTIONS))
    rewards = np.where(actions == 0, GAP, 0.0) - 0.5 * (actions > 1)
    sides = np.where(actions == 0, -1.0, 1.0) * (actions < 2)
    own = np.zeros(USERS)
    own[: len(lies)] = lies
    is_bad = np.arange(USERS) < len(lies)
    has_noise = ~is_bad[users] | (actions > 1)
    rewards = rewards + own[users] * sides + has_noise * rng.normal(0, NOISE, len(users))
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=USERS,
        n_contexts=CONTEXTS,
        n_actions=ACTIONS,
    )
    return Crowd(
        clipped_responses(tallies),
        is_bad,
        float(lies.mean()),
        np.bincount(users, -sides * rewards, minlength=USERS).astype(np.float64),
    )


def decisions(responses: BlockedResponses, weights: FloatArray) -> list[int]:
    found: list[int] = best_known(pooled_means(responses, weights)).tolist()
    return found


def without_their_friends(found: Crowd, share: float) -> FloatArray:
    """Return weights without those who favour action 0 most: who is accused wrongly."""
    return (found.preferences < np.quantile(found.preferences, 1.0 - share)).astype(float)


N_BAD = round(ALPHA * USERS)
TRUE_STORIES = {
    "all lie alike": np.full(N_BAD, 0.8),
    "each as it likes": np.linspace(0.0, 1.6, N_BAD),
    # Some lie far on the other side, to be the minority; the others lie the more for it.
    "scapegoats": np.where(np.arange(N_BAD) < 0.12 * N_BAD, -1.7, 0.9),
}


@pytest.mark.parametrize("lies", TRUE_STORIES.values(), ids=TRUE_STORIES)
def test_a_true_accusation_is_not_contradicted(lies: FloatArray, rng: np.random.Generator) -> None:
    found = crowd(lies, rng)
    ones, after = np.ones(USERS), np.where(found.is_bad, 0.0, 1.0)
    assert decisions(found.responses, ones) == [1] * CONTEXTS
    assert decisions(found.responses, after) == [0] * CONTEXTS
    assert not contradicts(found.responses, ones, after)


def test_scapegoats_would_acquit_others_if_they_counted_in_full(
    rng: np.random.Generator,
) -> None:
    """The negative control of the bound on what counts against an accusation."""
    found = crowd(TRUE_STORIES["scapegoats"], rng)
    skews = []
    for farthest in (majority.FARTHEST, 1e9):
        signs = np.tile([-1.0, 1.0, 0.0, 0.0], CONTEXTS)
        seen = majority._preferences(
            found.responses, np.ones(USERS), signs, farthest * found.lie, NOISE
        )
        skews.append(seen.skew / seen.skew_error)
    assert skews[0] > majority.CLEARLY
    assert skews[1] < 0.0


FRAMED = {
    "noise-free accounts": np.full(N_BAD, 0.4),
    # Decoys favour action 0, are accused first, and hide on which side the minority is.
    "with decoys": np.where(np.arange(N_BAD) < 0.1 * N_BAD, -1.2, 0.55),
}


@pytest.mark.parametrize("lies", FRAMED.values(), ids=FRAMED)
def test_honest_users_are_not_framed(lies: FloatArray, rng: np.random.Generator) -> None:
    found = crowd(lies, rng)
    ones, after = np.ones(USERS), without_their_friends(found, 0.3)
    assert decisions(found.responses, ones) == [0] * CONTEXTS
    assert sum(decisions(found.responses, after)) > CONTEXTS / 2
    assert contradicts(found.responses, ones, after)


def test_moments_of_preferences_do_not_depend_on_noise(rng: np.random.Generator) -> None:
    """A fifth of the users differs by 1, under skewed noise; 5 standard errors."""
    users = np.repeat(np.arange(USERS), PLAYS)
    contexts, actions = rng.integers(0, CONTEXTS, len(users)), rng.integers(0, 2, len(users))
    theta = np.where(np.arange(USERS) < 0.2 * USERS, 1.0, 0.0)
    noise = rng.exponential(0.5, len(users)) - 0.5
    rewards = np.where(actions == 0, 1.0, -1.0) * theta[users] + noise
    tallies = tally(
        users, contexts, actions, rewards, n_users=USERS, n_contexts=CONTEXTS, n_actions=2
    )
    signs = np.tile([1.0, -1.0], CONTEXTS)
    found = majority._preferences(clipped_responses(tallies), np.ones(USERS), signs, 1e9, 0.5)
    assert found.mean == pytest.approx(0.2, abs=5 * 0.5 / np.sqrt(USERS * PLAYS))
    # A sample of two points has no error but that of the noise in 190 pairs of each user.
    assert found.variance == pytest.approx(0.16, abs=0.02)
    assert abs(found.skew - 0.2 * 0.8 * 0.6) < 5 * found.skew_error
    assert found.of_the_majority == pytest.approx(0.0, abs=0.05)
