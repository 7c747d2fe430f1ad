"""The default learner: bounded influence, one model of a coalition, decisions by regret."""

from unswayed.learners.bounded.method import Reviewed, learn_bounded

__all__ = ["Reviewed", "learn_bounded"]
