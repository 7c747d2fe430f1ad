"""What a repetition yields: losses in the arena, or what a witness of a run computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.learners.interface import LearnerMaker
from unswayed.simulation.algorithms import OracleMaker
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Goal, run_repetition
from unswayed.tallies import Tallies


def suboptimality_in_arena(
    settings: Settings, algorithm: str, attack: str, repetition: int
) -> float:
    """Return what good users lose when the algorithm learns against the attack.

    The same number as `unswayed simulate` gives for these settings, seed and repetition.
    """
    return _in_arena(settings, algorithm, attack, repetition, Goal.SUBOPTIMALITY)


def regret_in_arena(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return a good user's mean regret while the algorithm learns against the attack.

    The same number as `unswayed simulate --goal regret` gives.
    """
    return _in_arena(settings, algorithm, attack, repetition, Goal.REGRET)


def _in_arena(
    settings: Settings, algorithm: str, attack: str, repetition: int, goal: Goal
) -> float:
    return run_repetition(replace(settings, attack=attack), algorithm, repetition, goal).loss


class Witness(OracleMaker):
    """Makes learners with another maker, and remembers who is good, which the arena tells it."""

    is_good: BoolArray

    def __init__(self, make: LearnerMaker) -> None:
        self._make = make

    def knowing(self, is_good: BoolArray) -> LearnerMaker:
        """Remember the good users and return the maker."""
        self.is_good = is_good
        return self._make


def cell_means(tallies: Tallies, is_counted: BoolArray | None = None) -> FloatArray:
    """Return the plain mean reward of each cell, of all users or of some; NaN where none played."""
    weights = np.ones(len(tallies.cells))
    if is_counted is not None:
        weights = np.repeat(is_counted, np.diff(tallies.indptr)).astype(np.float64)
    counts, sums = (
        np.bincount(tallies.cells, weights * column, minlength=tallies.n_cells)
        for column in (tallies.counts, tallies.sums)
    )
    means = np.full(tallies.n_cells, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means.reshape(tallies.n_contexts, tallies.n_actions)
