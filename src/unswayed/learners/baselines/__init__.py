"""What the robust learners are compared with, all per context."""

from unswayed.learners.baselines.active_arm_elimination import ActiveArmElimination
from unswayed.learners.baselines.barbar import Barbar
from unswayed.learners.baselines.epochs import ORIGINAL_CONSTANT
from unswayed.learners.baselines.epsilon_greedy import EpsilonGreedy
from unswayed.learners.baselines.independent_ucb import IndependentUCB
from unswayed.learners.baselines.liu import LiuStyle
from unswayed.learners.baselines.naive_mean import NaiveMean
from unswayed.learners.baselines.naive_ucb import NaiveUCB
from unswayed.learners.baselines.thompson import ThompsonSampling
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
            summary="best pooled mean, with exploration that fades",
            make=EpsilonGreedy,
        ),
        LearnerSpec(
            name="thompson",
            summary="Thompson sampling with Gaussian posteriors over all users",
            make=ThompsonSampling,
        ),
    )
}

__all__ = [
    "BASELINES",
    "ORIGINAL_CONSTANT",
    "ActiveArmElimination",
    "Barbar",
    "EpsilonGreedy",
    "IndependentUCB",
    "LiuStyle",
    "NaiveMean",
    "NaiveUCB",
    "ThompsonSampling",
]
