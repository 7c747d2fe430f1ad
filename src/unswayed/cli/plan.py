"""`unswayed plan`: how much traffic a target takes, before any of it is spent."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from unswayed.arrays import FloatArray
from unswayed.cli.log_options import SourceOptions
from unswayed.cli.options import Json, Seed, expanded, probabilities_in, process_count
from unswayed.errors import InputError
from unswayed.events import OnBadRows, read_events
from unswayed.learners.methods import DEFAULT_METHOD, known_method
from unswayed.limits.checks import (
    CALIBRATED_DEVIATION,
    MAX_CONTEXTS,
    N_CONTEXTS,
    SMALLEST_ARRIVAL_RATIO,
    Traffic,
    check_count,
)
from unswayed.limits.planner import (
    DEFAULT_LEAD,
    PAPER_METHOD,
    LogPlan,
    MethodPlan,
    Plan,
    constants,
    log_traffic,
    plan_from_log,
    plan_traffic,
)
from unswayed.reports.tables import print_json, print_line, print_table, progress_bar
from unswayed.simulation.instances import named_probabilities
from unswayed.simulation.planned import (
    PlanTrial,
    PlaySearch,
    Verification,
    fewest_plays,
    n_runs,
    search_words,
    verify_plan,
)
from unswayed.simulation.simulate import Row
from unswayed.visible import percent

ACTIVITIES = ("even", "heavy-tailed")


@expanded
def plan(
    alpha: Annotated[float, typer.Option(help="Share of users that may collude, below 1/3.")],
    epsilon: Annotated[
        float, typer.Option(help="Largest acceptable loss against the best policy, below alpha.")
    ],
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="LOG",
            help="Log to read contexts, actions, users, rewards, activity and propensities from. "
            "Without it, give --contexts and --actions.",
            show_default=False,
        ),
    ] = None,
    contexts: Annotated[int | None, typer.Option(help="Number of contexts S.")] = None,
    actions: Annotated[int | None, typer.Option(help="Number of actions A.")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Method to plan for; without fitted constants only with --search."),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Failure probability of the plan, from 0.01 to 0.5.")
    ] = 0.1,
    users: Annotated[int | None, typer.Option(help="Number of users [as many as needed].")] = None,
    context_probabilities: Annotated[
        str | None,
        typer.Option(
            help="uniform, zipf:EXPONENT, or a file with one number for each context [uniform]."
        ),
    ] = None,
    base: Annotated[
        float | None,
        typer.Option(help="Rate of a runner-up where rewards are 0 and 1, such as a click rate."),
    ] = None,
    deviation: Annotated[
        float | None, typer.Option(help="Standard deviation of one reward [0.5].")
    ] = None,
    activity: Annotated[
        str | None,
        typer.Option(help="Plays per user: even (see --arrival-ratio) or heavy-tailed [even]."),
    ] = None,
    arrival_ratio: Annotated[
        float | None,
        typer.Option(help="Ratio of the busiest user's plays to the least busy one's, c_L [2]."),
    ] = None,
    exploration: Annotated[
        float | None,
        typer.Option(help="Share of plays that explore, in logs with propensities [1]."),
    ] = None,
    *,
    source: SourceOptions,
    lead: Annotated[
        float,
        typer.Option(
            help="Mean reward of the best action minus the average action's, to price exploration."
        ),
    ] = DEFAULT_LEAD,
    verify: Annotated[
        bool, typer.Option("--verify", help="Simulate the plan under attack; takes minutes.")
    ] = False,
    search: Annotated[
        bool,
        typer.Option(
            "--search",
            help="Find by simulation how few plays are enough for --method, by default the one of "
            "learn; takes minutes.",
        ),
    ] = False,
    repetitions: Annotated[
        int, typer.Option(help="Simulated worlds per attack with --verify and --search.")
    ] = 10,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compute the traffic that a target loss requires, and a lower bound for any method."""
    searched = DEFAULT_METHOD if method is None else known_method(method)
    if method is not None and searched != PAPER_METHOD and not search:
        raise InputError(
            f"there are no constants for method {searched!r}: plan for {PAPER_METHOD}, or add "
            "--search to find by simulation how many plays it needs."
        )
    described = {
        "--contexts": contexts,
        "--actions": actions,
        "--users": users,
        "--context-probabilities": context_probabilities,
        "--base": base,
        "--deviation": deviation,
        "--activity": activity,
        "--arrival-ratio": arrival_ratio,
        "--exploration": exploration,
    }
    from_log = None
    if log is not None:
        given = [option for option, value in described.items() if value is not None]
        if given:
            raise InputError(
                f"{given[0]} is read from the log: leave it out, or leave out the log."
            )
        # A plan does not need a clean log: unusable rows are left out.
        events = read_events(
            log,
            columns=source.columns(),
            query=source.query,
            memory=source.memory_bytes,
            on_bad_rows=OnBadRows.parsed("drop"),
        ).events
        read = log_traffic(events)
        probabilities = read.context_probabilities
        from_log = plan_from_log(read, alpha, epsilon, delta, lead=lead)
        result = from_log.plan
    else:
        if contexts is None or actions is None:
            raise InputError("nothing to plan for: give a log, or --contexts and --actions.")
        if activity not in (None, *ACTIVITIES):
            raise InputError(f"--activity is {' or '.join(ACTIVITIES)}, not {activity!r}.")
        probabilities = _probabilities(context_probabilities or "uniform", contexts)
        result = plan_traffic(
            probabilities,
            actions,
            alpha,
            epsilon,
            delta,
            n_users=users,
            traffic=Traffic(
                base=base,
                deviation=deviation,
                arrival_ratio=SMALLEST_ARRIVAL_RATIO if arrival_ratio is None else arrival_ratio,
                is_heavy_tailed=activity == "heavy-tailed",
                exploration=1.0 if exploration is None else exploration,
            ),
            lead=lead,
        )
    verification = None
    if verify:
        with progress_bar() as progress:
            task = progress.add_task("verifying", total=n_runs(result, repetitions))

            def advance(_: Row) -> None:
                progress.advance(task)

            verification = verify_plan(
                result,
                probabilities,
                repetitions=repetitions,
                seed=seed,
                processes=process_count(None),
                on_row=advance,
            )
    found = None
    if search:
        with progress_bar() as progress:
            task = progress.add_task("searching", total=None)

            def tell(plays: int, _: PlanTrial) -> None:
                progress.update(task, advance=1, description=f"{plays:,} plays per user")

            found = fewest_plays(
                result,
                probabilities,
                searched,
                repetitions=repetitions,
                seed=seed,
                processes=process_count(None),
                on_trial=tell,
            )
    words = (*(() if from_log is None else log_words(from_log)), *plan_words(result))
    if found is not None:
        words += search_words(found, result)
    else:
        words += (
            f"No constants are fitted for method {DEFAULT_METHOD}, the default of learn: learn "
            f"with --method {PAPER_METHOD} to have what is planned, or add --search to find by "
            f"simulation how many plays {DEFAULT_METHOD} needs.",
        )
    if json:
        print_json(
            {
                "plan": asdict(result),
                "log": None if from_log is None else _log_json(from_log),
                "words": words,
                "verification": None if verification is None else asdict(verification),
                "search": None if found is None else asdict(found),
            }
        )
        return
    for sentence in words:
        print_line(sentence)
    _print_plan(result)
    if verification is not None:
        _print_verification(verification)
    if found is not None:
        _print_search(found)


