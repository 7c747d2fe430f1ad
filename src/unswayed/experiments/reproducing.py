"""One experiment from sweep to claims: run what is missing, draw, judge, write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from unswayed.experiments.claims import Claim, mean_interval
from unswayed.experiments.drawing import draw_attacks
from unswayed.experiments.registry import Experiment
from unswayed.experiments.results import Results
from unswayed.experiments.running import Watcher, run_sweep
from unswayed.experiments.store import Row, Store
from unswayed.experiments.sweeps import find_cell, quick_version
from unswayed.processes import Workers
from unswayed.reports.style import save
from unswayed.storage import whole_file

FULL_REPETITIONS = 50
"""The paper's: "averaged over 50 independent experiments"."""

QUICK_REPETITIONS = 6
"""Ours: intervals are wide but honest, and everything is done in minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an experiment came to.

    Attributes
    ----------
    cpu_seconds
        Processor time of all repetitions that the results hold, whenever they were run.
    """

    id: str
    title: str
    repetitions: int
    cpu_seconds: float
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutcome:
    """What one cell came to: its mean, with a 95 % interval."""

    id: str
    algorithm: str
    attack: str
    x: float
    series: str
    repetitions: int
    mean: float
    low: float | None
    high: float | None


def run_and_report(
    experiment: Experiment,
    folder: Path,
    workers: Workers,
    *,
    quick: bool = False,
    repetitions: int | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Run what is missing of an experiment, then write figures and claims into its folder."""
    rows = run_sweep(
        quick_version(experiment.sweep) if quick else experiment.sweep,
        Store(folder),
        workers,
        repetitions=_repetitions(repetitions, quick=quick),
        watcher=watcher,
    )
    return _report(experiment, folder, rows)


def run_cell(
    experiment: Experiment,
    number: int,
    folder: Path,
    workers: Workers,
    *,
    quick: bool = False,
    repetitions: int | None = None,
    watcher: Watcher | None = None,
) -> CellOutcome:
    """Run what is missing of one cell and return what it came to; nothing is drawn."""
    sweep = quick_version(experiment.sweep) if quick else experiment.sweep
    cell = find_cell(sweep, number)
    rows = run_sweep(
        sweep,
        Store(folder),
        workers,
        repetitions=_repetitions(repetitions, quick=quick),
        only=cell,
        watcher=watcher,
    )
    main = Results([row for row in rows if row["number"] == number]).main
    values = np.array([row["value"] for row in main])
    low, high = mean_interval(values)
    return CellOutcome(
        id=cell.id,
        algorithm=cell.algorithm,
        attack=main[0]["attack"],
        x=cell.point.x,
        series=cell.point.series,
        repetitions=len(main),
        mean=float(values.mean()),
        low=low if len(main) > 1 else None,
        high=high if len(main) > 1 else None,
    )


def redraw(experiment: Experiment, folder: Path) -> Outcome:
    """Write figures and claims anew from the results that are there."""
    store = Store(folder)
    store.settings()  # says so if there is nothing
    return _report(experiment, folder, store.rows())


def _attack_in_words(row: Row, tied: dict[int, tuple[str, ...]]) -> str:
    """Name the attack of a cell, and those that did as much harm in the pilot."""
    others = [name for name in tied.get(row["number"], ()) if name != row["attack"]]
    tie = f" (tied with {', '.join(others)})" if others else ""
    return f"{row['algorithm']}: {row['attack']}{tie}"


def _repetitions(asked: int | None, *, quick: bool) -> int:
    if asked is not None:
        return asked
    return QUICK_REPETITIONS if quick else FULL_REPETITIONS


def _report(experiment: Experiment, folder: Path, rows: Sequence[Row]) -> Outcome:
    results, analysis = Results(rows), experiment.analysis
    save(analysis.picture(results), folder, "figure")
    attacks = draw_attacks(
        results,
        heading=f"{analysis.title}: every attack in the pilot",
        x_label=analysis.x_label,
        y_label=analysis.y_label,
    )
    if attacks is not None:
        save(attacks, folder, "attacks")
    outcome = Outcome(
        id=experiment.id,
        title=analysis.title,
        repetitions=results.repetitions,
        cpu_seconds=round(sum(row["cpu_seconds"] for row in rows), 1),
        claims=tuple(analysis.judge(results)),
    )
    written = asdict(outcome) | {
        "versions": {name: rows[0][name] for name in ("unswayed", "numpy", "python")},
        "attacks": {
            row["cell"]: _attack_in_words(row, results.tied_attacks)
            for row in results.main
            if row["repetition"] == 0
        },
    }
    text = json.dumps(written, indent=1, ensure_ascii=False, allow_nan=False)
    with whole_file(folder / "claims.json") as draft:
        draft.write_text(text + "\n", encoding="utf-8")
    return outcome
