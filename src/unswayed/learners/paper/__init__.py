"""The paper's method: Algorithm 1, Algorithm 2 and the recovery procedure of its appendix."""

from unswayed.learners.paper.context_probabilities import (
    ContextEstimate,
    estimate_context_probabilities,
)
from unswayed.learners.paper.guard import allowed_actions, certified_losses, guard_intervals
from unswayed.learners.paper.method import (
    frequent_contexts,
    learn_paper,
    learn_paper_literal,
    split_contexts,
)

__all__ = [
    "ContextEstimate",
    "allowed_actions",
    "certified_losses",
    "estimate_context_probabilities",
    "frequent_contexts",
    "guard_intervals",
    "learn_paper",
    "learn_paper_literal",
    "split_contexts",
]
