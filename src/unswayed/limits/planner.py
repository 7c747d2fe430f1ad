"""How much traffic a target takes: plays per user, users, and what can never be enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from unswayed.errors import InputError
from unswayed.limits.calibration import (
    Shape,
    alone_factor,
    check_plan_failure,
    context_factor,
    crowding,
    method_constants,
)
from unswayed.limits.checks import (
    CALIBRATED_DEVIATION,
    MAX_ACTIONS,
    MAX_INTERACTIONS,
    N_ACTIONS,
    N_USERS,
    Traffic,
    check_context_probabilities,
    check_count,
    check_positive,
    check_target,
)
from unswayed.limits.horizon import largest_two_sided_interactions
from unswayed.limits.paper_bounds import (
    instance_complexity,
    interactions_alone,
    lower_bound_interactions,
)
from unswayed.limits.swaps import largest_swap_interactions
from unswayed.names import known_keywords

USERS_PER_CELL = 1.0
"""Ours: the constants are fitted with this many times SA/alpha users and more."""

FEWEST_USERS = 300
"""Ours: the fewest users of the calibration, however small the world."""

PAPER_METHOD = "paper"
"""The method of Theorem 5.1, which asks for context probabilities that err by epsilon at most."""

EVERYDAY = Traffic()
"""The traffic of the calibration."""

DEFAULT_LEAD = 0.1
"""Ours: how much better than the average action the best one is taken to be, to price exploring."""


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """What one method needs.

    Attributes
    ----------
    method
        Its name.
    factor
        C in C·K(B)·sqrt((alpha + few_users·A·log(SA)/L)/N).
    interactions_per_user, total_interactions
        N and N·L.
    context_steps
        T0, those of the N·L that go into context probabilities first.
    context_error
        The l1 error of the context probabilities after them; None where nothing depends on it.
    gain
        Plays per user as a share of what a user alone would need; 0.01 is a hundredth.
    exploration_cost
        Reward that all users together forgo while exploring: the lead, once a play.
    """

    method: str
    factor: float
    interactions_per_user: int
    total_interactions: int
    context_steps: int
    context_error: float | None
    gain: float
    exploration_cost: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A target and what it takes.

    Attributes
    ----------
    n_contexts, n_actions, adversarial_fraction, target_suboptimality, failure_probability
        The question.
    traffic, lead
        How rewards and visits come about, and the best action's assumed lead over the average one.
    n_users, users_given, users_needed
        Users of the plan, whether they were given, and how many the constants ask for.
    complexity
        K(B).
    effective_corruption
        max(SA/L, alpha), the paper's.
    lower_bound
        Plays per user below which every method loses epsilon or more at least half of the time, in
        one of two worlds; exact.
    lower_bound_uniform
        The same for methods that play uniformly over the actions; a normal approximation.
    lower_bound_order
        min(S, A)·alpha²/(3 epsilon)², Theorem 4.1 with its constant left out.
    interactions_alone
        Plays of a user who learns alone.
    n_frequent, frequent_share
        How many contexts trimmed means serve one by one, and their share of the visits. The
        spectral filter serves the others together.
    methods
        What each method needs.
    """

    n_contexts: int
    n_actions: int
    adversarial_fraction: float
    target_suboptimality: float
    failure_probability: float
    traffic: Traffic
    lead: float
    n_users: int
    users_given: bool
    users_needed: int
    complexity: float
    effective_corruption: float
    lower_bound: int
    lower_bound_uniform: int
    lower_bound_order: float
    interactions_alone: int
    n_frequent: int
    frequent_share: float
    methods: tuple[MethodPlan, ...]


