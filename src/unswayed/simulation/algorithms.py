"""All algorithms that the simulator can run: every learner, and the oracles."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.baselines import NaiveMean, NaiveUCB
from unswayed.learners.interface import LearnerSpec
from unswayed.learners.methods import current_name
from unswayed.learners.players import learner_specs
from unswayed.names import find


class Oracle:
    """A learner that knows the good users."""

    is_good: BoolArray  # shape (n_users,)


class OracleLearner(Oracle, NaiveMean):
    """Plays uniformly at random and averages the good users' rewards only.

    It explores like the paper's method, so its error is a lower limit for methods that do not know
    the good users.
    """

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        actions = self.setting.rng.integers(0, self.setting.n_actions, users.size)
        good = np.flatnonzero(self.is_good[users])
        cells = contexts[good] * self.setting.n_actions + actions[good]
        for table, values in ((self.sums, outcomes[good, actions[good]]), (self.counts, None)):
            table += np.bincount(cells, values, minlength=table.size).reshape(table.shape)
        return actions


class OracleUCB(Oracle, NaiveUCB):
    """UCB1 per context on good users' rewards only; colluders get arbitrary actions."""

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        good = self.is_good[users]
        actions = np.zeros(users.size, np.int64)
        actions[good] = super()._play(users[good], contexts[good], outcomes[good])
        return actions


ORACLES = {
    "oracle": LearnerSpec(name="oracle", make=OracleLearner),
    "oracle-ucb": LearnerSpec(name="oracle-ucb", make=OracleUCB),
}
"""References for the final policy and for regret."""


def algorithms() -> dict[str, LearnerSpec]:
    """Return every algorithm by name, including those registered by plugins."""
    return learner_specs() | ORACLES


def find_algorithm(name: str) -> LearnerSpec:
    """Return the algorithm of this name; an unknown name lists the choices."""
    return find(current_name(name), algorithms(), kind="algorithm")