def _log_json(found: LogPlan) -> dict[str, object]:
    return {name: value for name, value in asdict(found).items() if name != "plan"}


def _print_plan(result: Plan) -> None:
    rows: list[list[str | int | float | None]] = [
        [
            f"method: {method.method}",
            f"{method.interactions_per_user:,}",
            f"{method.total_interactions:,}",
            f"{method.context_steps:,}",
            f"{method.gain:.2g}",
        ]
        for method in result.methods
    ]
    rows += [
        ["one user alone", _count(result.interactions_alone), "-", "-", "1"],
        ["bound, any method", _count(result.lower_bound), "-", "-", "-"],
        ["bound, uniform play", _count(result.lower_bound_uniform), "-", "-", "-"],
    ]
    print_table(
        f"{result.n_contexts:,} contexts, {result.n_actions:,} actions, {result.n_users:,} users, "
        f"{100 * result.adversarial_fraction:g}% colluders, "
        f"loss {result.target_suboptimality:g}",
        ["", "plays per user", "plays in all", "T0", "share of alone"],
        rows,
        note="Lower bounds: exact for any method; a normal approximation for uniform play. "
        "T0: plays that estimate context probabilities.",
    )


def _count(number: float | None) -> str | None:
    return None if number is None else f"{number:,}"


