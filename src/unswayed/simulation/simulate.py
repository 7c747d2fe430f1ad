"""Repetitions of an arena for several algorithms, spread over processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from unswayed.names import find
from unswayed.processes import Workers
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Regrets, run, run_regret
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
    """Loss of one algorithm in one repetition.

    ``loss`` is the suboptimality, or the mean regret of the good users; then ``spread`` says how it
    is shared.
    """

    algorithm: str
    repetition: int
    loss: float
    spread: Spread | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Losses of an algorithm over all repetitions.

    ``stderr`` is the standard error of the mean; None for a single repetition. ``spread`` is the
    mean over repetitions of medians and quantiles, and the worst of all users; None unless the goal
    is regret.
    """

    algorithm: str
    mean: float
    stderr: float | None
    repetitions: tuple[float, ...]
    spread: Spread | None = None


def simulate(
    settings: Settings,
    *,
    goal: Goal = Goal.SUBOPTIMALITY,
    processes: int = 1,
    workers: Workers | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Run every algorithm in every repetition.

    Each run draws from streams named by the seed and the repetition, so the rows are the same
    whatever the number of processes, and all algorithms of a repetition meet the same world.

    Parameters
    ----------
    processes
        How many processes share the runs, if there are no workers yet.
    workers
        Workers to use instead, for callers with several simulations.
    on_row
        Called with every row as it becomes known, in any order; for progress bars.

    Returns
    -------
    Rows by algorithm, in the settings' order, then by repetition.
    """
    tasks = [
        (algorithm, repetition)
        for algorithm in settings.algorithms
        for repetition in range(settings.repetitions)
    ]
    rows: dict[tuple[str, int], Row] = {}
    owned = Workers(min(processes, len(tasks))) if workers is None else nullcontext(workers)
    with owned as at_work:
        for row in at_work.results(partial(_run_task, settings, goal), tasks):
            rows[row.algorithm, row.repetition] = row
            if on_row is not None:
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
    return Row(
        algorithm=algorithm,
        repetition=repetition,
        loss=float(found.by_user.mean()),
        spread=spread_of(found),
    )


def spread_of(regrets: Regrets) -> Spread:
    """Return how regret is spread over good users."""
    return Spread(
        median=float(np.median(regrets.by_user)),
        quantile_95=float(np.quantile(regrets.by_user, 0.95)),
        worst=float(regrets.by_user.max()),
    )
