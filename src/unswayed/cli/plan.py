"""`unswayed plan`: the traffic that a target loss requires."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

import typer

from unswayed.cli.log_options import SourceOptions
from unswayed.cli.options import Json, expanded, probabilities_in
from unswayed.errors import InputError
from unswayed.events import read_events
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.limits.checks import MAX_CONTEXTS, N_CONTEXTS, check_count
from unswayed.limits.planner import (
    CALIBRATED_DEVIATION,
    DEFAULT_LEAD,
    SMALLEST_ARRIVAL_RATIO,
    LogPlan,
    Plan,
    Traffic,
    constants,
    log_traffic,
    plan_from_log,
    plan_traffic,
    shape_of,
)
from unswayed.reports.tables import print_json, print_line, print_table
from unswayed.simulation.instances import GAP_SPREAD, named_probabilities
from unswayed.visible import counted, percent

ACTIVITIES = ("even", "heavy-tailed")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTraffic:
    """Traffic to plan for, if there is no log.

    contexts: Number of contexts S.
    actions: Number of actions A.
    users: Number of users [as many as needed].
    context_probabilities: uniform, zipf:EXPONENT, or a file with one number for each context
        [uniform].
    base: Mean reward of a runner-up if rewards are 0 or 1, such as a click rate.
    deviation: Standard deviation of one reward [0.5].
    activity: Plays per user: even (see --arrival-ratio) or heavy-tailed [even].
    arrival_ratio: Ratio of the busiest user's plays to the least busy one's, c_L [2].
    exploration: Share of plays that explore, in logs with propensities [1].
    """

    panel: ClassVar[str] = "Without a log"

    contexts: int | None = None
    actions: int | None = None
    users: int | None = None
    context_probabilities: str | None = None
    base: float | None = None
    deviation: float | None = None
    activity: str | None = None
    arrival_ratio: float | None = None
    exploration: float | None = None

    @property
    def traffic(self) -> Traffic:
        """How rewards and visits are distributed."""
        if self.activity not in (None, *ACTIVITIES):
            raise InputError(f"--activity is {' or '.join(ACTIVITIES)}, not {self.activity!r}.")
        ratio, explored = self.arrival_ratio, self.exploration
        return Traffic(
            base=self.base,
            deviation=self.deviation,
            arrival_ratio=SMALLEST_ARRIVAL_RATIO if ratio is None else ratio,
            is_heavy_tailed=self.activity == "heavy-tailed",
            exploration=1.0 if explored is None else explored,
        )


@expanded
def plan(
    alpha: float,
    epsilon: float,
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="LOG",
            help="Log to read contexts, actions, users, rewards, activity and propensities from. "
            "Without it, give --contexts and --actions.",
            show_default=False,
        ),
    ] = None,
    delta: float = 0.1,
    *,
    described: DescribedTraffic,
    source: SourceOptions,
    lead: float = DEFAULT_LEAD,
    json: Json = False,
) -> None:
    """Compute the traffic that a target loss requires, and a lower bound for any method.

    alpha: Share of users that may collude, below 1/3.
    epsilon: Largest acceptable loss against the best policy, below alpha.
    delta: Failure probability of the plan, from 0.01 to 0.5.
    lead: Mean reward of the best action minus that of the average action, to price exploration.
    """
    from_log = None
    if log is not None:
        for name, value in asdict(described).items():
            if value is not None:
                flag = f"--{name.replace('_', '-')}"
                raise InputError(f"{flag} is read from the log: omit one of the two.")
        # Unusable rows are dropped, because a plan does not need them.
        events = read_events(
            log, columns=source.columns(), query=source.query, on_bad_rows="drop"
        ).events
        from_log = plan_from_log(log_traffic(events), alpha, epsilon, delta, lead=lead)
        result = from_log.plan
        words = log_words(from_log) + plan_words(result)
    else:
        if described.contexts is None or described.actions is None:
            raise InputError("nothing to plan for: give a log, or --contexts and --actions.")
        traffic = described.traffic
        check_count(described.contexts, N_CONTEXTS, at_most=MAX_CONTEXTS)
        law = probabilities_in(described.context_probabilities or "uniform")
        result = plan_traffic(
            named_probabilities(law, described.contexts),
            described.actions,
            alpha,
            epsilon,
            delta,
            n_users=described.users,
            traffic=traffic,
            lead=lead,
        )
        words = [*plan_words(result), _test_words(result, described.context_probabilities)]
    if json:
        found = {} if from_log is None else asdict(from_log)
        found.pop("plan", None)
        print_json({"plan": asdict(result), "log": found or None, "words": words})
        return
    for sentence in words:
        print_line(sentence)
    first = result.methods[0]
    needed = (first.interactions_per_user, first.total_interactions, first.context_steps)
    print_table(
        f"{result.n_contexts:,} contexts, {result.n_actions:,} actions, {result.n_users:,} users, "
        f"{100 * result.adversarial_fraction:g}% colluders, "
        f"loss {result.target_suboptimality:g}",
        ["", "plays per user", "plays in all", "T0", "share of alone"],
        [
            [f"method: {first.method}", *(f"{n:,}" for n in needed), f"{first.gain:.2g}"],
            ["one user alone", f"{result.interactions_alone:,}", "-", "-", "1"],
            ["bound, any method", f"{result.lower_bound:,}", "-", "-", "-"],
            ["bound, uniform play", f"{result.lower_bound_uniform:,}", "-", "-", "-"],
        ],
        note="Lower bounds: exact for any method; a normal approximation for uniform play. "
        "T0: plays that estimate context probabilities.",
    )


def plan_words(plan: Plan) -> list[str]:
    """Return the description of a plan."""
    first, complexity = plan.methods[0], f"K(B) is {plan.complexity:.3g}."
    words = [
        f"Let each of {plan.n_users:,} users play {first.interactions_per_user:,} times. Then the "
        f"policy that method {first.method} learns loses at most {plan.target_suboptimality:g} "
        f"against the best one in {percent(1 - plan.failure_probability)} of all cases, under a "
        f"coalition of {percent(plan.adversarial_fraction)} and the attacks that the constants "
        f"were fitted with: {', '.join(_attacks(plan))}."
    ]
    if plan.lower_bound > 1:  # one play is always needed
        words.append(
            f"With fewer than {counted(plan.lower_bound, 'play')} per user no method can promise "
            "that: the coalition could exchange the best action and the runner-up in every context "
            "and leave no trace."
        )
    if not plan.users_given:
        words.append(
            f"{plan.users_needed:,} users are needed at least: from there on, having too few of "
            "them costs no more than the coalition does."
        )
    elif plan.n_users < plan.users_needed:
        words.append(
            f"{plan.n_users:,} users are fewer than the {plan.users_needed:,} that this takes: "
            "each must play more, and the number of plays is an extrapolation."
        )
    else:
        words.append(f"{plan.users_needed:,} of your {plan.n_users:,} users would be enough.")
    if first.context_error is None:
        words += [
            f"All {plan.n_contexts:,} contexts are frequent: the paper's method serves each by "
            f"trimmed means over groups of users. {complexity}",
            "No plays are needed to separate frequent contexts from rare ones.",
        ]
    else:
        each = counted(round(first.context_steps / plan.n_users), "play")
        words += [
            f"The paper's method serves the {plan.n_frequent:,} likeliest contexts "
            f"({percent(plan.frequent_share)} of the visits) by trimmed means, and the other "
            f"{plan.n_contexts - plan.n_frequent:,} together by the spectral filter. {complexity}",
            f"The first {first.context_steps:,} of all plays (T0, {each} per user) estimate how "
            f"likely the contexts are; their errors add up to {first.context_error:.2g} at most.",
        ]
    traffic = plan.traffic
    parts = [
        f"rewards with a deviation of {traffic.scale * CALIBRATED_DEVIATION:.3g}"
        if traffic.base is None
        else f"rewards of 0 and 1 around a rate of {traffic.base:.3g}"
    ]
    if traffic.is_heavy_tailed:
        parts.append("heavy-tailed activity, where plays per user are a mean")
    if traffic.exploration < 1.0:
        parts.append(f"a log in which {percent(traffic.exploration)} of the plays explore")
    return [
        *words,
        f"A user who learns alone would need {1 / first.gain:,.3g} times as many plays for the "
        "same loss."
        if first.gain < 1
        else "Learning together does not pay here: a user alone would need no more plays.",
        f"Exploring takes {first.total_interactions:,} plays in all. Where the best action beats "
        f"the average one by {plan.lead:g}, they cost {first.exploration_cost:,.0f} in reward.",
        f"This is for {', and '.join(parts)}.",
    ]


def log_words(found: LogPlan) -> list[str]:
    """Return the description of a plan from a log, starting with what is missing."""
    plan = found.plan
    had = f"The log has {found.interactions_per_user:.3g} plays per user of {plan.n_users:,} users"
    words = [f"{had}: enough for this target."]
    if found.more_interactions:
        words = [
            f"{had}: {found.more_interactions:,} more of each are missing for this target.",
            "More users who are as active as these would not make up for it."
            if found.users_instead is None
            else f"With {found.users_instead:,} users as active as these it would be enough too.",
        ]
    return [
        *words,
        f"As it is, it meets the target for a coalition of {_accounts(found.withstands, plan)}."
        if found.withstands
        else "As it is, it does not meet the target for any coalition.",
        f"From {_accounts(found.hidden_by, plan)} on, a coalition could hide a difference of "
        f"{2 * plan.target_suboptimality:g} from every method.",
    ]


def _accounts(share: float, plan: Plan) -> str:
    return f"{percent(share)} ({int(share * plan.n_users):,} accounts)"


def _attacks(plan: Plan) -> list[str]:
    shape = shape_of(plan.n_contexts, plan.n_actions)
    found: list[str] = constants()["methods"][plan.methods[0].method]["attacks"][shape]
    return found


# Ours: lead of the best action in simulations of a plan, in multiples of the target. With a smaller
# lead, wrong decisions cost less than the target; a larger lead is easy to detect.
HARD_LEAD = 1.3
WIDEST_LEAD = 0.7  # Ours: random worlds cannot have a larger lead


def _test_words(plan: Plan, context_probabilities: str | None) -> str:
    """Return the command that simulates a plan."""
    traffic, first = plan.traffic, plan.methods[0]
    widest = WIDEST_LEAD
    if traffic.base is not None:
        widest = min(widest, traffic.base / GAP_SPREAD, 1.0 - traffic.base)
    log = "" if traffic.exploration == 1.0 else "-on-log"
    options: dict[str, object] = {
        "contexts": plan.n_contexts,
        "actions": plan.n_actions,
        "users": plan.n_users,
        "interactions": first.interactions_per_user,
        "alpha": plan.adversarial_fraction,
        "gap": f"{min(HARD_LEAD * plan.target_suboptimality, widest):g}",
        "attack": _attacks(plan)[0],
        "algorithm": f"{first.method}{log},{DEFAULT_METHOD}{log}",
        "repetitions": 10,
    }
    if context_probabilities is not None:
        options["context-probabilities"] = context_probabilities
    if traffic.base is not None:
        options |= {"rewards": "bernoulli", "base": traffic.base}
    elif traffic.deviation is not None:
        options["deviation"] = traffic.deviation
    if traffic.is_heavy_tailed:
        options["arrivals"] = "heavy-tailed"
    elif traffic.arrival_ratio > SMALLEST_ARRIVAL_RATIO:
        options["arrivals"] = f"random:{traffic.arrival_ratio:g}"
    command = " ".join(f"--{name} {value}" for name, value in options.items())
    return (
        f"No constants are fitted for method {DEFAULT_METHOD}, the default of learn: learn with "
        f"--method {first.method} to have what is planned. To try both: unswayed simulate {command}"
    )
