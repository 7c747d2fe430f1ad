"""Tallies on disk: a folder to which each day's log is added once, here or on a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.errors import InputError, option
from unswayed.events import Events, Labels
from unswayed.events.hashing import labels_of_column
from unswayed.storage import make_folder, whole_file
from unswayed.tallies.log_data import LogData, digest_of, digest_text, merged_data
from unswayed.tallies.tallies import Tallies, entry_users

FORMAT = "unswayed-tallies"
VERSION = 2

_INDEX = "tallies.json"


@dataclass(frozen=True, slots=True)
class Index:
    """Index of a folder of tallies.

    Parameters
    ----------
    keeps_events
        Whether it holds events instead of sums, so that a cap or a half-life can be applied.
    pieces
        Names of the pieces; each holds a range of the users, in their order.
    context_labels, action_labels
        What the codes in the pieces stand for.
    n_events
        Events in all pieces.
    bins
        Edges of binned context columns, fixed by the first log.
    logs
        Source and digest of each log that was added.
    """

    keeps_events: bool = False
    pieces: tuple[str, ...] = ()
    context_labels: Labels = field(default_factory=lambda: Labels.of([]))
    action_labels: Labels = field(default_factory=lambda: Labels.of([]))
    n_events: int = 0
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    logs: tuple[Mapping[str, Any], ...] = ()

    def with_log(
        self, digest: str, source: Mapping[str, Any], bins: Mapping[str, tuple[float, ...]]
    ) -> Index:
        """Return the index with one more log; a log that is in already is refused."""
        if any(log["digest"] == digest for log in self.logs):
            raise InputError(
                f"the log {source.get('source', '')} was added to these tallies before, and would "
                "count twice; to learn from what is there, leave it out and give "
                f"{option('--tallies')} alone, or start in a new folder."
            )
        if self.logs and bins != self.bins:
            raise InputError(
                "these tallies were made with other bins of a context column; use the same, or a "
                "new folder."
            )
        return replace(self, bins=bins, logs=(*self.logs, {**source, "digest": digest}))

    def piece_names(self, n_pieces: int) -> tuple[str, ...]:
        """Return unique names for the pieces of this state."""
        state = f"{len(self.logs):06d}-{self.logs[-1]['digest'][:8]}" if self.logs else "0"
        return tuple(f"{state}-{piece:03d}" for piece in range(n_pieces))


def add_log(
    folder: str | os.PathLike[str],
    stored: tuple[LogData, Index] | None,
    fresh: LogData,
    source: Mapping[str, Any],
    bins: Mapping[str, tuple[float, ...]],
) -> tuple[LogData, Index]:
    """Add a log to what a folder holds, write it, and return what the folder holds then.

    A log that is in already is refused. A half-written state never replaces a whole one.
    """
    old, before = (None, Index()) if stored is None else stored
    after = before.with_log(digest_text([digest_of(fresh)]), source, bins)
    data = fresh if old is None else merged_data([old, fresh])
    index = replace(
        after,
        keeps_events=isinstance(data, Events),
        pieces=after.piece_names(1),
        context_labels=data.context_labels,
        action_labels=data.action_labels,
        n_events=data.n_events,
    )
    write_piece(folder, index.pieces[0], data)
    save_index(folder, index)
    return data, index


def load_tallies(folder: str | os.PathLike[str]) -> tuple[LogData, Index] | None:
    """Return what a folder of tallies holds, or None if there is nothing yet."""
    index = load_index(folder)
    if index is None:
        return None
    pieces = [load_piece(index, folder, piece) for piece in index.pieces]
    if len(pieces) == 1:
        return pieces[0], index
    labels = {"context_labels": index.context_labels, "action_labels": index.action_labels}
    return merged_data(pieces, **labels), index


def save_index(folder: str | os.PathLike[str], index: Index) -> None:
    """Commit written pieces as the new state of a folder, and delete the old ones.

    The small index is replaced last and names the pieces that belong to it, so a run that dies
    leaves the old state, and one that reads meanwhile sees the old or the new one. Callers hold
    the folder (``storage.locked_folder``); an index that changed all the same, as on a file system
    without locks, is not overwritten.
    """
    target = Path(folder)
    written = {
        "format": FORMAT,
        "version": VERSION,
        "keeps_events": index.keeps_events,
        "pieces": list(index.pieces),
        "contexts": list(index.context_labels),
        "actions": list(index.action_labels),
        "events": index.n_events,
        "bins": {column: list(edges) for column, edges in index.bins.items()},
        "logs": [dict(log) for log in index.logs],
    }
    _check_unchanged(target, index)
    with whole_file(target / _INDEX) as draft:
        draft.write_text(json.dumps(written, indent=1, ensure_ascii=False), encoding="utf-8")
    current = {path.name for piece in index.pieces for path in _paths(target, piece)}
    for old in (*target.glob("entries-*.parquet"), *target.glob("users-*.parquet")):
        if old.name not in current:
            old.unlink()


def _check_unchanged(folder: Path, index: Index) -> None:
    """Raise if another run changed the index in the meantime."""
    current = load_index(folder)
    found = [] if current is None else [log["digest"] for log in current.logs]
    if found != [log["digest"] for log in index.logs[:-1]]:
        raise InputError(
            f"another run changed the tallies in {folder} meanwhile, and nothing was written; run "
            "this again."
        )


def load_index(folder: str | os.PathLike[str]) -> Index | None:
    """Return what a folder holds, or None if it holds nothing yet."""
    target = Path(folder)
    try:
        if not (target / _INDEX).exists():
            return None
        index = json.loads((target / _INDEX).read_text(encoding="utf-8"))
        if (index["format"], index["version"]) != (FORMAT, VERSION):
            raise InputError(
                f"{target} holds {index['format']} of version {index['version']}, and this "
                f"program reads {FORMAT} of version {VERSION}; make the tallies again."
            )
        return Index(
            index["keeps_events"],
            tuple(index["pieces"]),
            Labels.of(index["contexts"]),
            Labels.of(index["actions"]),
            index["events"],
            {name: tuple(edges) for name, edges in index["bins"].items()},
            tuple(index["logs"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(target, error) from error


def write_piece(folder: str | os.PathLike[str], piece: str, data: LogData) -> None:
    """Write the data of some users; safe to run twice concurrently."""
    target = Path(folder)
    make_folder(target)
    if isinstance(data, Events):
        order = np.argsort(data.users, kind="stable")
        n_rows = np.bincount(data.users, minlength=data.n_users)
        cells = data.contexts.astype(np.int64) * data.n_actions + data.actions
        entries = {"cells": cells[order].astype(np.int32), "rewards": data.rewards[order]}
        if data.propensities is not None:
            entries["propensities"] = data.propensities[order]
        if data.times is not None:
            entries["times"] = data.times[order]
    else:
        n_rows = np.diff(data.indptr)
        columns = {name: getattr(data, name) for name in ("cells", *Tallies.columns)}
        n_entries = len(data.cells)  # columns that are left empty are not written
        entries = {name: column for name, column in columns.items() if len(column) == n_entries}
    users = {"user": pa.array(data.user_labels.values), "entries": n_rows}
    for path, table in zip(_paths(target, piece), (entries, users), strict=True):
        with whole_file(path) as draft:
            pq.write_table(pa.table(table), draft)


def has_piece(folder: str | os.PathLike[str], piece: str) -> bool:
    """Return whether a piece exists."""
    return all(path.exists() for path in _paths(Path(folder), piece))


def load_piece(index: Index, folder: str | os.PathLike[str], piece: str) -> LogData:
    """Return the data of some users."""
    try:
        entries, users = (pq.read_table(path) for path in _paths(Path(folder), piece))
        # Copies: what Arrow lends is read-only, and every loop would be compiled anew for that.
        columns = {name: entries[name].to_numpy().copy() for name in entries.column_names}
        indptr = np.concatenate([[0], np.cumsum(users["entries"].to_numpy())])
        _check_piece(index, columns, indptr)
        return _data(index, columns, indptr, labels_of_column(users["user"]))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise _damaged(Path(folder), error) from error


def _check_piece(index: Index, columns: Mapping[str, Any], indptr: Any) -> None:
    """Validate indices of a piece; compiled loops do not check them."""
    cells, n_cells = columns["cells"], len(index.context_labels) * len(index.action_labels)
    if cells.dtype != np.int32 or indptr.dtype != np.int64:
        raise ValueError("cells or entries are not of the expected type")
    if len(cells) and (cells.min() < 0 or cells.max() >= n_cells):
        raise ValueError("an entry belongs to no context and action")
    if indptr[-1] != len(cells) or (np.diff(indptr) < 0).any():
        raise ValueError("users and entries do not fit together")
    for name, column in columns.items():
        if name != "cells" and (column.dtype != np.float64 or not np.isfinite(column).all()):
            raise ValueError(f"column {name} holds something else than finite numbers")
    if not index.keeps_events:
        # Cells ascend within a user, and each is there once.
        is_first = np.zeros(len(cells) + 1, np.bool_)
        is_first[indptr] = True
        if not (is_first[1:-1] | (cells[1:] > cells[:-1])).all():
            raise ValueError("the entries of a user are not in order")


def _data(index: Index, columns: dict[str, Any], indptr: Any, users: Labels) -> LogData:
    labels = (users, index.context_labels, index.action_labels)
    if index.keeps_events:
        contexts, actions = np.divmod(columns["cells"], np.int32(len(index.action_labels)))
        codes = entry_users(indptr).astype(np.int32)
        return Events(
            codes,
            contexts,
            actions,
            columns["rewards"],
            *labels,
            columns.get("propensities"),
            columns.get("times"),
        )
    shape = (len(index.context_labels), len(index.action_labels))
    return Tallies(*shape, indptr, **columns).labelled(*labels)


def _paths(folder: Path, piece: str) -> tuple[Path, Path]:
    return folder / f"entries-{piece}.parquet", folder / f"users-{piece}.parquet"


def _damaged(folder: Path, error: Exception) -> InputError:
    return InputError(f"the tallies in {folder} are damaged ({error}); make them again.")
