"""`unswayed plan`: how much traffic a target takes, before any of it is spent."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer

from unswayed.cli.options import probabilities_in
from unswayed.errors import InputError
from unswayed.learners.interface import FloatArray
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.limits.checks import MAX_CONTEXTS, check_context_probabilities, check_count
from unswayed.limits.plan_words import plan_words
from unswayed.limits.planner import (
    DEFAULT_ARRIVAL_RATIO,
    DEFAULT_LEAD,
    FALLBACK_METHOD,
    Plan,
    plan_traffic,
)
from unswayed.reports.tables import print_json, print_line, print_table, progress_bar
from unswayed.simulation.instances import uniform_probabilities, zipf_probabilities
from unswayed.simulation.planned import Verification, n_runs, verify_plan
from unswayed.simulation.simulate import Row


def plan(
    contexts: Annotated[int, typer.Option(help="Number of contexts S.")],
    actions: Annotated[int, typer.Option(help="Number of actions A.")],
    alpha: Annotated[float, typer.Option(help="Share of users that may collude, below 1/3.")],
    epsilon: Annotated[
        float, typer.Option(help="Largest acceptable loss against the best policy, below alpha.")
    ],
    delta: Annotated[
        float, typer.Option(help="Failure probability of the plan, from 0.01 to 0.5.")
    ] = 0.1,
    users: Annotated[int | None, typer.Option(help="Number of users [as many as needed].")] = None,
    context_probabilities: Annotated[
        str,
        typer.Option(help="uniform, zipf:EXPONENT, or a file with one number for each context."),
    ] = "uniform",
    arrival_ratio: Annotated[
        float, typer.Option(help="Ratio of the busiest user's plays to the least busy one's, c_L.")
    ] = DEFAULT_ARRIVAL_RATIO,
    lead: Annotated[
        float,
        typer.Option(
            help="Mean reward of the best action minus the average action's, to price exploration."
        ),
    ] = DEFAULT_LEAD,
    verify: Annotated[
        bool, typer.Option("--verify", help="Simulate the plan under attack; takes minutes.")
    ] = False,
    repetitions: Annotated[
        int, typer.Option(help="Simulated worlds per attack with --verify.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="Random seed of --verify.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compute how many users and interactions a target takes, and a bound for any method."""
    probabilities = _probabilities(context_probabilities, contexts)
    result = plan_traffic(
        probabilities,
        actions,
        alpha,
        epsilon,
        delta,
        methods=(DEFAULT_METHOD, FALLBACK_METHOD),
        n_users=users,
        arrival_ratio=arrival_ratio,
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
                processes=os.cpu_count() or 1,
                on_row=advance,
            )
    if json:
        print_json(
            {
                "plan": asdict(result),
                "words": plan_words(result),
                "verification": None if verification is None else asdict(verification),
            }
        )
        return
    for sentence in plan_words(result):
        print_line(sentence)
    _print_plan(result)
    if verification is not None:
        _print_verification(verification)


def _print_plan(result: Plan) -> None:
    rows: list[list[str | int | float | None]] = [
        [
            f"method: {method.method}",
            method.interactions_per_user,
            f"{method.total_interactions:,}",
            f"{method.context_steps:,}",
            f"{method.gain:.2g}",
        ]
        for method in result.methods
        if method.constants_of == method.method  # the numbers of others are borrowed
    ]
    rows += [
        ["one user alone", result.interactions_alone, "-", "-", "1"],
        ["lower bound, every method", result.lower_bound, "-", "-", "-"],
        ["lower bound, uniform play", result.lower_bound_uniform, "-", "-", "-"],
    ]
    print_table(
        f"{result.n_contexts:,} contexts, {result.n_actions:,} actions, {result.n_users:,} users, "
        f"{100 * result.adversarial_fraction:g} % colluders, "
        f"loss {result.target_suboptimality:g}",
        ["", "plays per user", "plays in all", "T0", "share of alone"],
        rows,
        note="Lower bounds: exact for every method; a normal approximation for uniform play. "
        "T0: plays that estimate context probabilities.",
    )


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
        f"{verdict}: under the worst attack, {worst.attack}, {100 * worst.share_within:.0f} % of "
        f"{found.repetitions} repetitions stayed within {tried.target_suboptimality:g}, and "
        f"{100 * (1 - tried.failure_probability):g} % are promised. It cost {worst.mean:.4f} on "
        "average."
    )
    print_table(
        f"Loss of {found.method} in simulation",
        ["attack", "lead of the best", "mean loss", "largest loss", "within the target"],
        [
            [t.attack, t.gap, t.mean, t.largest, f"{100 * t.share_within:.0f} %"]
            for t in found.trials
        ],
        note=f"{found.repetitions} repetitions each, seed {found.seed}.",
    )


def _probabilities(text: str, n_contexts: int) -> FloatArray:
    """Return the probabilities that a name or a file gives to the contexts."""
    check_count(n_contexts, "contexts", at_most=MAX_CONTEXTS)
    numbers = probabilities_in(text)
    if isinstance(numbers, tuple):
        if len(numbers) != n_contexts:
            raise InputError(
                f"{text} holds {len(numbers)} numbers for {n_contexts} contexts: give one for each."
            )
        return check_context_probabilities(numbers)
    name, _, number = text.partition(":")
    if text == "uniform":
        return uniform_probabilities(n_contexts)
    try:
        exponent = float(number or 1.0)
    except ValueError:
        exponent = -1.0
    if name != "zipf" or not 0 <= exponent < float("inf"):
        raise InputError(
            f"context-probabilities is '{text}': it must be uniform, zipf:EXPONENT with an "
            "exponent of 0 or more, or the name of a file."
        )
    return zipf_probabilities(n_contexts, exponent)
