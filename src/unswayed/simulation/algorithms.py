"""All algorithms that the simulator can run: every learner, and the oracles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.baselines import NaiveUCB
from unswayed.learners.interface import LearnerMaker, Setting, evenly_among_best
from unswayed.learners.methods import current_name
from unswayed.learners.players import learner_specs
from unswayed.names import find


class OracleLearner:
    """Plays uniformly at random and averages the good users' rewards only.

    Its plays are the paper's exploration, so its error is the noise that no method without
    knowledge of the good users can beat under that exploration.
    """

    def __init__(self, setting: Setting, is_good: BoolArray) -> None:
        self._is_good = is_good
        self._rng = setting.rng
        self._shape = (setting.n_contexts, setting.n_actions)
        self._sums = np.zeros(setting.n_contexts * setting.n_actions)
        self._counts = np.zeros(setting.n_contexts * setting.n_actions, dtype=np.int64)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play uniformly; add up the rewards of good users."""
        n_actions = self._shape[1]
        actions = self._rng.integers(0, n_actions, users.size)
        good = np.flatnonzero(self._is_good[users])
        cells = contexts[good] * n_actions + actions[good]
        rewards = outcomes[good, actions[good]]
        self._sums += np.bincount(cells, rewards, minlength=self._sums.size)
        self._counts += np.bincount(cells, minlength=self._counts.size)
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Recommend the best mean in each context."""
        means = np.full(self._sums.size, np.nan)
        np.divide(self._sums, self._counts, out=means, where=self._counts > 0)
        return evenly_among_best(means.reshape(self._shape))


class OracleUCB:
    """UCB1 per context on good users' rewards only; colluders' rewards are ignored."""

    def __init__(self, setting: Setting, is_good: BoolArray) -> None:
        self._is_good = is_good
        self._ucb = NaiveUCB(setting)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play good users by UCB1; colluders get any action."""
        good = self._is_good[users]
        actions = np.zeros(users.size, np.int64)
        actions[good] = self._ucb.play(users[good], contexts[good], outcomes[good])
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:
        """Recommend the best mean in each context."""
        return self._ucb.action_probabilities(users)


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
