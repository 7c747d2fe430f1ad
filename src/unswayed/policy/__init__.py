"""What to play, how sure we are, and who was asked to play what."""

from unswayed.policy.assignment import Assignment, new_secret
from unswayed.policy.policy import Decision, Policy

__all__ = ["Assignment", "Decision", "Policy", "new_secret"]
