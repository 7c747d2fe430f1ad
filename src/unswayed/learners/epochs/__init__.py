"""Learning while serving: epochs, each with a plan of who explores and who plays the policy."""

from unswayed.learners.epochs.learner import EpochDecision, EpochLearner
from unswayed.learners.epochs.planning import Schedule, next_plan, planned_schedule
from unswayed.learners.epochs.playing import (
    EpochPlayer,
    ForgettingEpochPlayer,
    PersonalEpochPlayer,
    explore_then_commit,
)

__all__ = [
    "EpochDecision",
    "EpochLearner",
    "EpochPlayer",
    "ForgettingEpochPlayer",
    "PersonalEpochPlayer",
    "Schedule",
    "explore_then_commit",
    "next_plan",
    "planned_schedule",
]
