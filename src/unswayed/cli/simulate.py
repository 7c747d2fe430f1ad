"""`unswayed simulate`: algorithms against a coalition in worlds whose truth is known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from unswayed.cli.options import (
    Actions,
    Alpha,
    ArrivalOrder,
    AssumedAlpha,
    Base,
    ContextProbabilities,
    Contexts,
    Deviation,
    Gap,
    GoalName,
    Interactions,
    Json,
    Perturbation,
    Processes,
    Rewards,
    Seed,
    Users,
    names_in,
    probabilities_in,
    process_count,
)
from unswayed.errors import InputError
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.reports.tables import Cell, print_json, print_table, progress_bar
from unswayed.simulation.algorithms import algorithms
from unswayed.simulation.attacks.registry import Knob
from unswayed.simulation.instances import DEFAULT_DEVIATION
from unswayed.simulation.settings import PAPER_GAP, Settings
from unswayed.simulation.simulate import Goal, Row, Summary, goal_named, summarise
from unswayed.simulation.simulate import simulate as run_simulation


def simulate(
    contexts: Contexts = 10,
    actions: Actions = 10,
    users: Users = 1000,
    interactions: Interactions = 30,
    alpha: Alpha = 0.2,
    attack: Annotated[
        str, typer.Option(help="Attack of the colluders; see `unswayed attacks`.")
    ] = "push",
    algorithm: Annotated[
        str,
        typer.Option(help=f"Algorithms, separated by commas: {', '.join(algorithms())}."),
    ] = f"{DEFAULT_METHOD},paper,naive-ucb,independent-ucb,oracle",
    repetitions: Annotated[int, typer.Option(help="Number of independent simulated worlds.")] = 20,
    seed: Seed = 0,
    assumed_alpha: AssumedAlpha = None,
    gap: Gap = PAPER_GAP,
    base: Base = None,
    context_probabilities: ContextProbabilities = "uniform",
    rewards: Rewards = "gaussian",
    deviation: Deviation = DEFAULT_DEVIATION,
    arrivals: ArrivalOrder = "round-robin",
    perturbation: Perturbation = 0.0,
    strength: Annotated[
        float | None, typer.Option(help="The attack's parameter `strength`, if it has one.")
    ] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(help="Another parameter of the attack, NAME=VALUE; repeatable."),
    ] = None,
    goal: GoalName = Goal.SUBOPTIMALITY.value,
    processes: Processes = None,
    json: Json = False,
) -> None:
    """Simulate algorithms under attack and print the suboptimality for the good users."""
    settings = Settings(
        contexts=contexts,
        actions=actions,
        users=users,
        interactions=interactions,
        alpha=alpha,
        attack=attack,
        algorithms=names_in(algorithm),
        repetitions=repetitions,
        seed=seed,
        assumed_alpha=assumed_alpha,
        gap=gap,
        base=base,
        context_probabilities=probabilities_in(context_probabilities),
        rewards=rewards,
        deviation=deviation,
        arrivals=arrivals,
        perturbation=perturbation,
        knobs=_knobs(strength, knob or []),
    )
    measured = goal_named(goal)
    with progress_bar() as progress:
        task = progress.add_task(attack, total=len(settings.algorithms) * repetitions)

        def advance(_: Row) -> None:
            progress.advance(task)

        rows = run_simulation(
            settings,
            goal=measured,
            processes=process_count(processes),
            on_row=advance,
        )
    _print(settings, summarise(rows), measured, as_json=json)


def _print(settings: Settings, summaries: list[Summary], goal: Goal, *, as_json: bool) -> None:
    if as_json:
        results = [
            {
                "algorithm": summary.algorithm,
                goal.value: {
                    "mean": summary.mean,
                    "stderr": summary.stderr,
                    "repetitions": list(summary.repetitions),
                    **(asdict(summary.spread) if summary.spread else {}),
                },
            }
            for summary in summaries
        ]
        print_json({"settings": asdict(settings), "goal": goal.value, "results": results})
        return
    title = f"{settings.attack}, {100 * settings.alpha:g} % colluders"
    if goal is Goal.REGRET:
        print_table(
            title,
            ["algorithm", "mean regret", "standard error", "median", "95 %", "worst"],
            [_regret_row(summary) for summary in summaries],
            note=(
                f"What a good user loses against the best actions in {settings.interactions} "
                f"interactions; {settings.repetitions} repetitions."
            ),
        )
        return
    print_table(
        title,
        ["algorithm", "suboptimality", "standard error"],
        [[summary.algorithm, summary.mean, summary.stderr] for summary in summaries],
        note="suboptimality: what good users lose per visit against the best policy, mean of "
        f"{settings.repetitions} repetitions.",
    )


def _regret_row(summary: Summary) -> list[Cell]:
    assert summary.spread is not None  # the goal was regret
    spread = summary.spread
    return [
        summary.algorithm,
        summary.mean,
        summary.stderr,
        spread.median,
        spread.quantile_95,
        spread.worst,
    ]


def _knobs(strength: float | None, texts: list[str]) -> dict[str, Knob]:
    knobs: dict[str, Knob] = {} if strength is None else {"strength": strength}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"knob '{text}' must look like NAME=VALUE.")
        knobs[name.strip()] = value.strip()
    return knobs
