"""Runs experiments by id, and writes their results, figures and verdicts."""

from __future__ import annotations

import itertools
import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import unswayed
from unswayed.errors import InputError, option
from unswayed.experiments import figures, lower_bounds, upper_bounds
from unswayed.experiments.claims import Claim
from unswayed.experiments.drawing import draw_panels
from unswayed.experiments.results import (
    MAIN,
    PILOT,
    Key,
    Results,
    Row,
    Store,
    key_of,
    strongest_attacks,
)
from unswayed.experiments.sweeps import (
    MAIN_SEED,
    PILOT_SEED,
    Cell,
    Experiment,
    Measure,
    cells_of,
    code_version,
    described,
    fingerprint,
    quick_version,
    settings_digest,
)
from unswayed.names import find
from unswayed.processes import Workers
from unswayed.reports.style import save
from unswayed.storage import whole_file

FULL_REPETITIONS = 50  # The paper's: "averaged over 50 independent experiments"
QUICK_REPETITIONS = 6  # Ours: wide but valid intervals, within minutes
# Ours: repetitions that are written together, times the sweep's repetition factor; a killed process
# loses at most this many
CHUNK = 5


EXPERIMENTS = {
    experiment.id: experiment
    for experiment in (
        *figures.EXPERIMENTS,
        *upper_bounds.EXPERIMENTS,
        *lower_bounds.EXPERIMENTS,
        upper_bounds.PARALLEL_GAIN,
    )
}
"""All experiments by id, in the order of the paper."""


def find_experiment(name: str) -> Experiment:
    """Return the experiment of this id; an unknown id lists the choices.

    >>> find_experiment("figure-2a").title
    'Figure 2(a): more contexts'
    """
    return find(name, EXPERIMENTS, kind="experiment")


# Callback with two numbers of repetitions: newly finished ones, and additional expected ones
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some repetitions of a cell in one stage against one attack."""

    cell: Cell
    stage: str
    attack: str
    repetitions: tuple[int, ...]
    measure: Measure


def run_missing(
    experiment: Experiment,
    store: Store,
    workers: Workers,
    *,
    repetitions: int,
    on_progress: Progress = lambda _finished, _expected: None,
) -> list[Row]:
    """Run all missing repetitions, and return all rows.

    The pilot tries every attack of a point on every algorithm; the main stage then uses the
    strongest attack of each cell.
    """
    if repetitions < 1:
        raise InputError(f"{option('--repetitions')} is {repetitions}: at least 1 is needed.")
    store.open(fingerprint(experiment))
    for stage in (PILOT, MAIN):
        rows = store.rows()
        done = {key_of(row) for row in rows}
        tasks = _missing(experiment, stage, done, strongest_attacks(rows), repetitions)
        on_progress(0, sum(len(task.repetitions) for task in tasks))
        for finished in workers.results(perform, tasks):
            store.add(finished)
            on_progress(len(finished), 0)
    return store.compact()


def _missing(
    experiment: Experiment, stage: str, done: set[Key], strongest: dict[int, str], repetitions: int
) -> list[Task]:
    chunk = CHUNK * experiment.repetition_factor
    tasks = []
    for cell in cells_of(experiment):
        is_contested = len(cell.point.attacks) > 1
        if stage == PILOT:
            attacks = cell.point.attacks if is_contested else ()
            wanted = range(experiment.pilot_of(cell.algorithm))
        else:
            attacks = (strongest[cell.number],) if is_contested else cell.point.attacks
            wanted = range(experiment.repetitions_of(cell.algorithm, repetitions))
        for attack in attacks:
            left = [r for r in wanted if (cell.number, stage, attack, r) not in done]
            tasks += [
                Task(
                    cell=cell,
                    stage=stage,
                    attack=attack,
                    repetitions=tuple(left[start : start + chunk]),
                    measure=experiment.measure,
                )
                for start in range(0, len(left), chunk)
            ]
    # Large and small worlds are mixed, so that elapsed time predicts the remaining time.
    return sorted(tasks, key=lambda task: task.repetitions[0])


def perform(task: Task) -> list[Row]:
    """Run a task and return one self-contained row per repetition."""
    cell, point = task.cell, task.cell.point
    seed = MAIN_SEED if task.stage == MAIN else PILOT_SEED
    settings = replace(point.settings, seed=seed)
    rows: list[Row] = []
    # One BLAS thread, because sums depend on the number of threads.
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
                    "experiment": cell.experiment,
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
                    "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                    "commit": code_version(),
                    "unswayed": unswayed.__version__,
                    "numpy": np.__version__,
                    "python": platform.python_version(),
                }
            )
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of an experiment."""

    id: str
    title: str
    repetitions: int
    cpu_seconds: float  # over all repetitions in the results, whenever they were run
    commit: str  # versions of the code that made the rows
    settings: str  # digest of seeds and points
    claims: tuple[Claim, ...]


def run_and_report(
    experiment: Experiment,
    folder: Path,
    workers: Workers,
    *,
    quick: bool = False,
    repetitions: int | None = None,
    on_progress: Progress = lambda _finished, _expected: None,
) -> Outcome:
    """Run missing repetitions of an experiment, then write figures and claims into its folder."""
    if repetitions is None:
        repetitions = QUICK_REPETITIONS if quick else FULL_REPETITIONS
    rows = run_missing(
        quick_version(experiment) if quick else experiment,
        Store(folder),
        workers,
        repetitions=repetitions,
        on_progress=on_progress,
    )
    return _report(experiment, folder, rows)


def redraw(experiment: Experiment, folder: Path) -> Outcome:
    """Redraw figures and reevaluate claims from existing results."""
    store = Store(folder)
    store.settings()  # raises if there are no results
    return _report(experiment, folder, store.rows())


def _attack_in_words(row: Row, tied: dict[int, tuple[str, ...]]) -> str:
    """Name the attack of a cell and those that were equally strong in the pilot."""
    others = [name for name in tied.get(row["number"], ()) if name != row["attack"]]
    tie = f" (tied with {', '.join(others)})" if others else ""
    return f"{row['algorithm']}: {row['attack']}{tie}"


def _report(experiment: Experiment, folder: Path, rows: Sequence[Row]) -> Outcome:
    results = Results(rows)
    picture = draw_panels(results, experiment.panels, experiment.curves, heading=experiment.title)
    save(picture, folder, "figure")
    outcome = Outcome(
        id=experiment.id,
        title=experiment.title,
        repetitions=results.repetitions,
        cpu_seconds=round(sum(row["cpu_seconds"] for row in rows), 1),
        commit=", ".join(dict.fromkeys(row.get("commit", "unknown") for row in rows)),
        settings=settings_digest(Store(folder).settings()),
        claims=tuple(judge(results) for judge in experiment.judges),
    )
    written = asdict(outcome) | {
        "seeds": {"main": MAIN_SEED, "pilot": PILOT_SEED},
        "finished": max(row.get("finished", "") for row in rows),
        "versions": {name: rows[0][name] for name in ("unswayed", "numpy", "python")},
        "attacks": {
            row["cell"]: _attack_in_words(row, results.tied_attacks)
            for row in results.main
            if row["repetition"] == 0
        },
        "means": {
            cell: round(float(np.mean([row["value"] for row in rows])), 6)
            for cell, rows in itertools.groupby(results.main, key=lambda row: row["cell"])
        },
    }
    text = json.dumps(written, indent=1, ensure_ascii=False, allow_nan=False)
    with whole_file(folder / "claims.json") as draft:
        draft.write_text(text + "\n", encoding="utf-8")
    return outcome
