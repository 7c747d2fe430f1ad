"""Edge cases: no noise, one user, one context, cells without plays. Warnings are errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.learners.bounded.worlds import decided, learned, plain_means
from unswayed.arrays import FloatArray
from unswayed.tallies import Tallies, tally

Rewards = Callable[[np.random.Generator, FloatArray], npt.NDArray[Any]]


def log_of(
    rng: np.random.Generator,
    rewards: Rewards,
    *,
    n_users: int = 200,
    n_contexts: int = 4,
    n_actions: int = 3,
    plays: int = 12,
) -> Tallies:
    """Return a log of uniform play; ``places`` rank the actions of a context from 0 to 1."""
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.integers(n_contexts, size=len(users))
    actions = rng.integers(n_actions, size=len(users))
    places = ((actions + contexts) % n_actions + 1.0) / n_actions
    return tally(
        users,
        contexts,
        actions,
        np.asarray(rewards(rng, places), np.float64),
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )


def votes(rng: np.random.Generator, places: FloatArray) -> FloatArray:
    """Return votes of −1, 0 or 1."""
    draw = rng.random(len(places))
    return (draw < 0.6 * places).astype(float) - (draw > 0.85)


KINDS: dict[str, Rewards] = {
    "no noise": lambda _, places: places,
    "no noise, far from zero": lambda _, places: 1e6 + places,
    "votes": votes,
    "clicks": lambda rng, places: rng.random(len(places)) < 0.8 * places,
    "normal": lambda rng, places: places + 0.3 * rng.standard_normal(len(places)),
    "costs": lambda rng, places: -rng.lognormal(2.0 - places, 0.3),
    "counts": lambda rng, places: rng.poisson(3.0 * places),
}


@pytest.mark.parametrize("alpha", [0.1, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_rewards_of_every_kind_are_decided_as_by_the_plain_mean(
    kind: str, alpha: float, rng: np.random.Generator
) -> None:
    """Gaps are at least five standard errors, nobody lies, and every action was played."""
    tallies = log_of(rng, KINDS[kind])
    estimates = learned(tallies, alpha)
    assert np.isfinite(estimates.mean_rewards).all()
    np.testing.assert_array_equal(estimates.actions, decided(plain_means(tallies)))


SIZES = {
    "one user": {"n_users": 1},
    "two users": {"n_users": 2},
    "one play each": {"plays": 1},
    "one context": {"n_contexts": 1},
    "one action": {"n_actions": 1},
    "one context, one action": {"n_contexts": 1, "n_actions": 1},
    "more cells than plays": {"n_users": 5, "n_contexts": 30, "plays": 3},
    "one user of one play": {"n_users": 1, "plays": 1},
}


@pytest.mark.parametrize("kind", ["no noise", "clicks", "normal"])
@pytest.mark.parametrize("size", SIZES)
def test_logs_of_every_size_are_decided(size: str, kind: str, rng: np.random.Generator) -> None:
    tallies = log_of(rng, KINDS[kind], **SIZES[size])
    estimates = learned(tallies, 0.2)
    is_met = np.isfinite(plain_means(tallies))
    np.testing.assert_array_equal(np.isfinite(estimates.mean_rewards), is_met)
    chosen = is_met[np.arange(tallies.n_contexts), estimates.actions]
    assert (chosen | ~is_met.any(axis=1)).all()  # a played action is chosen where there is one
    assert np.isfinite(estimates.user_weights).all()
    assert np.isclose(estimates.context_probabilities.sum(), 1.0)


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1e9])
def test_equal_rewards_give_equal_means(value: float, rng: np.random.Generator) -> None:
    tallies = log_of(rng, lambda _, places: np.full(len(places), value))
    estimates = learned(tallies, 0.2)
    np.testing.assert_allclose(estimates.mean_rewards, value)
    assert (estimates.user_weights == 1.0).all()


def test_cells_nobody_met_have_no_mean_and_are_not_chosen(rng: np.random.Generator) -> None:
    users = np.repeat(np.arange(100), 6)
    contexts = rng.integers(2, size=len(users))
    actions = np.where(contexts == 0, rng.integers(2, size=len(users)), 2)
    rewards = rng.random(len(users)) - 5.0
    tallies = tally(users, contexts, actions, rewards, n_users=100, n_contexts=3, n_actions=3)
    estimates = learned(tallies, 0.1)
    is_met = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=np.bool_)
    np.testing.assert_array_equal(np.isfinite(estimates.mean_rewards), is_met)
    assert estimates.actions[0] in (0, 1)
    assert estimates.actions[1] == 2


def test_users_who_played_nothing_keep_their_weight(rng: np.random.Generator) -> None:
    tallies = log_of(rng, KINDS["clicks"], n_users=100)
    silent = Tallies(
        n_contexts=tallies.n_contexts,
        n_actions=tallies.n_actions,
        indptr=np.concatenate([tallies.indptr, np.full(20, tallies.indptr[-1])]),
        cells=tallies.cells,
        counts=tallies.counts,
        sums=tallies.sums,
        squares=tallies.squares,
        weighted_plays=tallies.weighted_plays,
    )
    estimates = learned(silent, 0.2)
    np.testing.assert_allclose(estimates.user_weights[100:], 1.0, atol=0.05)
    np.testing.assert_array_equal(estimates.actions, decided(plain_means(tallies)))
