"""The paper's method: Algorithm 1, Algorithm 2 and the recovery procedure of its appendix."""

from unswayed.learners.paper.context_probabilities import (
    ContextEstimate,
    estimate_context_probabilities,
)
from unswayed.learners.paper.method import frequent_contexts, learn_paper

__all__ = [
    "ContextEstimate",
    "estimate_context_probabilities",
    "frequent_contexts",
    "learn_paper",
]
