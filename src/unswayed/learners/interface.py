"""Interface of online learners: play arrivals as they come, and recommend a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.estimates import Estimates


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Parameters known to a learner before the first arrival.

    ``alpha`` is the operator's assumption, which may be wrong;
    ``interactions_per_user`` is the planned length of the run, averaged over users.
    """

    n_users: int
    n_contexts: int
    n_actions: int
    interactions_per_user: int
    alpha: float
    rng: np.random.Generator


class Learner(Protocol):
    """Plays arrivals and recommends a policy."""

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals one after another, learning from each reward before the next arrival.

        ``users`` and ``contexts`` describe the arrivals in order; a user may come twice.
        ``outcomes``, shape (n_arrivals, n_actions), has the reward that each action would bring
        (potential outcomes). Only the entry of the played action may be read, which a contract test
        checks for every learner. Returns the actions played; shape (n_arrivals,).
        """

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Return the recommended policy, averaged over users; shape (n_contexts, n_actions).

        Rows sum to one; ties are broken evenly. Learners with one policy for all ignore ``users``.
        """


LearnerMaker = Callable[[Setting], Learner]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSpec:
    """A learner by its name on the command line, and how to make it."""

    name: str
    make: LearnerMaker
    summary: str = ""  # one line, shown to users of a plugin


def evenly_among_best(values: FloatArray) -> FloatArray:
    """Return probabilities that are uniform over the largest entries of each row.

    NaN stands for "never seen" and is chosen only if the whole row is NaN.

    >>> evenly_among_best(np.array([[0.0, 2.0, 2.0], [np.nan, np.nan, 1.0]])).tolist()
    [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    """
    known = np.where(np.isnan(values), -np.inf, values)
    best = known == known.max(axis=-1, keepdims=True)
    shares: FloatArray = best / best.sum(axis=-1, keepdims=True)
    return shares


def decided_shares(estimates: Estimates) -> FloatArray:
    """Return decisions as probabilities; shape (n_contexts, n_actions).

    Actions with equal means share a context evenly, as do all actions of an unknown context.
    """
    table = estimates.mean_rewards.copy()
    if estimates.is_excluded is not None:
        table[estimates.is_excluded] = np.nan
    if estimates.decisions is not None:
        learned = np.flatnonzero(~np.isnan(estimates.mean_rewards).all(axis=1))
        table[learned, estimates.decisions[learned]] = np.inf
    return evenly_among_best(table)