def _print_verification(found: Verification) -> None:
    tried, worst = found.plan, found.trials[0]
    if found.is_scaled:
        print_line(
            "The plan is too large to simulate here. A smaller world of its kind, with the same "
            f"targets, was planned and simulated instead: {tried.n_contexts:,} contexts, "
            f"{tried.n_actions:,} actions, {tried.n_users:,} users, "
            f"{tried.methods[0].interactions_per_user:,} plays per user."
        )
    verdict = "The plan holds" if found.holds else "The plan does not hold"
    print_line(
        f"{verdict}: under the worst attack, {worst.attack}, {100 * worst.share_within:.0f}% of "
        f"{found.repetitions} repetitions stayed within {tried.target_suboptimality:g}, and "
        f"{100 * (1 - tried.failure_probability):g}% are promised. It cost {worst.mean:.4f} on "
        "average."
    )
    print_table(
        f"Loss of {found.method} in simulation",
        ["attack", "lead of the best", "mean loss", "largest loss", "within the target"],
        [
            [t.attack, t.gap, t.mean, t.largest, f"{100 * t.share_within:.0f}%"]
            for t in found.trials
        ],
        note=f"{found.repetitions} repetitions each, seed {found.seed}.",
    )


def _print_search(found: PlaySearch) -> None:
    print_table(
        f"Plays per user of {found.method}, searched by simulation",
        ["plays", "seed", "enough", "worst attack", "lead of the best", "within the target"],
        [
            [
                f"{step.interactions_per_user:,}",
                step.seed,
                "yes" if step.holds else "no",
                step.worst.attack,
                step.worst.gap,
                f"{100 * step.worst.share_within:.0f}%",
            ]
            for step in found.steps
        ],
        note=f"{found.repetitions} repetitions of each attack and lead; another seed is fresh "
        "worlds.",
    )


def _probabilities(text: str, n_contexts: int) -> FloatArray:
    """Return the probabilities that a name or a file gives to the contexts."""
    check_count(n_contexts, N_CONTEXTS, at_most=MAX_CONTEXTS)
    return named_probabilities(probabilities_in(text), n_contexts)


def plan_words(plan: Plan) -> tuple[str, ...]:
    """Return a plan in sentences."""
    first = plan.methods[0]
    words = [
        f"Let each of {plan.n_users:,} users play {first.interactions_per_user:,} times. Then the "
        f"policy that method {first.method} learns loses at most {plan.target_suboptimality:g} "
        f"against the best one in {percent(1 - plan.failure_probability)} of all cases, under a "
        f"coalition of {percent(plan.adversarial_fraction)} and the attacks that the constants "
        f"were fitted with: {', '.join(_attacks(plan))}."
    ]
    if plan.lower_bound > 1:  # nobody can learn from less than one play
        words.append(
            f"With fewer than {_plays(plan.lower_bound)} per user no method can promise that: the "
            "coalition could exchange the best action and the runner-up in every context and leave "
            "no trace."
        )
    words += [_users(plan), *[_estimators(plan)] * (first.method == PAPER_METHOD)]
    gain = (
        f"A user who learns alone would need {1 / first.gain:,.3g} times as many plays for the "
        "same loss."
        if first.gain < 1
        else "Learning together does not pay here: a user alone would need no more plays."
    )
    cost = (
        f"Exploring takes {first.total_interactions:,} plays in all. Where the best action beats "
        f"the average one by {plan.lead:g}, they cost {first.exploration_cost:,.0f} in reward."
    )
    return (*words, _context_phase(plan, first), gain, cost, _traffic(plan.traffic))


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
    if method.context_error is None:
        return "No plays are needed to separate frequent contexts from rare ones."
    return (
        f"The first {method.context_steps:,} of all plays (T0, "
        f"{_plays(round(method.context_steps / plan.n_users))} per user) estimate how likely the "
        f"contexts are; their errors add up to {method.context_error:.2g} at most."
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
