"""Logs without a coalition: honest users differ in tastes and levels, but nobody is flagged."""

from __future__ import annotations

import numpy as np
import pytest

from tests.learners.bounded.worlds import Family, decided, learned, make_world, plain_means
from unswayed.arrays import IntArray
from unswayed.learners.bounded.method import find_coalitions
from unswayed.randomness import generator
from unswayed.tallies import tally

FAMILIES: tuple[Family, ...] = ("clicks", "stars", "baskets")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("tastes", "levels"), [(0.4, 0.0), (0.0, 0.6)])
def test_honest_tastes_and_levels_are_not_taken_for_a_coalition(
    family: Family, tastes: float, levels: float, seed: int
) -> None:
    rng = generator(seed, "peace", family, str(tastes))
    world = make_world(rng, family, "none", tastes=tastes, levels=levels)
    estimates = learned(world.tallies, 0.2, seed)
    assert (estimates.user_weights == 1.0).all()
    assert estimates.evidence["coalitions"] == 0
    plain = world.plain_means()
    assert (estimates.actions != decided(plain)).sum() <= 1
    # Caps and shrinkage move a mean by at most a few standard errors (750 plays per cell).
    tallies = world.tallies
    overall = tallies.squares.sum() / tallies.counts.sum() - plain.mean() ** 2
    assert np.abs(estimates.mean_rewards - plain).max() < 4.0 * np.sqrt(overall / 750)


@pytest.mark.parametrize("log", range(4))
def test_noise_in_thousands_of_cells_is_not_taken_for_a_coalition(log: int, seed: int) -> None:
    """With 21 plays per cell and clicks in 1.2% of them, some split of the accounts always fits."""
    rng = generator(seed, "thin cells", str(log))
    users = np.repeat(np.arange(2000), 21)
    contexts, actions = rng.integers(100, size=len(users)), rng.integers(20, size=len(users))
    rates = 0.011 * np.exp(0.45 * rng.standard_normal(2000))[users]
    clicks = (rng.random(len(users)) < rates).astype(float)
    tallies = tally(users, contexts, actions, clicks, n_users=2000, n_contexts=100, n_actions=20)
    found = find_coalitions(tallies, alpha=0.2, seed=seed)
    assert not found.groups


def test_buyers_who_buy_everything_are_no_coalition(rng: np.random.Generator, seed: int) -> None:
    """5% of the users buy nearly everything and 80% nothing: they differ in level only."""
    n_users, n_contexts, n_actions, plays = 1500, 8, 4, 30
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.integers(n_contexts, size=len(users))
    actions = rng.integers(n_actions, size=len(users))
    rates = rng.choice([0.0, 0.3, 0.9], p=[0.8, 0.15, 0.05], size=n_users)
    lift = np.where(actions == contexts % n_actions, 1.0, 0.25)
    bought = rng.random(len(users)) < rates[users] * lift
    rewards = np.round(bought * rng.lognormal(3.0, 0.4, len(users)), 2)
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )
    found = find_coalitions(tallies, alpha=0.2, seed=seed)
    assert (found.weights == 1.0).all()
    assert not any(group.is_flagged for group in found.groups)
    assert (decided(found.means) == np.arange(n_contexts) % n_actions).all()


def test_cells_that_have_nothing_in_common_are_not_shrunk_to_one_decision(
    rng: np.random.Generator, seed: int
) -> None:
    """Click rates are independent; they vary 1.3 times as much as their standard errors."""
    n_users, n_contexts, n_actions, plays = 6000, 20, 5, 10
    rates = rng.uniform(0.03, 0.07, (n_contexts, n_actions))
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.integers(n_contexts, size=len(users))
    actions = rng.integers(n_actions, size=len(users))
    tallies = tally(
        users,
        contexts,
        actions,
        (rng.random(len(users)) < rates[contexts, actions]).astype(float),
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )

    def regret(chosen: IntArray) -> float:
        return float((rates.max(axis=1) - rates[np.arange(n_contexts), chosen]).mean())

    plain = regret(decided(plain_means(tallies)))
    found = find_coalitions(tallies, alpha=0.05, seed=seed)
    anything = float((rates.max(axis=1) - rates.mean(axis=1)).mean())
    assert plain < 0.3 * anything
    assert regret(decided(found.means)) < 0.4 * anything


@pytest.mark.parametrize("family", FAMILIES)
def test_with_alpha_zero_nobody_is_flagged_and_means_are_plain(family: Family, seed: int) -> None:
    """Alpha = 0 means that there is no coalition, even under an obvious attack."""
    world = make_world(generator(seed, "no share", family), family, "push", plays=12)
    found = find_coalitions(world.tallies, alpha=0.0, seed=seed)
    assert (found.weights == 1.0).all()
    assert found.groups == []
    # Under uniform play, few plays are repeated, and only the cap on total plays matters.
    pooled = plain_means(world.tallies)
    assert np.abs(found.cells.means - pooled).max() < 0.1 * np.abs(pooled).max()
    assert (decided(found.cells.means) == decided(pooled)).mean() > 0.8
