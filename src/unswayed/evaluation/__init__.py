"""How good a policy is for honest users, from the log of another one."""

from unswayed.evaluation.evaluating import Evaluation, evaluate_events, evaluate_log

__all__ = ["Evaluation", "evaluate_events", "evaluate_log"]
