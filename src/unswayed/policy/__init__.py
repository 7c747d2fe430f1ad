"""What to play, how sure we are, and who was asked to play what."""

from unswayed.policy.assignment import Assignment, new_secret
from unswayed.policy.policy import NO_BOUND, Decision, Policy, best_known

__all__ = ["NO_BOUND", "Assignment", "Decision", "Policy", "best_known", "new_secret"]
