"""Results on disk: parts are only ever added, and other settings are refused.

A folder holds ``settings.json``, one small Parquet file in ``parts/`` for every finished chunk of
repetitions, and ``results.parquet``, into which the parts go at the end. A part appears under its
name only when it is complete, so whatever kills a run loses at most the chunks in flight.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.errors import InputError
from unswayed.storage import make_folder, whole_file

Row = dict[str, Any]
Key = tuple[int, str, str, int]
"""Names a row: cell number, stage, attack and repetition."""


def key_of(row: Row) -> Key:
    """Return what names a row."""
    return row["number"], row["stage"], row["attack"], row["repetition"]


class Store:
    """The results of one experiment in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parts = folder / "parts"
        self._settings = folder / "settings.json"
        self._results = folder / "results.parquet"

    def open(self, settings: dict[str, Any]) -> None:
        """Start or continue results with these settings, or refuse those that have others."""
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
        _write_whole(self._settings, json.dumps(settings, indent=1).encode())

    def settings(self) -> dict[str, Any]:
        """Return the settings of the results that are there."""
        if not self._settings.exists():
            raise InputError(f"{self.folder} holds no results: run the experiment first.")
        try:
            stored: dict[str, Any] = dict(json.loads(self._settings.read_text("utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise _damaged(self._settings, error) from error
        return stored

    def add(self, rows: Sequence[Row]) -> None:
        """Keep a finished chunk of repetitions of one cell, stage and attack."""
        number, stage, attack, repetition = key_of(rows[0])
        path = self._parts / f"{number:03d}-{stage}-{attack}-{repetition:04d}.parquet"
        _write_table(path, rows)

    def rows(self) -> list[Row]:
        """Return all rows, each once, in order."""
        return self._read(self._all_parts())

    def compact(self) -> list[Row]:
        """Move all parts into ``results.parquet`` and return the rows."""
        parts = self._all_parts()
        rows = self._read(parts)
        if parts:
            _write_table(self._results, rows)
        # Only now, and only what was read: a crash in between leaves duplicates, not losses.
        for part in parts:
            part.unlink(missing_ok=True)
        return rows

    def _all_parts(self) -> list[Path]:
        return sorted(self._parts.glob("*.parquet"))

    def _read(self, parts: list[Path]) -> list[Row]:
        rows: dict[Key, Row] = {}
        for path in ([self._results] if self._results.exists() else []) + parts:
            # One file at a time: they were written by hands that know their columns.
            try:
                found = pq.ParquetFile(path).read().to_pylist()
                rows |= {key_of(row): row for row in found}
            except (OSError, ValueError, KeyError, pa.ArrowException) as error:
                raise _damaged(path, error) from error
        return [rows[key] for key in sorted(rows)]


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"the results in {path} are damaged ({error}); move the file away.")


def _write_table(path: Path, rows: Sequence[Row]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=_schema(rows)), sink)
    _write_whole(path, sink.getvalue().to_pybytes())


def _schema(rows: Sequence[Row]) -> pa.Schema:
    """Return a schema that does not depend on which values happen to be missing."""
    kinds: dict[str, pa.DataType] = {}
    for row in rows:
        for name, value in row.items():
            if name not in kinds or kinds[name] == pa.null():
                kinds[name] = pa.scalar(value).type
    # An option that is nowhere set (assumed_alpha) is a number all the same.
    return pa.schema(
        [(name, pa.float64() if kind == pa.null() else kind) for name, kind in kinds.items()]
    )


def _write_whole(path: Path, content: bytes) -> None:
    with whole_file(path) as draft:
        draft.write_bytes(content)
