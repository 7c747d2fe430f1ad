"""The paper's method: Algorithm 1, Algorithm 2 and the recovery procedure of its appendix."""

from unswayed.learners.paper.context_probabilities import (
    ContextEstimate,
    Multivariate,
    estimate_context_probabilities,
)
from unswayed.learners.paper.method import (
    CellIntervals,
    allowed_actions,
    frequent_contexts,
    guard_intervals,
    learn_paper,
    split_contexts,
)
from unswayed.learners.paper.recovery import (
    FAILURE_PROBABILITY,
    Univariate,
    recover_frequent,
    recover_rare,
    reward_rows,
)

__all__ = [
    "FAILURE_PROBABILITY",
    "CellIntervals",
    "ContextEstimate",
    "Multivariate",
    "Univariate",
    "allowed_actions",
    "estimate_context_probabilities",
    "frequent_contexts",
    "guard_intervals",
    "learn_paper",
    "recover_frequent",
    "recover_rare",
    "reward_rows",
    "split_contexts",
]
