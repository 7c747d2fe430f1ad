"""Ingredients of the learner in worlds that are lost without them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.learners.discount.worlds import GAP, World
from unswayed.arrays import FloatArray
from unswayed.learners.design import design_of_log
from unswayed.learners.discount import learn_discounted, method
from unswayed.learners.discount.one_mean import rounds
from unswayed.tallies import tally


def shifted_world(
    rng: np.random.Generator,
    *,
    n_users: int,
    n_contexts: int,
    n_actions: int,
    plays: int,
    gap: float,
    shift: float,
    is_sticky: bool,
) -> World:
    """Simulate a fifth who respond like others, but for a shift of the two best actions."""
    means = 0.35 + 0.2 * rng.random((n_contexts, n_actions))
    runner_up = means.argmax(axis=1)
    best = (runner_up + 1 + rng.integers(n_actions - 1, size=n_contexts)) % n_actions
    rows = np.arange(n_contexts)
    means[rows, best] = means[rows, runner_up] + gap
    is_bad = np.zeros(n_users, np.bool_)
    is_bad[rng.permutation(n_users)[: n_users // 5]] = True
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.integers(n_contexts, size=len(users))
    actions = rng.integers(n_actions, size=len(users))
    if is_sticky:
        actions = rng.integers(n_actions, size=(n_users, n_contexts))[users, contexts]
    rewards = means[contexts, actions] + 0.3 * rng.standard_normal(len(users))
    rewards[is_bad[users] & (actions == runner_up[contexts])] += shift
    rewards[is_bad[users] & (actions == best[contexts])] -= shift
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )
    return World(tallies, means, is_bad)


def loss(world: World) -> float:
    """Learn, told the truth about the share, and return what the decisions lose."""
    design = design_of_log(world.tallies, "auto")
    learned = learn_discounted(world.tallies, design, adversarial_fraction=0.2)
    return world.suboptimality(learned.mean_rewards)


def pooled_loss(world: World) -> float:
    """Return what the pooled mean loses, the negative control."""
    return world.suboptimality(world.pooled(np.ones(world.tallies.n_users)))


def test_lies_in_so_few_cells_that_nobody_shows_them_twice_need_upright_means(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = shifted_world(
        rng,
        n_users=6000,
        n_contexts=4,
        n_actions=40,
        plays=4,
        gap=GAP,
        shift=1.2,
        is_sticky=True,
    )
    assert pooled_loss(world) > GAP / 2
    assert loss(world) < GAP / 4

    def leaning(means: FloatArray, *_: object) -> FloatArray:
        return means

    monkeypatch.setattr(method, "upright_means", leaning)
    assert loss(world) > GAP / 2


def test_small_lies_about_the_two_best_of_many_actions_are_found_among_rivals(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean of its own for every cell gains by chance what these lies gain."""
    world = shifted_world(
        rng,
        n_users=1500,
        n_contexts=12,
        n_actions=20,
        plays=40,
        gap=0.1,
        shift=0.3,
        is_sticky=False,
    )
    assert pooled_loss(world) > 0.04
    assert loss(world) < 0.02
    monkeypatch.setattr(rounds, "RIVAL_SHRINKAGES", ())
    assert loss(world) > 0.04
