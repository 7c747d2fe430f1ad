"""What the baselines share: checked arrivals, even ties, means and what is recommended."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.interface import Setting, evenly_among_best


class Baseline(ABC):
    """A learner that plays arrivals in a compiled loop; see ``interface.Learner``.

    Parameters
    ----------
    setting
        Numbers of users, contexts and actions, the believed share of colluders, randomness.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @property
    def horizon(self) -> float:
        """A context's even share of all interactions, at least 2 so that its log2 is positive."""
        setting = self.setting
        return max(setting.n_users * setting.interactions_per_user / setting.n_contexts, 2.0)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see ``Learner.play``."""
        users = np.ascontiguousarray(users, dtype=np.int64)
        contexts = np.ascontiguousarray(contexts, dtype=np.int64)
        outcomes = np.ascontiguousarray(outcomes, dtype=np.float64)
        n, n_actions = users.size, self.setting.n_actions
        if users.shape != (n,) or contexts.shape != (n,) or outcomes.shape != (n, n_actions):
            raise InputError(
                f"users, contexts and outcomes have shapes {users.shape}, {contexts.shape} and "
                f"{outcomes.shape}: give (n,), (n,) and (n, {n_actions})."
            )
        # Compiled loops do not check their indices.
        for kind, codes, limit in (
            ("user", users, self.setting.n_users),
            ("context", contexts, self.setting.n_contexts),
        ):
            if n and not 0 <= codes.min() <= codes.max() < limit:
                raise InputError(f"a {kind} is not in 0..{limit - 1}: number the {kind}s from 0.")
        return self._play(users, contexts, outcomes)

    @abstractmethod
    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play checked arrivals and learn from them."""

    @abstractmethod
    def values(self, users: IntArray) -> FloatArray:
        """Return what actions are ranked by; shape (n_contexts, n_actions), or one for each user.

        NaN where nothing is known.
        """

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Return the best action of each context; see ``Learner.action_probabilities``."""
        shares = evenly_among_best(self.values(users))
        return shares if shares.ndim == 2 else np.asarray(shares.mean(axis=0))


@compiled
def index_of_best(rng: np.random.Generator, values: FloatArray) -> int:
    """Index of the largest entry; ties are broken uniformly.

    Randomness is drawn only if there is a tie.
    """
    best = values[0]
    n_best = 1
    at = 0
    for i in range(1, values.size):
        if values[i] > best:
            best = values[i]
            n_best = 1
            at = i
        elif values[i] == best:
            n_best += 1
    if n_best > 1:
        skip = int(n_best * rng.random())
        for i in range(at, values.size):
            if values[i] == best:
                if skip == 0:
                    return i
                skip -= 1
    return at


def means(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Return sums divided by counts; NaN where the count is zero."""
    result = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=result, where=counts > 0)
    return result
