"""All algorithms that the simulator can run: every learner, and the oracles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.baselines import NaiveMean, NaiveUCB
from unswayed.learners.interface import LearnerMaker, Setting
from unswayed.learners.methods import current_name
from unswayed.learners.players import learner_specs
from unswayed.names import find


class OracleLearner(NaiveMean):
    """Plays uniformly at random and averages the good users' rewards only.

    Its plays are the paper's exploration, so its error is the noise that no method without
    knowledge of the good users can beat under that exploration.
    """

    def __init__(self, setting: Setting, is_good: BoolArray) -> None:
        super().__init__(setting)
        self._is_good = is_good

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        actions = self.setting.rng.integers(0, self.setting.n_actions, users.size)
        good = np.flatnonzero(self._is_good[users])
        cells = contexts[good] * self.setting.n_actions + actions[good]
        for table, values in ((self.sums, outcomes[good, actions[good]]), (self.counts, None)):
            table += np.bincount(cells, values, minlength=table.size).reshape(table.shape)
        return actions


class OracleUCB(NaiveUCB):
    """UCB1 per context on good users' rewards only; colluders get any action."""

    def __init__(self, setting: Setting, is_good: BoolArray) -> None:
        super().__init__(setting)
        self._is_good = is_good

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        good = self._is_good[users]
        actions = np.zeros(users.size, np.int64)
        actions[good] = super()._play(users[good], contexts[good], outcomes[good])
        return actions


class OracleMaker:
    """Factory of oracles, which the arena tells who the good users are."""

    def __init__(self, kind: type[OracleLearner] | type[OracleUCB] = OracleLearner) -> None:
        self._kind = kind

    def knowing(self, is_good: BoolArray) -> LearnerMaker:
        """Return a maker of oracles for these good users."""
        return partial(self._kind, is_good=is_good)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm by its name on the command line, one line about it, and how to make it."""

    name: str
    summary: str
    make: LearnerMaker | OracleMaker


ORACLES = (
    Algorithm(
        "oracle",
        "knows the good users and averages only their rewards: the yardstick",
        OracleMaker(),
    ),
    Algorithm(
        "oracle-ucb",
        "UCB that knows the good users and listens to nobody else: the yardstick of regret",
        OracleMaker(OracleUCB),
    ),
)


def algorithms() -> dict[str, Algorithm]:
    """Return every algorithm by name, those registered by plugins included."""
    specs = learner_specs().values()
    found = [Algorithm(spec.name, spec.summary, spec.make) for spec in specs]
    return {algorithm.name: algorithm for algorithm in (*found, *ORACLES)}


def find_algorithm(name: str) -> Algorithm:
    """Return the algorithm of this name; an unknown name lists the choices."""
    return find(current_name(name), algorithms(), kind="algorithm")
