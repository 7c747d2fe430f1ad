"""Policies, plans of epochs, and the keyed assignment of actions to users."""

from typing import TYPE_CHECKING

from unswayed.lazy import lazy_names

if TYPE_CHECKING:
    from unswayed.policy.assignment import Assignment, new_secret
    from unswayed.policy.origin import Origin
    from unswayed.policy.plan import Decider, EpochPlan, Mode, Rule, Ruling
    from unswayed.policy.policy import NO_BOUND, Decision, Policy, best_known, capped_means

__all__ = [
    "NO_BOUND",
    "Assignment",
    "Decider",
    "Decision",
    "EpochPlan",
    "Mode",
    "Origin",
    "Policy",
    "Rule",
    "Ruling",
    "best_known",
    "capped_means",
    "new_secret",
]

__getattr__ = lazy_names(__name__)
