"""Baseline learners, run per context."""

from unswayed.learners.baselines.elimination import ActiveArmElimination, Barbar, LiuStyle
from unswayed.learners.baselines.tables import IndependentUCB, NaiveMean, NaiveUCB, ThompsonSampling
from unswayed.learners.interface import LearnerMaker, LearnerSpec

_MAKERS: dict[str, LearnerMaker] = {
    "naive-mean": NaiveMean,
    "naive-ucb": NaiveUCB,
    "independent-ucb": IndependentUCB,
    "liu": LiuStyle,
    "barbar": Barbar,
    "active-arm-elimination": ActiveArmElimination,
    "thompson": ThompsonSampling,
}

BASELINES = {name: LearnerSpec(name=name, make=make) for name, make in _MAKERS.items()}
"""All baselines by name; add your own, as docs/extend.md shows."""

__all__ = [
    "BASELINES",
    "ActiveArmElimination",
    "Barbar",
    "IndependentUCB",
    "LiuStyle",
    "NaiveMean",
    "NaiveUCB",
    "ThompsonSampling",
]
