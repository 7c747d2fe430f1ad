"""The l1 error of estimated context probabilities, with visits taken from the arena."""

from __future__ import annotations

import numpy as np

from unswayed.experiments.measures import Witness
from unswayed.learners.interface import BoolArray, FloatArray, IntArray, Setting
from unswayed.learners.paper import estimate_context_probabilities
from unswayed.simulation.arena import run
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.settings import Settings
from unswayed.tallies import Accumulator, Tallies


class Visits:
    """Plays the first action always and remembers who came with which context."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._seen = Accumulator(n_actions=setting.n_actions)

    def play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        """Algorithm 1, line 3: play any action and move on."""
        actions = np.zeros(users.size, dtype=np.int64)
        self._seen.add(users, contexts, actions, answers[:, 0])
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - nothing is learned
        """Return uniform play; the arena wants a recommendation."""
        shape = (self.setting.n_contexts, self.setting.n_actions)
        return np.full(shape, 1.0 / self.setting.n_actions)

    def tallies(self) -> Tallies:
        """Return all visits."""
        return self._seen.tallies(n_users=self.setting.n_users, n_contexts=self.setting.n_contexts)


def context_error(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return the l1 distance between estimated and true context probabilities.

    Parameters
    ----------
    algorithm
        "paper" is Algorithm 1; "naive-mean" counts all visits; "oracle" those of good users.
    """
    instance = settings.instance(repetition)
    visits: list[Visits] = []

    def make(setting: Setting) -> Visits:
        visits.append(Visits(setting))
        return visits[-1]

    witness = Witness(make)
    run(
        instance,
        make_attack(attack),
        witness,
        settings.crowd(),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    tallies = visits[-1].tallies()
    if algorithm == "paper":
        estimated = estimate_context_probabilities(
            tallies, adversarial_fraction=settings.alpha
        ).context_probabilities
    else:
        estimated = _shares(tallies, witness.is_good if algorithm == "oracle" else None)
    return float(np.abs(estimated - instance.context_probabilities).sum())


def _shares(tallies: Tallies, is_counted: BoolArray | None) -> FloatArray:
    """Return each context's share of the visits, of all users or of some."""
    weights = tallies.counts.astype(np.float64)
    if is_counted is not None:
        weights *= np.repeat(is_counted, np.diff(tallies.indptr))
    contexts = tallies.cells // tallies.n_actions
    visits = np.bincount(contexts, weights, minlength=tallies.n_contexts)
    shares: FloatArray = visits / weights.sum()
    return shares
