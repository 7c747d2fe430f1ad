"""A plan in sentences."""

from __future__ import annotations

from unswayed.limits.calibration import constants
from unswayed.limits.planner import MethodPlan, Plan


def plan_words(plan: Plan) -> tuple[str, ...]:
    """Return what a plan says, the first of its methods first."""
    first = plan.methods[0]
    return tuple(
        sentence
        for sentence in (
            _promise(plan, first),
            _limit(plan),
            _users(plan),
            _estimators(plan),
            _context_phase(plan, first),
            _gain(first),
            _cost(plan, first),
            _borrowed(plan),
        )
        if sentence
    )


def _promise(plan: Plan, method: MethodPlan) -> str:
    learner = "" if _is_fitted(method) else f" that method {method.constants_of} learns"
    return (
        f"Let each of {plan.n_users:,} users play {method.interactions_per_user:,} times. Then the "
        f"policy{learner} loses at most {plan.target_suboptimality:g} against the best one in "
        f"{_percent(1 - plan.failure_probability)} of all cases, under a coalition of "
        f"{_percent(plan.adversarial_fraction)} and the attacks that the constants were fitted "
        f"with: {', '.join(_attacks(plan))}."
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
        f"({_percent(plan.frequent_share)} of the visits) by trimmed means, and the other "
        f"{plan.n_contexts - plan.n_frequent:,} together by the spectral filter. "
        f"K(B) is {plan.complexity:.3g}."
    )


def _context_phase(plan: Plan, method: MethodPlan) -> str:
    if method.context_error is None:
        return "No plays are needed to separate frequent contexts from rare ones."
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


def _borrowed(plan: Plan) -> str:
    borrowed = [found for found in plan.methods if not _is_fitted(found)]
    if not borrowed:
        return ""
    names = ", ".join(found.method for found in borrowed)
    return (
        f"No constants were fitted for method {names}: the numbers are those of method "
        f"{borrowed[0].constants_of}. With --verify they are tried on {plan.methods[0].method}."
    )


def _is_fitted(method: MethodPlan) -> bool:
    return method.constants_of == method.method


def _attacks(plan: Plan) -> list[str]:
    shape = "frequent" if plan.n_frequent == plan.n_contexts else "mixed"
    found: list[str] = constants()["attacks"][shape]
    return found


def _plays(number: int) -> str:
    return "1 play" if number == 1 else f"{number:,} plays"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
