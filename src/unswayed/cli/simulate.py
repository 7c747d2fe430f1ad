"""`unswayed simulate`: algorithms against a coalition in worlds whose truth is known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from unswayed.cli.options import GoalName, Json, Processes, expanded, process_count
from unswayed.cli.world_options import WorldOptions
from unswayed.errors import InputError
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.reports.tables import Cell, print_json, print_table, progress_bar
from unswayed.simulation.algorithms import algorithms
from unswayed.simulation.attacks.registry import Knob
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Goal, Row, Summary, goal_named, summarise
from unswayed.simulation.simulate import simulate as run_simulation

_DEFAULT_ALGORITHMS = f"{DEFAULT_METHOD},paper,naive-ucb,independent-ucb,oracle"


@expanded
def simulate(
    world: WorldOptions,
    attack: Annotated[
        str, typer.Option(help="Attack that the colluders play; `unswayed attacks` lists them.")
    ] = "push",
    algorithm: Annotated[
        str,
        typer.Option(
            help=f"Algorithms, separated by commas: {', '.join(algorithms())}.",
            show_default=_DEFAULT_ALGORITHMS.replace(",", ", "),
        ),
    ] = _DEFAULT_ALGORITHMS,
    repetitions: Annotated[int, typer.Option(help="Number of independent simulated worlds.")] = 20,
    strength: Annotated[
        float | None, typer.Option(help="Shorthand for --knob strength=VALUE.")
    ] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the attack, listed by `unswayed attacks`; repeatable.",
        ),
    ] = None,
    goal: GoalName = Goal.SUBOPTIMALITY.value,
    processes: Processes = None,
    json: Json = False,
) -> None:
    """Simulate learning algorithms under attack and print what good users lose."""
    settings = world.settings(
        algorithms=algorithm,
        attack=attack,
        repetitions=repetitions,
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
    title = f"{settings.attack}, {100 * settings.alpha:g}% colluders"
    if goal is Goal.REGRET:
        print_table(
            title,
            ["algorithm", "mean regret", "standard error", "median", "95%", "worst"],
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
            raise InputError(f"--knob is '{text}': write NAME=VALUE, such as strength=0.5.")
        knobs[name.strip()] = value.strip()
    return knobs
