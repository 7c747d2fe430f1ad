"""Lower bounds that hold for all methods, the coalitions that attain them, and traffic planning."""

from unswayed.limits.bounds import (
    instance_complexity,
    interactions_alone,
    largest_swap_interactions,
    lower_bound_interactions,
    normal_total_variation,
    smallest_swap_coalition,
    swap_separation,
    upper_bound_suboptimality,
    users_needed,
)
from unswayed.limits.hiding import (
    HidingAdversary,
    RewardUrns,
    binomial_counts,
    can_hide,
    hiding_distance,
    hiding_hellinger,
    largest_interactions,
    one_sided_adversary,
    smallest_coalition,
    success_bound,
    total_variation,
    two_sided_adversaries,
)
from unswayed.limits.planner import plan_traffic

__all__ = [
    "HidingAdversary",
    "RewardUrns",
    "binomial_counts",
    "can_hide",
    "hiding_distance",
    "hiding_hellinger",
    "instance_complexity",
    "interactions_alone",
    "largest_interactions",
    "largest_swap_interactions",
    "lower_bound_interactions",
    "normal_total_variation",
    "one_sided_adversary",
    "plan_traffic",
    "smallest_coalition",
    "smallest_swap_coalition",
    "success_bound",
    "swap_separation",
    "total_variation",
    "two_sided_adversaries",
    "upper_bound_suboptimality",
    "users_needed",
]
