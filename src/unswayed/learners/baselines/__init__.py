"""Baseline learners, run per context."""

from unswayed.learners.baselines.elimination import (
    ORIGINAL_CONSTANT,
    ActiveArmElimination,
    Barbar,
    BarbatStyle,
    LiuStyle,
    PhasedElimination,
)
from unswayed.learners.baselines.tables import (
    EpsilonGreedy,
    FedMomUCB,
    IndependentUCB,
    NaiveMean,
    NaiveUCB,
    RclubStyle,
    ThompsonSampling,
)
from unswayed.learners.interface import LearnerMaker, LearnerSpec

_LISTED: tuple[tuple[str, LearnerMaker, str], ...] = (
    ("naive-mean", NaiveMean, "uniform exploration, best mean over all users"),
    ("naive-ucb", NaiveUCB, "UCB that ignores who is asking"),
    ("independent-ucb", IndependentUCB, "UCB for each user alone, nothing shared"),
    ("liu", LiuStyle, "pooled BARBAR with active and bad actions, after Liu et al. 2021"),
    ("barbar", Barbar, "epochs that play doubtful actions less, Gupta et al. 2019"),
    ("active-arm-elimination", ActiveArmElimination, "layered elimination, Lykouris et al. 2018"),
    ("epsilon-greedy", EpsilonGreedy, "best plain mean, with exploration that fades"),
    ("thompson", ThompsonSampling, "Thompson sampling with Gaussian posteriors over all users"),
    ("barbat", BarbatStyle, "BARBAR with epochs of fixed length, after Hu and Chen 2025"),
    ("fed-mom-ucb", FedMomUCB, "UCB on medians of group means, after Saday et al. 2022"),
    ("phased-elimination", PhasedElimination, "by medians over users, after Mitra et al. 2022"),
    ("rclub", RclubStyle, "UCB for clusters of users cut ever finer, after RCLUB-WCU 2023"),
)

BASELINES = {name: LearnerSpec(name=name, summary=line, make=make) for name, make, line in _LISTED}

__all__ = [
    "BASELINES",
    "ORIGINAL_CONSTANT",
    "ActiveArmElimination",
    "Barbar",
    "BarbatStyle",
    "EpsilonGreedy",
    "FedMomUCB",
    "IndependentUCB",
    "LiuStyle",
    "NaiveMean",
    "NaiveUCB",
    "PhasedElimination",
    "RclubStyle",
    "ThompsonSampling",
]
