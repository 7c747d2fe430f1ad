"""Invariance to the order of users, units of rewards, names of actions, and blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.bounded.worlds import Family, World, learned, make_world
from unswayed.arrays import IntArray
from unswayed.learners.bounded.method import find_coalitions
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally

ALPHA = 0.2
FAMILIES = pytest.mark.parametrize("family", ["clicks", "stars", "baskets"])


def rebuilt(
    tallies: Tallies,
    *,
    shift: float = 0.0,
    scale: float = 1.0,
    users: IntArray | None = None,
    actions: IntArray | None = None,
) -> Tallies:
    """Return the same log with other units of rewards, or with renamed users or actions."""
    owners = np.repeat(np.arange(tallies.n_users), np.diff(tallies.indptr))
    contexts, played = np.divmod(tallies.cells, tallies.n_actions)
    owners = owners if users is None else users[owners]
    played = played if actions is None else actions[played]
    cells = contexts * tallies.n_actions + played
    order = np.lexsort((cells, owners))
    n = tallies.counts
    squares = scale**2 * tallies.squares + 2 * scale * shift * tallies.sums + shift**2 * n
    return replace(
        tallies,
        indptr=np.searchsorted(owners[order], np.arange(tallies.n_users + 1)),
        cells=cells[order].astype(np.int32),
        counts=n[order],
        sums=(scale * tallies.sums + shift * n)[order],
        squares=squares[order],
    )


def world_of(family: Family, seed: int) -> World:
    return make_world(generator(seed, "invariant", family), family, "push", n_users=500)


def test_the_order_of_users_does_not_matter(seed: int) -> None:
    """Small logs are searched without sampling, so results differ only by rounding."""
    world = world_of("baskets", seed)
    order = generator(seed, "order").permutation(world.tallies.n_users)
    one = learned(world.tallies, ALPHA)
    other = learned(rebuilt(world.tallies, users=order), ALPHA)
    assert_array_equal(other.actions, one.actions)
    assert_allclose(other.mean_rewards, one.mean_rewards, rtol=1e-3)
    assert_allclose(other.user_weights[order], one.user_weights, atol=0.01)


@FAMILIES
def test_units_of_rewards_do_not_matter(family: Family, seed: int) -> None:
    """Means may change by less than half of their sampling errors, and decisions not at all."""
    shift, scale = -3.0, 0.01
    world = world_of(family, seed)
    one = learned(world.tallies, ALPHA)
    other = learned(rebuilt(world.tallies, shift=shift, scale=scale), ALPHA)
    assert_array_equal(other.actions, one.actions)
    moved = (other.mean_rewards - shift) / scale - one.mean_rewards
    assert (np.abs(moved) < 0.5 * one.sampling_errors).all()
    assert_allclose(other.user_weights, one.user_weights, atol=0.01)


def test_adding_a_constant_to_weighted_baskets_does_not_matter(
    rng: np.random.Generator, seed: int
) -> None:
    """Despite rounding errors of weighted sums, plays without a purchase have equal rewards."""
    n, shape = 24_000, {"n_users": 800, "n_contexts": 3, "n_actions": 4}
    users, contexts, actions = (rng.integers(most, size=n) for most in shape.values())
    rewards = (rng.random(n) < 0.1) * np.round(rng.lognormal(3.0, 0.5, n), 2) * (1 + actions)
    is_bad = users < 80
    rewards[is_bad & (actions == 0)] = 60.0
    weights = 1.0 / rng.choice([0.1, 0.3, 0.7], n)
    one, other = (
        learned(
            tally(users, contexts, actions, rewards + shift, weights=weights, **shape), ALPHA, seed
        )
        for shift in (0.0, 7.0)
    )
    assert_array_equal(one.actions, 3)
    assert_array_equal(other.actions, one.actions)
    assert_allclose(other.user_weights, one.user_weights, atol=0.01)


def test_names_of_actions_do_not_matter(seed: int) -> None:
    world = world_of("clicks", seed)
    names = np.array([3, 0, 4, 1, 2])
    one = learned(world.tallies, ALPHA)
    other = learned(rebuilt(world.tallies, actions=names), ALPHA)
    assert_array_equal(other.actions, names[one.actions])
    assert_allclose(other.mean_rewards[:, names], one.mean_rewards, rtol=0.02)


def test_blocks_of_users_do_not_matter(seed: int) -> None:
    """Results for blocks of several users, one user or none differ by rounding only."""
    whole = world_of("stars", seed).tallies
    cut = replace(whole, bounds=(0, 130, 131, 131, whole.n_users))
    one, many = (find_coalitions(t, alpha=ALPHA) for t in (whole, cut))
    assert len(one.groups) == len(many.groups) >= 1
    assert_allclose(many.means, one.means, rtol=1e-6)
    assert_allclose(many.weights, one.weights, atol=1e-6)


def test_the_same_log_gives_bit_identical_estimates(seed: int) -> None:
    tallies = world_of("clicks", seed).tallies
    cut = replace(tallies, bounds=(0, 300, tallies.n_users))
    one, again = (learned(cut, ALPHA, seed) for _ in range(2))
    assert_array_equal(one.mean_rewards, again.mean_rewards)
    assert_array_equal(one.user_weights, again.user_weights)


def test_contexts_with_other_units_do_not_dictate(rng: np.random.Generator, seed: int) -> None:
    """Rewards are thousands in one context and clicks in the others; best actions differ."""
    n_users, n_contexts, n_actions, plays = 600, 6, 3, 30
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.integers(n_contexts, size=len(users))
    actions = rng.integers(n_actions, size=len(users))
    is_best = actions == contexts % n_actions
    clicks = (rng.random(len(users)) < np.where(is_best, 0.3, 0.1)).astype(float)
    amounts = np.where(is_best, 4000.0, 3000.0) + 1000.0 * rng.standard_normal(len(users))
    rewards = np.where(contexts == 0, amounts, clicks)
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )
    estimates = learned(tallies, 0.1, seed)
    assert_array_equal(estimates.actions, np.arange(n_contexts) % n_actions)
    assert (estimates.user_weights > 0.99).all()
