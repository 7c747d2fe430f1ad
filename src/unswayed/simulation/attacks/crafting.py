"""Small pieces that attacks are made of."""

from __future__ import annotations

import numpy as np

from unswayed.learners.interface import FloatArray, IntArray
from unswayed.simulation.attacks.base import PlayedRound, Turn
from unswayed.simulation.attacks.briefing import Briefing

MEMORY_PER_CELL = 32
"""Ours: how many past rewards of a (context, action) a replay chooses from."""


def lie(
    rewards: FloatArray,
    actions: IntArray,
    value: float,
    *,
    strength: float,
    rng: np.random.Generator,
) -> None:
    """Set the answer of one action in each row to a value, with probability ``strength``.

    Parameters
    ----------
    rewards
        Shape (n, n_actions); changed in place.
    actions
        Shape (n,); the action to lie about in each row.
    """
    rows = np.arange(actions.size)
    if strength < 1.0:
        rows = np.flatnonzero(rng.random(actions.size) < strength)
    rewards[rows, actions[rows]] = value


def coins(shape: tuple[int, int], briefing: Briefing, rng: np.random.Generator) -> FloatArray:
    """Return rewards that say nothing: either end of the range, evenly."""
    return np.where(rng.random(shape) < 0.5, briefing.highest, briefing.lowest)


def honest_table(briefing: Briefing, turn: Turn, rng: np.random.Generator) -> FloatArray:
    """Return what good users would answer in these contexts; takes knowledge of the bandit."""
    return briefing.honest_rewards(briefing.mean_rewards[turn.contexts], rng)


class Replay:
    """Good users' past rewards, to be given again: cover for attacks that see histories.

    What was never seen is answered in a way that says nothing: a coin if rewards are binary,
    otherwise the middle of the range.
    """

    def __init__(self, briefing: Briefing, rng: np.random.Generator) -> None:
        self._briefing = briefing
        self._rng = rng
        self._is_ours = np.zeros(briefing.n_users, dtype=np.bool_)
        self._is_ours[briefing.accounts] = True
        shape = (briefing.n_contexts, briefing.n_actions, MEMORY_PER_CELL)
        self._memory = np.full(shape, np.nan)

    def record(self, played: PlayedRound) -> None:
        """Remember the good users' rewards of a round."""
        theirs = np.flatnonzero(~self._is_ours[played.users])
        contexts, actions = played.contexts[theirs], played.actions[theirs]
        rewards = played.rewards[theirs]
        is_new = np.isnan(self._memory[contexts, actions, 0])
        self._memory[contexts[is_new], actions[is_new]] = rewards[is_new, None]
        slots = self._rng.integers(0, MEMORY_PER_CELL, theirs.size)
        self._memory[contexts, actions, slots] = rewards

    def rewards(self, contexts: IntArray) -> FloatArray:
        """Return past rewards of each action in these contexts, shape (n, n_actions)."""
        shape = (contexts.size, self._briefing.n_actions)
        slots = self._rng.integers(0, MEMORY_PER_CELL, shape)
        found = self._memory[contexts[:, None], np.arange(shape[1]), slots]
        if not np.isnan(found).any():
            return found
        if self._briefing.is_binary:
            blank = coins(shape, self._briefing, self._rng)
        else:
            blank = np.full(shape, (self._briefing.lowest + self._briefing.highest) / 2.0)
        return np.where(np.isnan(found), blank, found)