@known_keywords(adversarial_fraction="alpha")
def plan_traffic(
    context_probabilities: ArrayLike,
    n_actions: int,
    alpha: float,
    target_suboptimality: float,
    failure_probability: float,
    *,
    methods: tuple[str, ...] = (PAPER_METHOD,),
    n_users: int | None = None,
    traffic: Traffic = EVERYDAY,
    lead: float = DEFAULT_LEAD,
) -> Plan:
    """Return the plays per user after which a policy is within epsilon, and what bounds them.

    Parameters
    ----------
    context_probabilities
        Shape (n_contexts,), in any order.
    n_actions
        Actions A, at least 2.
    alpha, target_suboptimality, failure_probability
        alpha below 1/3, epsilon below alpha, delta from 0.01 to 0.5.
    methods
        Methods to plan for, the one that matters first.
    n_users
        Users there are; without them the plan takes as many as it needs.
    traffic
        How rewards and visits come about.
    lead
        The best action's mean reward minus the average action's, to price exploring.

    Notes
    -----
    Plays: N = g·C²·K(B)²·(alpha + e·A·log(SA)/L)·(sigma/0.5)²/epsilon², Theorem 5.1 with factors
    and the growth g that traffic causes fitted by
    ``benchmarks/calibrate_planner.py`` against the attacks listed in ``constants.json``. Empirical:
    a coalition that does better than those needs more. Never below the lower bound, which is exact
    and holds for every method. Two worlds, in which one action of each context is worse by epsilon
    than the best of the others or better by as much, look alike to every method up to that number
    of plays. The losses of any policy in the two add up to epsilon or more, so in one of them it is
    wrong, and loses epsilon, at least half of the time.

    Examples
    --------
    >>> plan = plan_traffic([0.25] * 4, 5, 0.1, 0.05, 0.1)
    >>> plan.methods[0].interactions_per_user > plan.lower_bound
    True
    """
    probabilities = np.sort(check_context_probabilities(context_probabilities))[::-1]
    n_contexts, n_actions = (
        probabilities.size,
        check_count(n_actions, N_ACTIONS, at_least=2, at_most=MAX_ACTIONS),
    )
    target, fraction = check_target(target_suboptimality, alpha)
    delta = check_plan_failure(failure_probability)
    cells = n_contexts * n_actions
    needed = _users_needed(methods[0], n_contexts, n_actions, fraction, delta)
    users = needed if n_users is None else check_count(n_users, N_USERS)
    if users <= cells:
        raise InputError(
            f"{users:,} users cannot learn {n_contexts:,} contexts by {n_actions:,} actions: each "
            f"pair needs users of its own. Give more than {cells:,}, better {needed:,}, or join "
            "rare contexts."
        )
    alone = alone_factor(failure_probability=delta) ** 2 * interactions_alone(
        probabilities, n_actions, target / traffic.scale
    )
    lower = 1 + _largest_hidden(target, fraction, traffic)
    n_frequent = min(n_contexts, n_actions)
    plan = Plan(
        n_contexts=n_contexts,
        n_actions=n_actions,
        adversarial_fraction=fraction,
        target_suboptimality=target,
        failure_probability=delta,
        traffic=traffic,
        lead=check_positive(lead, "lead"),
        n_users=users,
        users_given=n_users is not None,
        users_needed=needed,
        complexity=instance_complexity(probabilities, n_actions),
        effective_corruption=max(cells / users, fraction),
        lower_bound=lower,
        lower_bound_uniform=max(
            lower,
            math.ceil(
                largest_swap_interactions(
                    2 * target, n_actions, fraction, noise=traffic.scale * CALIBRATED_DEVIATION
                )
            ),
        ),
        lower_bound_order=lower_bound_interactions(n_contexts, n_actions, fraction, target),
        interactions_alone=math.ceil(alone),
        n_frequent=n_frequent,
        frequent_share=min(float(probabilities[:n_frequent].sum()), 1.0),
        methods=(),
    )
    return replace(
        plan, methods=tuple(_method_plan(method, plan) for method in dict.fromkeys(methods))
    )


def _largest_hidden(target: float, fraction: float, traffic: Traffic) -> int:
    """Return the plays per user up to which a coalition hides an action's rank from every method.

    The action pays epsilon less or more than the others, with 0 or 1 at the click rate, or with two
    values as far apart as the deviation says.
    """
    unit = 1.0 if traffic.base is not None else traffic.scale
    base = 0.5 - target / unit if traffic.base is None else traffic.base
    return int(largest_two_sided_interactions(2 * target / unit, fraction, base=base))


def _users_needed(
    method: str, n_contexts: int, n_actions: int, fraction: float, delta: float
) -> int:
    """Return the users from which on too few of them cost no more than the coalition does.

    Never fewer than the calibration had.
    """
    fitted = method_constants(
        method,
        Shape.of(n_contexts, n_actions),
        alpha=fraction,
        failure_probability=delta,
    )
    balanced = fitted.few_users * crowding(n_contexts, n_actions, 1) / fraction
    calibrated = USERS_PER_CELL * n_contexts * n_actions / fraction
    return max(FEWEST_USERS, math.ceil(max(balanced, calibrated) * (1 - 1e-12)))


def _method_plan(method: str, plan: Plan) -> MethodPlan:
    """Return what one method needs for the target of a plan."""
    shape = Shape.of(plan.n_contexts, plan.n_actions)
    fitted = method_constants(
        method,
        shape,
        alpha=plan.adversarial_fraction,
        failure_probability=plan.failure_probability,
        traffic=plan.traffic,
    )
    crowd = crowding(plan.n_contexts, plan.n_actions, plan.n_users)
    corruption = plan.adversarial_fraction + fitted.few_users * crowd
    unit = fitted.factor * plan.complexity * plan.traffic.scale
    plays = (unit / plan.target_suboptimality) ** 2 * corruption * fitted.traffic_growth
    plays = max(plays, plan.lower_bound)
    context_plays, context_error = 0.0, None
    if shape is Shape.MIXED:
        context_plays = fitted.warmup_share * plays
    if shape is Shape.MIXED and method == PAPER_METHOD:
        # The calibration spent a share on the contexts; Theorem 5.1 asks for an error of epsilon,
        # where rewards are of the order of one.
        factor = context_factor(
            alpha=plan.adversarial_fraction,
            failure_probability=plan.failure_probability,
        )
        spread = plan.adversarial_fraction + plan.n_contexts / plan.n_users
        asked = (factor * plan.traffic.scale / plan.target_suboptimality) ** 2 * spread
        context_plays = max(context_plays, asked)
        context_error = factor * math.sqrt(spread / context_plays)
        plays = (1 - fitted.warmup_share) * plays + context_plays
    interactions = math.ceil(plays * (1 - 1e-12))
    if interactions > MAX_INTERACTIONS:
        raise InputError(
            f"the target suboptimality (epsilon) {plan.target_suboptimality:g} would take about "
            f"{plays:.1e} plays per user: that is out of reach. Ask for a larger epsilon, join "
            "contexts, or drop actions."
        )
    total = interactions * plan.n_users
    return MethodPlan(
        method=method,
        factor=fitted.factor,
        interactions_per_user=interactions,
        total_interactions=total,
        context_steps=math.ceil(context_plays * plan.n_users),
        context_error=context_error,
        gain=interactions / plan.interactions_alone,
        exploration_cost=plan.lead * total,
    )
