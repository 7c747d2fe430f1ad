"""Baseline learners, run per context."""

from unswayed.learners.baselines.elimination import (
    ORIGINAL_CONSTANT,
    ActiveArmElimination,
    Barbar,
    LiuStyle,
)
from unswayed.learners.baselines.tables import IndependentUCB, NaiveMean, NaiveUCB, ThompsonSampling
from unswayed.learners.interface import LearnerMaker, LearnerSpec

_LISTED: tuple[tuple[str, LearnerMaker, str], ...] = (
    ("naive-mean", NaiveMean, "uniform exploration, best mean over all users"),
    ("naive-ucb", NaiveUCB, "UCB that ignores who is asking"),
    ("independent-ucb", IndependentUCB, "UCB for each user alone, nothing shared"),
    ("liu", LiuStyle, "pooled BARBAR with active and bad actions, after Liu et al. 2021"),
    ("barbar", Barbar, "epochs that play doubtful actions less, Gupta et al. 2019"),
    ("active-arm-elimination", ActiveArmElimination, "layered elimination, Lykouris et al. 2018"),
    ("thompson", ThompsonSampling, "Thompson sampling with Gaussian posteriors over all users"),
)

BASELINES = {name: LearnerSpec(name=name, summary=line, make=make) for name, make, line in _LISTED}

__all__ = [
    "BASELINES",
    "ORIGINAL_CONSTANT",
    "ActiveArmElimination",
    "Barbar",
    "IndependentUCB",
    "LiuStyle",
    "NaiveMean",
    "NaiveUCB",
    "ThompsonSampling",
]
