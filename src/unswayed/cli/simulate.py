"""`unswayed simulate`: algorithms against a coalition in worlds whose truth is known."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from unswayed.errors import InputError
from unswayed.reports.tables import print_json, print_table, progress_bar
from unswayed.simulation.attacks.registry import Knob
from unswayed.simulation.instances import DEFAULT_DEVIATION
from unswayed.simulation.settings import PAPER_GAP, Settings
from unswayed.simulation.simulate import Row, Summary, summarise
from unswayed.simulation.simulate import simulate as run_simulation


def simulate(
    contexts: Annotated[int, typer.Option(help="Number of contexts S.")] = 10,
    actions: Annotated[int, typer.Option(help="Number of actions A.")] = 10,
    users: Annotated[int, typer.Option(help="Number of users L, colluders included.")] = 1000,
    interactions: Annotated[int, typer.Option(help="Interactions per user T/L.")] = 30,
    alpha: Annotated[float, typer.Option(help="True share of colluders, below 0.5.")] = 0.2,
    attack: Annotated[str, typer.Option(help="What they do; see `unswayed attacks`.")] = "push",
    algorithm: Annotated[
        str, typer.Option(help="Algorithms, separated by commas.")
    ] = "paper,naive-ucb,independent-ucb,oracle",
    repetitions: Annotated[int, typer.Option(help="Independent worlds.")] = 20,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    assumed_alpha: Annotated[
        float | None, typer.Option(help="Share of colluders that learners are told [the truth].")
    ] = None,
    gap: Annotated[
        float, typer.Option(help="Lead of the best action in each context.")
    ] = PAPER_GAP,
    context_probabilities: Annotated[
        str,
        typer.Option(help="uniform, zipf:EXPONENT, or a file with one number for each context."),
    ] = "uniform",
    rewards: Annotated[str, typer.Option(help="bernoulli, gaussian or heavy.")] = "gaussian",
    deviation: Annotated[
        float, typer.Option(help="Standard deviation of rewards that are not Bernoulli.")
    ] = DEFAULT_DEVIATION,
    arrivals: Annotated[
        str, typer.Option(help="round-robin, random[:LIMIT] or bursty[:LIMIT]; the limit is c_L.")
    ] = "round-robin",
    perturbation: Annotated[
        float, typer.Option(help="Size eps_0 of good users' own tastes.")
    ] = 0.0,
    strength: Annotated[
        float | None, typer.Option(help="The attack's strength knob, if it has one.")
    ] = None,
    knob: Annotated[
        list[str] | None, typer.Option(help="Another knob of the attack, NAME=VALUE; repeatable.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Processes to spread over [all cores]; changes no number.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Let algorithms learn against a coalition and print what good users lose."""
    settings = Settings(
        contexts=contexts,
        actions=actions,
        users=users,
        interactions=interactions,
        alpha=alpha,
        attack=attack,
        algorithms=tuple(dict.fromkeys(name.strip() for name in algorithm.split(","))),
        repetitions=repetitions,
        seed=seed,
        assumed_alpha=assumed_alpha,
        gap=gap,
        context_probabilities=_probabilities(context_probabilities),
        rewards=rewards,
        deviation=deviation,
        arrivals=arrivals,
        perturbation=perturbation,
        knobs=_knobs(strength, knob or []),
    )
    with progress_bar() as progress:
        task = progress.add_task(attack, total=len(settings.algorithms) * repetitions)

        def advance(_: Row) -> None:
            progress.advance(task)

        rows = run_simulation(
            settings,
            processes=(os.cpu_count() or 1) if processes is None else processes,
            on_row=advance,
        )
    _print(settings, summarise(rows), as_json=json)


def _print(settings: Settings, summaries: list[Summary], *, as_json: bool) -> None:
    if as_json:
        results = [
            {
                "algorithm": summary.algorithm,
                "suboptimality": {
                    "mean": summary.mean,
                    "stderr": summary.stderr,
                    "repetitions": list(summary.repetitions),
                },
            }
            for summary in summaries
        ]
        print_json({"settings": asdict(settings), "results": results})
        return
    print_table(
        f"{settings.attack}, {100 * settings.alpha:g} % colluders",
        ["algorithm", "suboptimality", "standard error"],
        [[summary.algorithm, summary.mean, summary.stderr] for summary in summaries],
        note=f"What good users lose against the best policy; {settings.repetitions} repetitions.",
    )


def _probabilities(text: str) -> str | tuple[float, ...]:
    """Return the text, or the numbers of the file that it names."""
    path = Path(text)
    if not path.is_file():
        return text
    try:
        return tuple(float(number) for number in path.read_text().replace(",", " ").split())
    except ValueError as error:
        raise InputError(f"{path} must hold one number for each context: {error}.") from None


def _knobs(strength: float | None, texts: list[str]) -> dict[str, Knob]:
    knobs: dict[str, Knob] = {} if strength is None else {"strength": strength}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"knob '{text}' must look like NAME=VALUE.")
        knobs[name.strip()] = value.strip()
    return knobs
