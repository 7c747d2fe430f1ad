"""Learning while serving: epochs, each with a plan of who explores and who plays the policy."""

from unswayed.learners.epochs.planning import next_plan
from unswayed.learners.epochs.playing import EpochPlayer
from unswayed.learners.epochs.schedule import Schedule, planned_schedule

__all__ = ["EpochPlayer", "Schedule", "next_plan", "planned_schedule"]
