"""What no method can do, the coalitions that show it, and how much traffic a target takes."""

from unswayed.limits.adversaries import (
    CountDistribution,
    HidingAdversary,
    HidingPair,
    RewardUrns,
    binomial_counts,
    one_sided_adversary,
    two_sided_adversaries,
)
from unswayed.limits.hideability import Hideability, LimitsRow, can_hide
from unswayed.limits.hiding import (
    coalition_for,
    one_sided_distance,
    one_sided_hellinger,
    smallest_one_sided_coalition,
    smallest_two_sided_coalition,
    success_bound,
    total_variation,
    two_sided_distance,
    two_sided_hellinger,
)
from unswayed.limits.horizon import largest_one_sided_interactions, largest_two_sided_interactions
from unswayed.limits.paper_bounds import (
    context_phase_steps,
    effective_corruption,
    instance_complexity,
    interactions_alone,
    lemma_interactions,
    lower_bound_interactions,
    parallel_gain,
    upper_bound_interactions,
    upper_bound_suboptimality,
    users_needed,
    warm_up_interactions,
)
from unswayed.limits.plan_words import plan_words
from unswayed.limits.planner import MethodPlan, Plan, plan_traffic
from unswayed.limits.swaps import (
    largest_swap_interactions,
    normal_total_variation,
    smallest_swap_coalition,
    swap_separation,
)

__all__ = [
    "CountDistribution",
    "Hideability",
    "HidingAdversary",
    "HidingPair",
    "LimitsRow",
    "MethodPlan",
    "Plan",
    "RewardUrns",
    "binomial_counts",
    "can_hide",
    "coalition_for",
    "context_phase_steps",
    "effective_corruption",
    "instance_complexity",
    "interactions_alone",
    "largest_one_sided_interactions",
    "largest_swap_interactions",
    "largest_two_sided_interactions",
    "lemma_interactions",
    "lower_bound_interactions",
    "normal_total_variation",
    "one_sided_adversary",
    "one_sided_distance",
    "one_sided_hellinger",
    "parallel_gain",
    "plan_traffic",
    "plan_words",
    "smallest_one_sided_coalition",
    "smallest_swap_coalition",
    "smallest_two_sided_coalition",
    "success_bound",
    "swap_separation",
    "total_variation",
    "two_sided_adversaries",
    "two_sided_distance",
    "two_sided_hellinger",
    "upper_bound_interactions",
    "upper_bound_suboptimality",
    "users_needed",
    "warm_up_interactions",
]
