"""Runs what is missing of a sweep, in chunks of repetitions spread over processes."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # publishes none

import unswayed
from unswayed.errors import InputError, option
from unswayed.experiments.results import MAIN, PILOT, strongest_attacks
from unswayed.experiments.store import Key, Row, Store, key_of
from unswayed.experiments.sweeps import (
    MAIN_SEED,
    PILOT_SEED,
    Cell,
    Measure,
    Sweep,
    cells_of,
    described,
    fingerprint,
)
from unswayed.processes import Workers

CHUNK = 5
"""Ours: repetitions that are written together, times the sweep's repetition factor; this is what a
kill may cost each process."""


class Watcher(Protocol):
    """Shows the progress of a run."""

    def expect(self, n: int) -> None:
        """Take note that so many more repetitions will be run."""

    def advance(self, n: int) -> None:
        """Take note that so many repetitions are finished and written."""


class Unwatched:
    """Shows nothing."""

    def expect(self, n: int) -> None:
        """Ignore it."""

    def advance(self, n: int) -> None:
        """Ignore it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some repetitions of a cell in one stage against one attack."""

    cell: Cell
    stage: str
    attack: str
    repetitions: tuple[int, ...]
    measure: Measure


def run_sweep(
    sweep: Sweep,
    store: Store,
    workers: Workers,
    *,
    repetitions: int,
    only: Cell | None = None,
    watcher: Watcher | None = None,
) -> list[Row]:
    """Run all repetitions that the store does not have yet, and return all rows.

    First the pilot, in which every attack of a point is tried on every algorithm; then the main
    stage, in which each cell meets the attack that was the strongest there. ``only`` leaves out all
    cells but one.
    """
    if repetitions < 1:
        raise InputError(f"{option('--repetitions')} is {repetitions}: at least 1 is needed.")
    watcher = watcher or Unwatched()
    store.open(fingerprint(sweep))
    cells = cells_of(sweep) if only is None else (only,)
    for stage in (PILOT, MAIN):
        rows = store.rows()
        done = {key_of(row) for row in rows}
        tasks = _missing(sweep, cells, stage, done, strongest_attacks(rows), repetitions)
        watcher.expect(sum(len(task.repetitions) for task in tasks))
        for finished in workers.results(perform, tasks):
            store.add(finished)
            watcher.advance(len(finished))
    return store.compact()


def _missing(
    sweep: Sweep,
    cells: tuple[Cell, ...],
    stage: str,
    done: set[Key],
    strongest: dict[int, str],
    repetitions: int,
) -> list[Task]:
    chunk = CHUNK * sweep.repetition_factor
    tasks = []
    for cell in cells:
        is_contested = len(cell.point.attacks) > 1
        if stage == PILOT:
            attacks = cell.point.attacks if is_contested else ()
            wanted = range(sweep.pilot_of(cell.algorithm))
        else:
            attacks = (strongest[cell.number],) if is_contested else cell.point.attacks
            wanted = range(sweep.repetitions_of(cell.algorithm, repetitions))
        for attack in attacks:
            left = [r for r in wanted if (cell.number, stage, attack, r) not in done]
            tasks += [
                Task(
                    cell=cell,
                    stage=stage,
                    attack=attack,
                    repetitions=tuple(left[start : start + chunk]),
                    measure=sweep.measure,
                )
                for start in range(0, len(left), chunk)
            ]
    # Large and small worlds take turns, so that the time spent predicts the time left.
    return sorted(tasks, key=lambda task: task.repetitions[0])


def perform(task: Task) -> list[Row]:
    """Run a task and return a row for every repetition, with all that is needed to repeat it."""
    cell, point = task.cell, task.cell.point
    seed = MAIN_SEED if task.stage == MAIN else PILOT_SEED
    settings = replace(point.settings, seed=seed)
    rows: list[Row] = []
    # One BLAS thread: sums must not depend on how many there are.
    with threadpool_limits(1):
        for repetition in task.repetitions:
            start = time.process_time()
            try:
                value = task.measure(settings, cell.algorithm, task.attack, repetition)
            except Exception as error:
                error.add_note(f"in repetition {repetition} of {cell.id} ({task.stage})")
                raise
            rows.append(
                {
                    "experiment": cell.sweep,
                    "cell": cell.id,
                    "number": cell.number,
                    "x": float(point.x),
                    "series": point.series,
                    "algorithm": cell.algorithm,
                    "attack": task.attack,
                    "stage": task.stage,
                    "repetition": repetition,
                    "seed": seed,
                    **described(settings),
                    "value": float(value),
                    "cpu_seconds": time.process_time() - start,
                    "unswayed": unswayed.__version__,
                    "numpy": np.__version__,
                    "python": platform.python_version(),
                }
            )
    return rows
