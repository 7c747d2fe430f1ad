"""`unswayed simulate`: algorithms under attack in simulated worlds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, get_args

import typer

from unswayed.cli.options import (
    Json,
    Processes,
    expanded,
    names_in,
    probabilities_in,
    process_count,
)
from unswayed.errors import InputError
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.names import find
from unswayed.reports.tables import print_json, print_table, progress_bar
from unswayed.simulation.algorithms import algorithms
from unswayed.simulation.attacks.registry import Knob
from unswayed.simulation.attributes import Kind, lost_shares, usable_players
from unswayed.simulation.simulate import (
    Goal,
    Settings,
    Summary,
    WorldOptions,
    summarise,
)
from unswayed.simulation.simulate import simulate as run_simulation

_SPREAD = ("median", "95%", "worst")
_DEFAULT_ALGORITHMS = f"{DEFAULT_METHOD},paper,naive-ucb,independent-ucb,oracle"


@expanded
def simulate(
    world: WorldOptions,
    attack: str = "push",
    algorithm: Annotated[
        str,
        typer.Option(
            help=f"Algorithms, separated by commas: {', '.join(algorithms())}.",
            show_default=_DEFAULT_ALGORITHMS.replace(",", ", "),
        ),
    ] = _DEFAULT_ALGORITHMS,
    repetitions: int = 20,
    strength: float | None = None,
    knob: list[str] | None = None,
    goal: str = "suboptimality",
    attributes: int = 0,
    processes: Processes = None,
    json: Json = False,
) -> None:
    """Simulate learning algorithms under attack and print the losses of good users.

    attack: Attack that the colluders play; `unswayed attacks` lists them.
    repetitions: Number of independent simulated worlds.
    strength: Shorthand for --knob strength=VALUE.
    knob (NAME=VALUE): A parameter of the attack, listed by `unswayed attacks --long`; repeatable.
    goal: What to measure: suboptimality (of the final policy) or regret (of good users while
        learning).
    attributes: Simulate logs of clicks with this many attributes instead of contexts; --strength,
        --knob and --goal are not allowed. Attacks are push, segment (push where an attribute is
        high), forged (push with attributes of others), quiet, sink and peace; algorithms are
        features, without-bots, constant, naive-tree, growthbook-tree, linear and, if its package is
        installed, vowpal-wabbit.
    """
    if attributes:
        if strength is not None or knob or goal != "suboptimality":
            raise InputError(
                "--strength, --knob and --goal require worlds without attributes: omit them."
            )
        _with_attributes(world, attributes, attack, algorithm, repetitions, processes, json)
        return
    given = asdict(world)
    given["context_probabilities"] = probabilities_in(world.context_probabilities)
    settings = Settings(
        **given,
        algorithms=names_in(algorithm),
        attack=attack,
        repetitions=repetitions,
        knobs=_knobs(strength, knob or []),
    )
    measured = find(goal, {each: each for each in get_args(Goal)}, kind="goal")
    with progress_bar() as progress:
        task = progress.add_task(attack, total=len(settings.algorithms) * repetitions)
        rows = run_simulation(
            settings,
            goal=measured,
            processes=process_count(processes),
            on_row=lambda _: progress.advance(task),
        )
    summaries = summarise(rows)
    if json:
        results = [{"algorithm": one.algorithm, measured: losses(one)} for one in summaries]
        print_json({"settings": asdict(settings), "goal": measured, "results": results})
        return
    loss, what = "suboptimality", "what good users lose per visit against the best policy"
    if measured == "regret":
        loss = "mean regret"
        what = f"what a good user loses against the best actions in {settings.interactions} visits"
    print_table(
        f"{settings.attack}, {100 * settings.alpha:g}% colluders",
        ["algorithm", loss, "standard error", *_SPREAD[: len(summaries[0].spread)]],
        [[one.algorithm, one.mean, one.stderr, *one.spread.values()] for one in summaries],
        note=f"{loss}: {what}; {settings.repetitions} repetitions.",
    )


def _with_attributes(
    world: WorldOptions,
    n_attributes: int,
    attack: str,
    algorithm: str,
    repetitions: int,
    processes: int | None,
    as_json: bool,
) -> None:
    """Print the losses of learners on logs with attributes."""
    rate = 0.05 if world.base is None else world.base
    for name, value, low, high in (
        ("attributes", n_attributes, 2, 100),
        ("repetitions", repetitions, 1, 1e6),
        ("users", world.users, 100, 1e7),
        ("interactions", world.interactions, 2, 1e5),
        ("actions", world.actions, 2, 1e3),
        ("base", rate, 0.001, 0.25),
    ):
        if not low <= value <= high:
            raise InputError(
                f"--{name} is {value:g}: with attributes it lies between {low:g} and {high:g}."
            )
    kind = Kind(
        attack=attack,  # type: ignore[arg-type]  # checked there
        rate=rate,
        n_users=world.users,
        events_per_user=world.interactions,
        n_attributes=n_attributes,
        n_actions=world.actions,
        bots=world.alpha,
    )
    names = usable_players() if algorithm == _DEFAULT_ALGORITHMS else names_in(algorithm)
    alpha = world.alpha if world.assumed_alpha is None else world.assumed_alpha
    with progress_bar() as progress:
        task = progress.add_task(attack, total=len(names) * repetitions)
        rows = lost_shares(
            kind,
            names,
            alpha=alpha,
            seed=world.seed,
            repetitions=repetitions,
            processes=process_count(processes),
            on_row=lambda _: progress.advance(task),
        )
    summaries = summarise(rows)
    if as_json:
        results = [{"algorithm": one.algorithm, "loss": losses(one)} for one in summaries]
        print_json({"settings": asdict(kind), "results": results})
        return
    print_table(
        f"{attack}, {100 * kind.bots:g}% colluders, {n_attributes} attributes",
        ["algorithm", "loss", "standard error"],
        [[one.algorithm, one.mean, one.stderr] for one in summaries],
        note="loss: what good users lose of the lead of the best actions over random ones; 0 is "
        f"best, 1 is as good as random. Mean of {repetitions} logs.",
    )


def losses(summary: Summary) -> dict[str, object]:
    """Return the losses of an algorithm as JSON values."""
    return {
        "mean": summary.mean,
        "stderr": summary.stderr,
        "repetitions": summary.repetitions,
        **summary.spread,
    }


def _knobs(strength: float | None, texts: list[str]) -> dict[str, Knob]:
    knobs: dict[str, Knob] = {} if strength is None else {"strength": strength}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--knob is '{text}': write NAME=VALUE, such as strength=0.5.")
        knobs[name.strip()] = value.strip()
    return knobs
