"""Repetitions of an arena for several algorithms, spread over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # publishes none

from unswayed.errors import InputError
from unswayed.processes import WorkerPool
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import run
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one algorithm lost in one repetition."""

    algorithm: str
    repetition: int
    suboptimality: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """An algorithm's suboptimality over all repetitions.

    ``stderr`` is the standard error of the mean; None for a single repetition.
    """

    algorithm: str
    mean: float
    stderr: float | None
    repetitions: tuple[float, ...]


def simulate(
    settings: Settings,
    *,
    processes: int = 1,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Run every algorithm in every repetition.

    Each run draws from streams named by the seed and the repetition, so the rows are the same
    whatever the number of processes, and all algorithms of a repetition meet the same world.

    Parameters
    ----------
    on_row
        Called with every row as it becomes known, in any order; for progress bars.

    Returns
    -------
    Rows by algorithm, in the settings' order, then by repetition.
    """
    if processes < 1:
        raise InputError(f"processes is {processes}: at least 1 is needed.")
    tasks = [
        (algorithm, repetition)
        for algorithm in settings.algorithms
        for repetition in range(settings.repetitions)
    ]
    rows: dict[tuple[str, int], Row] = {}
    for row in _rows(settings, tasks, min(processes, len(tasks))):
        rows[row.algorithm, row.repetition] = row
        if on_row is not None:
            on_row(row)
    return [rows[task] for task in tasks]


def summarise(rows: list[Row]) -> list[Summary]:
    """Return mean and standard error for each algorithm, in order of first appearance.

    >>> rows = [Row(algorithm="a", repetition=i, suboptimality=float(i)) for i in range(3)]
    >>> [(summary.mean, round(summary.stderr, 4)) for summary in summarise(rows)]
    [(1.0, 0.5774)]
    """
    losses: dict[str, list[float]] = {}
    for row in rows:
        losses.setdefault(row.algorithm, []).append(row.suboptimality)
    return [
        Summary(
            algorithm=algorithm,
            mean=float(np.mean(values)),
            stderr=(
                float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
            ),
            repetitions=tuple(values),
        )
        for algorithm, values in losses.items()
    ]


def _rows(settings: Settings, tasks: list[tuple[str, int]], processes: int) -> Iterator[Row]:
    if processes == 1:
        for algorithm, repetition in tasks:
            yield run_repetition(settings, algorithm, repetition)
        return
    with WorkerPool(processes) as pool:
        pending = [pool.submit(run_repetition, settings, *task) for task in tasks]
        try:
            for future in as_completed(pending):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def run_repetition(settings: Settings, algorithm: str, repetition: int) -> Row:
    """Run one algorithm in one repetition."""
    # One BLAS thread everywhere: sums must not depend on how many there are, and processes that
    # share the cores must not fight for them.
    with threadpool_limits(1):
        loss = run(
            settings.instance(repetition),
            make_attack(settings.attack, settings.knobs),
            find_algorithm(algorithm).make,
            settings.crowd(),
            algorithm=algorithm,
            seed=settings.seed,
            path=(repetition,),
        )
    return Row(algorithm=algorithm, repetition=repetition, suboptimality=loss)
