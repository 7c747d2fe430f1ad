"""Baseline learners, run per context."""

from unswayed.learners.baselines.active_arm_elimination import ActiveArmElimination
from unswayed.learners.baselines.barbar import ORIGINAL_CONSTANT, Barbar, BarbatStyle, LiuStyle
from unswayed.learners.baselines.fed_mom_ucb import FedMomUCB
from unswayed.learners.baselines.phased_elimination import PhasedElimination
from unswayed.learners.baselines.pooled import (
    EpsilonGreedy,
    IndependentUCB,
    NaiveMean,
    NaiveUCB,
    ThompsonSampling,
)
from unswayed.learners.baselines.rclub import RclubStyle
from unswayed.learners.interface import LearnerSpec

BASELINES: dict[str, LearnerSpec] = {
    spec.name: spec
    for spec in (
        LearnerSpec(
            name="naive-mean",
            summary="uniform exploration, best mean over all users",
            make=NaiveMean,
        ),
        LearnerSpec(
            name="naive-ucb",
            summary="UCB that ignores who is asking",
            make=NaiveUCB,
        ),
        LearnerSpec(
            name="independent-ucb",
            summary="UCB for each user alone, nothing shared",
            make=IndependentUCB,
        ),
        LearnerSpec(
            name="liu",
            summary="pooled BARBAR with active and bad actions, in the style of Liu et al. 2021",
            make=LiuStyle,
        ),
        LearnerSpec(
            name="barbar",
            summary="epochs that play doubtful actions less, Gupta et al. 2019",
            make=Barbar,
        ),
        LearnerSpec(
            name="active-arm-elimination",
            summary="layers of elimination that correct each other, Lykouris et al. 2018",
            make=ActiveArmElimination,
        ),
        LearnerSpec(
            name="epsilon-greedy",
            summary="best plain mean, with exploration that fades",
            make=EpsilonGreedy,
        ),
        LearnerSpec(
            name="thompson",
            summary="Thompson sampling with Gaussian posteriors over all users",
            make=ThompsonSampling,
        ),
        LearnerSpec(
            name="barbat",
            summary="BARBAR with epochs of fixed length, in the style of Hu and Chen 2025",
            make=BarbatStyle,
        ),
        LearnerSpec(
            name="fed-mom-ucb",
            summary="UCB on medians of group means, in the style of Saday et al. 2022",
            make=FedMomUCB,
        ),
        LearnerSpec(
            name="phased-elimination",
            summary="elimination by medians over users, in the style of Mitra et al. 2022",
            make=PhasedElimination,
        ),
        LearnerSpec(
            name="rclub",
            summary="UCB for clusters of users cut ever finer, in the style of RCLUB-WCU 2023",
            make=RclubStyle,
        ),
    )
}

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
