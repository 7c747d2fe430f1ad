"""The default learner: bounded influence, one model of a coalition, decisions by regret."""

from unswayed.learners.bounded.method import learn_bounded

__all__ = ["learn_bounded"]
