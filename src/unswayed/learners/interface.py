"""Interface of online learners: play arrivals as they come, and recommend afterwards."""

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

    ``alpha`` is what the operator believes, which need not be true;
    ``interactions_per_user`` is how long the learner will run, on average over the users.
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

        ``users`` and ``contexts`` say who arrives with which context, in order; a user may come
        twice. ``outcomes``, shape (n_arrivals, n_actions), has the reward that each action would
        bring (potential outcomes). Only the entry of the action that is played may be read: a
        contract test holds every learner to it. Returns the actions played; shape (n_arrivals,).
        """

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Return what is recommended, averaged over the given users; shape (n_contexts, n_actions).

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
    """Return probabilities that share each row evenly among its largest entries.

    NaN stands for "never seen" and is chosen only if the whole row is NaN.

    >>> evenly_among_best(np.array([[0.0, 2.0, 2.0], [np.nan, np.nan, 1.0]])).tolist()
    [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    """
    known = np.where(np.isnan(values), -np.inf, values)
    best = known == known.max(axis=-1, keepdims=True)
    shares: FloatArray = best / best.sum(axis=-1, keepdims=True)
    return shares


def decided_shares(estimates: Estimates) -> FloatArray:
    """Return the probabilities of what was decided; shape (n_contexts, n_actions).

    Equally large means share a context evenly, and so do all actions where nothing was learned.
    """
    table = estimates.mean_rewards.copy()
    if estimates.is_excluded is not None:
        table[estimates.is_excluded] = np.nan
    if estimates.decisions is not None:
        learned = np.flatnonzero(~np.isnan(estimates.mean_rewards).all(axis=1))
        table[learned, estimates.decisions[learned]] = np.inf
    return evenly_among_best(table)
