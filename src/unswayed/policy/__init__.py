"""What to play, how sure we are, and who was asked to play what."""

from unswayed.policy.assignment import Assignment, new_secret
from unswayed.policy.deciding import Decider, Mode, Ruling
from unswayed.policy.plan import EpochPlan, Rule
from unswayed.policy.policy import NO_BOUND, Decision, Policy

__all__ = [
    "NO_BOUND",
    "Assignment",
    "Decider",
    "Decision",
    "EpochPlan",
    "Mode",
    "Policy",
    "Rule",
    "Ruling",
    "new_secret",
]
