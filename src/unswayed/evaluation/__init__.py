"""Off-policy evaluation for honest users, from the log of another policy."""

from unswayed.evaluation.evaluating import evaluate_policy
from unswayed.evaluation.results import Evaluation

__all__ = ["Evaluation", "evaluate_policy"]
