"""Repetitions of an arena for several algorithms, spread over processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from unswayed.names import find
from unswayed.processes import Workers
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import run, run_regret
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.settings import Settings


class Goal(StrEnum):
    """What is measured: suboptimality of the final policy, or regret while learning."""

    SUBOPTIMALITY = "suboptimality"
    REGRET = "regret"


def goal_named(name: str) -> Goal:
    """Return the goal of this name; an unknown name lists the choices."""
    return find(name, {goal.value: goal for goal in Goal}, kind="goal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How regret is spread over good users."""

    median: float
    quantile_95: float
    worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Loss of one algorithm in one repetition."""

    algorithm: str
    repetition: int
    loss: float  # the suboptimality, or the mean regret of the good users
    spread: Spread | None = None  # of the regret


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Losses of an algorithm over all repetitions."""

    algorithm: str
    mean: float
    stderr: float | None  # standard error of the mean; None for a single repetition
    repetitions: tuple[float, ...]
    spread: Spread | None = None  # mean of medians and quantiles, and the worst of all users


def simulate(
    settings: Settings,
    *,
    goal: Goal = Goal.SUBOPTIMALITY,
    processes: int = 1,
    on_row: Callable[[Row], None] = lambda _: None,
) -> list[Row]:
    """Run every algorithm in every repetition; see ``repeated``.

    Each run draws from streams named by the seed and the repetition, so the rows are the same
    whatever the number of processes, and all algorithms of a repetition meet the same world.
    """
    run = partial(_run_task, settings, goal)
    return repeated(run, settings.algorithms, settings.repetitions, processes, on_row)


def repeated(
    run: Callable[[tuple[str, int]], Row],
    names: Sequence[str],
    repetitions: int,
    processes: int,
    on_row: Callable[[Row], None],
) -> list[Row]:
    """Return the row of each algorithm and repetition, in their order.

    ``on_row`` is called with every row as it becomes known, in any order; for progress bars.
    """
    tasks = list(itertools.product(names, range(repetitions)))
    rows: dict[tuple[str, int], Row] = {}
    with Workers(min(processes, len(tasks))) as workers:
        for row in workers.results(run, tasks):
            rows[row.algorithm, row.repetition] = row
            on_row(row)
    return [rows[task] for task in tasks]


def summarise(rows: list[Row]) -> list[Summary]:
    """Return mean and standard error for each algorithm, in order of first appearance.

    >>> rows = [Row(algorithm="a", repetition=i, loss=float(i)) for i in range(3)]
    >>> [(summary.mean, round(summary.stderr, 4)) for summary in summarise(rows)]
    [(1.0, 0.5774)]
    """
    by_algorithm: dict[str, list[Row]] = {}
    for row in rows:
        by_algorithm.setdefault(row.algorithm, []).append(row)
    return [_summary(algorithm, found) for algorithm, found in by_algorithm.items()]


def _summary(algorithm: str, rows: list[Row]) -> Summary:
    values = [row.loss for row in rows]
    spreads = [row.spread for row in rows if row.spread is not None]
    return Summary(
        algorithm=algorithm,
        mean=float(np.mean(values)),
        stderr=(float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None),
        repetitions=tuple(values),
        spread=Spread(
            median=float(np.mean([spread.median for spread in spreads])),
            quantile_95=float(np.mean([spread.quantile_95 for spread in spreads])),
            worst=max(spread.worst for spread in spreads),
        )
        if spreads
        else None,
    )


def _run_task(settings: Settings, goal: Goal, task: tuple[str, int]) -> Row:
    return run_repetition(settings, *task, goal)


def run_repetition(
    settings: Settings, algorithm: str, repetition: int, goal: Goal = Goal.SUBOPTIMALITY
) -> Row:
    """Run one algorithm in one repetition."""
    play = partial(
        run if goal is Goal.SUBOPTIMALITY else run_regret,
        settings.instance(repetition),
        make_attack(settings.attack, settings.knobs),
        find_algorithm(algorithm).make,
        settings.crowd(),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    # One BLAS thread everywhere: sums must not depend on how many there are, and processes that
    # share the cores must not fight for them.
    with threadpool_limits(1):
        found = play()
    if isinstance(found, float):
        return Row(algorithm=algorithm, repetition=repetition, loss=found)
    spread = Spread(
        median=float(np.median(found)),
        quantile_95=float(np.quantile(found, 0.95)),
        worst=float(found.max()),
    )
    return Row(algorithm=algorithm, repetition=repetition, loss=float(found.mean()), spread=spread)
