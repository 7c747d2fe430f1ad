"""Results on disk, and their analysis: means by algorithm, point and series.

Parts are append-only, and results with other settings are rejected. A folder holds
``settings.json``, one small Parquet file in ``parts/`` for every finished chunk of repetitions, and
``results.parquet``, into which the parts go at the end. A part gets its final name only when it is
complete, so a killed run loses at most the chunks in progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.storage import make_folder, whole_file

# Stages: the pilot chooses the strongest attack of each cell; only the main stage is reported
MAIN, PILOT = "main", "pilot"
# Ours: the attack that harms trimmed means most, used where no attack of the pilot has an effect.
USUALLY_STRONGEST = "nuke"

Row = dict[str, Any]
Key = tuple[int, str, str, int]  # Identifies a row: cell number, stage, attack and repetition


def key_of(row: Row) -> Key:
    """Return the key of a row."""
    return row["number"], row["stage"], row["attack"], row["repetition"]


class Store:
    """The results of one experiment in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parts = folder / "parts"
        self._settings = folder / "settings.json"
        self._results = folder / "results.parquet"

    def open(self, settings: dict[str, Any]) -> None:
        """Start or continue results with these settings; raise if the folder has other settings."""
        if self._settings.exists():
            stored = self.settings()
            wanted = json.loads(json.dumps(settings))
            differing = [name for name in wanted if stored.get(name) != wanted[name]]
            if differing:
                raise InputError(
                    f"{self.folder} holds results with other settings (different: "
                    f"{', '.join(differing)}). Give another folder, or move it away."
                )
        elif self._results.exists() or self._parts.exists():
            raise InputError(
                f"{self.folder} holds results without settings.json, so their origin is "
                "unknown. Give another folder, or move it away."
            )
        make_folder(self._parts)
        with whole_file(self._settings) as draft:
            draft.write_text(json.dumps(settings, indent=1), encoding="utf-8")

    def settings(self) -> dict[str, Any]:
        """Return the settings of the existing results."""
        if not self._settings.exists():
            raise InputError(f"{self.folder} holds no results: run the experiment first.")
        try:
            return dict(json.loads(self._settings.read_text("utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise _damaged(self._settings, error) from error

    def add(self, rows: Sequence[Row]) -> None:
        """Write a finished chunk of repetitions of one cell, stage and attack."""
        number, stage, attack, repetition = key_of(rows[0])
        _write(self._parts / f"{number:03d}-{stage}-{attack}-{repetition:04d}.parquet", rows)

    def rows(self) -> list[Row]:
        """Return all distinct rows in order."""
        rows: dict[Key, Row] = {}
        for path in (*self.folder.glob(self._results.name), *sorted(self._parts.glob("*.parquet"))):
            # Files are read one by one, because those of other versions may have other columns.
            try:
                rows |= {key_of(row): row for row in pq.ParquetFile(path).read().to_pylist()}
            except (OSError, ValueError, KeyError, pa.ArrowException) as error:
                raise _damaged(path, error) from error
        return [rows[key] for key in sorted(rows)]

    def compact(self) -> list[Row]:
        """Move all parts into ``results.parquet`` and return the rows."""
        parts, rows = list(self._parts.glob("*.parquet")), self.rows()
        if parts:
            _write(self._results, rows)
        # Parts are removed last, and only those that were read: a crash in between leaves
        # duplicates, but loses nothing.
        for part in parts:
            part.unlink(missing_ok=True)
        return rows


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"the results in {path} are damaged ({error}); move the file away.")


def _write(path: Path, rows: Sequence[Row]) -> None:
    with whole_file(path) as draft:
        pq.write_table(pa.Table.from_pylist(list(rows)), draft)


def strongest_attacks(rows: Iterable[Row]) -> dict[int, str]:
    """Return the attack with the largest mean value for each cell number with a pilot.

    Ties go to the usually strongest attack, otherwise to the last by name, so that the choice
    depends only on the rows.
    """
    return {
        number: USUALLY_STRONGEST if USUALLY_STRONGEST in attacks else attacks[-1]
        for number, attacks in tied_attacks(rows).items()
    }


def tied_attacks(rows: Iterable[Row]) -> dict[int, tuple[str, ...]]:
    """Return all attacks with the largest mean value, sorted, for each cell number with a pilot."""
    values: dict[int, dict[str, list[float]]] = {}
    for row in rows:
        if row["stage"] == PILOT:
            values.setdefault(row["number"], {}).setdefault(row["attack"], []).append(row["value"])
    tied = {}
    for number, by_attack in values.items():
        means = {attack: float(np.mean(losses)) for attack, losses in by_attack.items()}
        most = max(means.values())
        tied[number] = tuple(sorted(attack for attack, mean in means.items() if mean == most))
    return tied


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values of one algorithm along the points of a series."""

    algorithm: str
    xs: FloatArray  # shape (n_points,), ascending
    values: FloatArray  # shape (n_repetitions, n_points)
    repetitions: tuple[int, ...] = ()

    @property
    def means(self) -> FloatArray:
        """Return the mean over repetitions at each point, shape (n_points,)."""
        means: FloatArray = self.values.mean(axis=0)
        return means

    def at(self, x: float) -> FloatArray:
        """Return the repetitions at one point; an infinite x stands for the first or last point."""
        ends = {-np.inf: self.xs[0], np.inf: self.xs[-1]}
        (index,) = np.flatnonzero(self.xs == ends.get(x, x))
        return self.values[:, index]

    def minus(self, other: Curve, x: float) -> FloatArray:
        """Return differences to another curve at one point, over their common repetitions."""
        mine = np.isin(self.repetitions, other.repetitions)
        theirs = np.isin(other.repetitions, self.repetitions)
        return np.asarray(self.at(x)[mine] - other.at(x)[theirs])


class Results:
    """The reported rows of an experiment, and its pilot."""

    def __init__(self, rows: Sequence[Row]) -> None:
        chosen = strongest_attacks(rows)
        # Rows of attacks that are no longer the strongest are not reported.
        main = [
            row
            for row in rows
            if row["stage"] == MAIN and chosen.get(row["number"], row["attack"]) == row["attack"]
        ]
        # After an interrupted run, some cells have more repetitions than others. Only common
        # repetitions are used, except for the project's own learner, which has fewer.
        points: dict[str, set[tuple[str, float]]] = {}
        own: dict[int, set[int]] = {}
        others: dict[int, set[int]] = {}
        for row in main:
            points.setdefault(row["algorithm"], set()).add((row["series"], row["x"]))
            cells = own if row["algorithm"] == DEFAULT_METHOD else others
            cells.setdefault(row["number"], set()).add(row["repetition"])
        sets = list((others or own).values())
        finished = set.intersection(*sets) if sets else set()
        kept = finished.intersection(*own.values())
        if not kept or len(set(map(len, points.values()))) > 1:
            raise InputError(
                "not every cell has a finished repetition yet: run the experiment to its end first."
            )
        self.main = [
            row
            for row in main
            if row["repetition"] in (kept if row["algorithm"] == DEFAULT_METHOD else finished)
        ]
        self.tied_attacks = tied_attacks(rows)
        self.repetitions = len(finished)

    @property
    def algorithms(self) -> list[str]:
        """Return the algorithms in the order of the sweep."""
        return list(dict.fromkeys(row["algorithm"] for row in self.main))

    @property
    def series(self) -> list[str]:
        """Return the series in the order of the sweep."""
        return list(dict.fromkeys(row["series"] for row in self.main))

    def curve(self, algorithm: str, series: str = "") -> Curve:
        """Return the curve of an algorithm along one series."""
        by_x: dict[float, dict[int, float]] = {}
        for row in self.main:
            if row["algorithm"] == algorithm and row["series"] == series:
                by_x.setdefault(row["x"], {})[row["repetition"]] = row["value"]
        xs = sorted(by_x)
        repetitions = sorted(by_x[xs[0]])
        return Curve(
            algorithm=algorithm,
            xs=np.array(xs),
            values=np.array([[by_x[x][repetition] for x in xs] for repetition in repetitions]),
            repetitions=tuple(repetitions),
        )

    def at(self, algorithm: str, x: float, series: str = "") -> FloatArray:
        """Return the repetitions of an algorithm at one point."""
        return self.curve(algorithm, series).at(x)
