"""A plan in sentences."""

from __future__ import annotations

from unswayed.limits.calibration import constants
from unswayed.limits.checks import CALIBRATED_DEVIATION, Traffic
from unswayed.limits.log_plans import LogPlan
from unswayed.limits.planner import PAPER_METHOD, MethodPlan, Plan
from unswayed.visible import percent


def plan_words(plan: Plan) -> tuple[str, ...]:
    """Return what a plan says, the first of its methods first."""
    first = plan.methods[0]
    return tuple(
        sentence
        for sentence in (
            _promise(plan, first),
            _limit(plan),
            _users(plan),
            _estimators(plan) if first.method == PAPER_METHOD else "",
            _context_phase(plan, first),
            _gain(first),
            _cost(plan, first),
            _traffic(plan.traffic),
        )
        if sentence
    )


def _promise(plan: Plan, method: MethodPlan) -> str:
    return (
        f"Let each of {plan.n_users:,} users play {method.interactions_per_user:,} times. Then the "
        f"policy that method {method.method} learns loses at most {plan.target_suboptimality:g} "
        f"against the best one in {percent(1 - plan.failure_probability)} of all cases, under a "
        f"coalition of {percent(plan.adversarial_fraction)} and the attacks that the constants "
        f"were fitted with: {', '.join(_attacks(plan))}."
    )


def _limit(plan: Plan) -> str:
    return (
        f"With fewer than {_plays(plan.lower_bound)} per user no method can promise that: the "
        "coalition could exchange the best action and the runner-up in every context and leave no "
        "trace."
    )


def _users(plan: Plan) -> str:
    if not plan.users_given:
        return (
            f"{plan.users_needed:,} users are needed at least: from there on, having too few of "
            "them costs no more than the coalition does."
        )
    if plan.n_users < plan.users_needed:
        return (
            f"{plan.n_users:,} users are fewer than the {plan.users_needed:,} that this takes: "
            "each must play more, and the number of plays is an extrapolation."
        )
    return f"{plan.users_needed:,} of your {plan.n_users:,} users would be enough."


def _estimators(plan: Plan) -> str:
    if plan.n_frequent == plan.n_contexts:
        return (
            f"All {plan.n_contexts:,} contexts are frequent: the paper's method serves each by "
            f"trimmed means over groups of users. K(B) is {plan.complexity:.3g}."
        )
    return (
        f"The paper's method serves the {plan.n_frequent:,} likeliest contexts "
        f"({percent(plan.frequent_share)} of the visits) by trimmed means, and the other "
        f"{plan.n_contexts - plan.n_frequent:,} together by the spectral filter. "
        f"K(B) is {plan.complexity:.3g}."
    )


def _context_phase(plan: Plan, method: MethodPlan) -> str:
    if method.context_steps == 0:
        return "No plays are needed to separate frequent contexts from rare ones."
    if method.context_error is None:
        return (
            f"Of them the first {method.context_steps:,} (T0) separate frequent contexts from rare "
            "ones, whose users get an action for good."
        )
    return (
        f"The first {method.context_steps:,} of all plays (T0, "
        f"{_plays(round(method.context_steps / plan.n_users))} per user) estimate how likely the "
        f"contexts are; their errors add up to {method.context_error:.2g} at most."
    )


def _gain(method: MethodPlan) -> str:
    if method.gain >= 1:
        return "Learning together does not pay here: a user alone would need no more plays."
    return (
        f"A user who learns alone would need {1 / method.gain:,.3g} times as many plays for the "
        "same loss."
    )


def _cost(plan: Plan, method: MethodPlan) -> str:
    return (
        f"Exploring takes {method.total_interactions:,} plays in all. Where the best action beats "
        f"the average one by {plan.lead:g}, they cost {method.exploration_cost:,.0f} in reward."
    )


def _traffic(traffic: Traffic) -> str:
    parts = [f"rewards with a deviation of {traffic.scale * CALIBRATED_DEVIATION:.3g}"]
    if traffic.base is not None:
        parts = [f"rewards of 0 and 1 around a rate of {traffic.base:.3g}"]
    if traffic.is_heavy_tailed:
        parts.append("heavy-tailed activity, where plays per user are a mean")
    if traffic.exploration < 1.0:
        parts.append(f"a log in which {percent(traffic.exploration)} of the plays explore")
    return f"This is for {', and '.join(parts)}."


def log_words(found: LogPlan) -> tuple[str, ...]:
    """Return what a plan from a log says, what is missing first."""
    plan = found.plan
    had = f"The log has {found.interactions_per_user:.3g} plays per user of {plan.n_users:,} users"
    if found.more_interactions == 0:
        first = f"{had}: enough for this target."
    else:
        first = f"{had}: {found.more_interactions:,} more of each are missing for this target."
    users = ""
    if found.more_interactions and found.users_instead is not None:
        users = f"With {found.users_instead:,} users as active as these it would be enough too."
    elif found.more_interactions:
        users = "More users who are as active as these would not make up for it."
    withstands = (
        f"As it is, it meets the target for a coalition of {_accounts(found.withstands, plan)}."
        if found.withstands
        else "As it is, it does not meet the target for any coalition."
    )
    hidden = (
        f"From {_accounts(found.hidden_by, plan)} on, a coalition could hide a difference of "
        f"{2 * plan.target_suboptimality:g} from every method."
    )
    return tuple(sentence for sentence in (first, users, withstands, hidden) if sentence)


def _accounts(share: float, plan: Plan) -> str:
    return f"{percent(share)} ({int(share * plan.n_users):,} accounts)"


def _attacks(plan: Plan) -> list[str]:
    shape = "frequent" if plan.n_frequent == plan.n_contexts else "mixed"
    found: list[str] = constants()["methods"][plan.methods[0].method]["attacks"][shape]
    return found


def _plays(number: int) -> str:
    return "1 play" if number == 1 else f"{number:,} plays"
