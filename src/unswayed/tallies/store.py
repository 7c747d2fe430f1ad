"""Tallies on disk: a folder to which each day's log is added once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.arrays import IntArray
from unswayed.errors import InputError, option
from unswayed.events import Columns, Labels
from unswayed.events.hashing import labels_of_column
from unswayed.storage import make_folder, whole_file
from unswayed.tallies.log_data import digest_of, merged_logs
from unswayed.tallies.tallies import Tallies

FORMAT = "unswayed-tallies"
VERSION = 3
SUMS_ONLY = 2
"""The version of folders that keep sums only; it can still be read."""

_INDEX = "tallies.json"


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """The contents of a folder."""

    tallies: Tallies  # tallies of all logs together
    logs: tuple[Mapping[str, Any], ...]  # source and digest of each
    # The partition whose leaves are the contexts, as JSON, fixed by the first log.
    partition: Mapping[str, Any] | None = None

    def with_bins(self, columns: Columns) -> Columns:
        """Return the columns with the bins of the first log; reject bins of other columns."""
        fixed = self.logs[0].get("bins", {}) if self.logs else columns.bins
        if set(fixed) != set(columns.bins):
            raise InputError(
                "these tallies were made with other bins of a context column; use the same, or a "
                "new folder."
            )
        return replace(columns, bins=fixed)


def add_log(
    folder: str | os.PathLike[str],
    stored: Stored | None,
    fresh: Tallies,
    source: Mapping[str, Any],
    partition: Mapping[str, Any] | None = None,
) -> Stored:
    """Add a log to the contents of a folder, write the folder, and return its new contents.

    A log that was added before is rejected. The state is replaced atomically.
    """
    logs = () if stored is None else stored.logs
    digest = "".join(f"{part:016x}" for part in digest_of(fresh))
    if any(log["digest"] == digest for log in logs):
        raise InputError(
            f"the log {source.get('source', '')} was added to these tallies before, and would "
            "count twice; to learn from what is there, leave it out and give "
            f"{option('--tallies')} alone, or start in a new folder."
        )
    tallies = fresh if stored is None else merged_logs([stored.tallies, fresh])
    after = Stored(tallies, (*logs, {**source, "digest": digest}), partition)
    piece = f"{len(after.logs):06d}-{digest[:8]}"
    write_piece(folder, piece, tallies)
    _save_index(Path(folder), piece, after)
    return after


def load_tallies(folder: str | os.PathLike[str]) -> Stored | None:
    """Return the contents of a folder of tallies, or None if it is empty."""
    index = load_index(folder)
    if index is None:
        return None
    try:
        labels = (Labels.of(index["contexts"]), Labels.of(index["actions"]))
        logs = tuple({**log, "digest": str(log["digest"])} for log in index["logs"])
        # There is a single piece since version 3.
        names = index["pieces"] if "pieces" in index else [index["piece"]]
        pieces = [load_piece(folder, piece, *labels) for piece in names]
        tallies = pieces[0] if len(pieces) == 1 else merged_logs(pieces)
        return Stored(tallies, logs, index.get("partition"))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(Path(folder), error) from error


def load_index(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the index of a folder as written, or None if the folder is empty."""
    path = Path(folder) / _INDEX
    try:
        if not path.exists():
            return None
        index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = (index["format"], index["version"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(Path(folder), error) from error
    is_former = found == (FORMAT, SUMS_ONLY) and index.get("keeps_events") is False
    if found != (FORMAT, VERSION) and not is_former:
        events = " with single events" if index.get("keeps_events") else ""
        raise InputError(
            f"{os.fspath(folder)} holds {found[0]} of version {found[1]}{events}, and this program "
            f"reads {FORMAT} of version {VERSION}; make the tallies again: learn from the logs of "
            f"all days, one after the other, with {option('--tallies')} and a new folder."
        )
    return index


def _save_index(folder: Path, piece: str, stored: Stored) -> None:
    """Commit a written piece as the new state of a folder, and delete the old one.

    The small index names its files and is replaced last, so an interrupted run leaves the old
    state, and a concurrent reader sees the old or the new one. Callers lock the folder
    (``storage.locked_folder``); an index that changed anyway, as on a file system without locks, is
    not overwritten.
    """
    written = {
        "format": FORMAT,
        "version": VERSION,
        "piece": piece,
        "contexts": list(stored.tallies.context_labels),
        "actions": list(stored.tallies.action_labels),
        "events": stored.tallies.n_events,
        "logs": [dict(log) for log in stored.logs],
        **({} if stored.partition is None else {"partition": stored.partition}),
    }
    current = load_index(folder)
    before = [] if current is None else [log["digest"] for log in current["logs"]]
    if before != [log["digest"] for log in stored.logs[:-1]]:
        raise InputError(
            f"another run changed the tallies in {folder} meanwhile, and nothing was written; run "
            "this again."
        )
    with whole_file(folder / _INDEX) as draft:
        draft.write_text(json.dumps(written, indent=1, ensure_ascii=False), encoding="utf-8")
    kept = [path.name for path in _paths(folder, piece)]
    for old in (*folder.glob("entries-*.parquet"), *folder.glob("users-*.parquet")):
        if old.name not in kept:
            old.unlink()


def write_piece(folder: str | os.PathLike[str], piece: str, tallies: Tallies) -> None:
    """Write tallies to two files of a folder; safe to run twice concurrently."""
    make_folder(folder)
    columns = {name: getattr(tallies, name) for name in ("cells", *Tallies.columns)}
    n_entries = len(tallies.cells)  # empty columns are not written
    entries = {name: column for name, column in columns.items() if len(column) == n_entries}
    users = {"user": pa.array(tallies.user_labels.values), "entries": np.diff(tallies.indptr)}
    for path, table in zip(_paths(Path(folder), piece), (entries, users), strict=True):
        with whole_file(path) as draft:
            pq.write_table(pa.table(table), draft)


def load_piece(
    folder: str | os.PathLike[str], piece: str, contexts: Labels, actions: Labels
) -> Tallies:
    """Return the tallies that ``write_piece`` wrote; their codes stand for the given labels."""
    try:
        entries, users = (pq.read_table(path) for path in _paths(Path(folder), piece))
        # Arrow's buffers are read-only; without copies, numba would compile every loop again for
        # them.
        columns = {name: entries[name].to_numpy().copy() for name in entries.column_names}
        indptr = np.concatenate([[0], np.cumsum(users["entries"].to_numpy())])
        _check_piece(columns, indptr, len(contexts) * len(actions))
        tallies = Tallies(len(contexts), len(actions), indptr, **columns)
        return tallies.labelled(labels_of_column(users["user"]), contexts, actions)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise _damaged(Path(folder), error) from error


def _check_piece(columns: Mapping[str, Any], indptr: IntArray, n_cells: int) -> None:
    """Validate the indices of a piece; compiled loops do not check them."""
    cells = columns["cells"]
    if cells.dtype != np.int32 or indptr.dtype != np.int64:
        raise ValueError("cells or entries are not of the expected type")
    if len(cells) and (cells.min() < 0 or cells.max() >= n_cells):
        raise ValueError("an entry belongs to no context and action")
    if indptr[-1] != len(cells) or (np.diff(indptr) < 0).any():
        raise ValueError("the users' numbers of entries do not add up")
    for name, column in columns.items():
        if name != "cells" and (column.dtype != np.float64 or not np.isfinite(column).all()):
            raise ValueError(f"column {name} contains values that are not finite numbers")
    # Cells ascend within a user, without repeats.
    is_first = np.zeros(len(cells) + 1, np.bool_)
    is_first[indptr] = True
    if not (is_first[1:-1] | (cells[1:] > cells[:-1])).all():
        raise ValueError("the entries of a user are not in order")


def _paths(folder: Path, piece: str) -> tuple[Path, Path]:
    return folder / f"entries-{piece}.parquet", folder / f"users-{piece}.parquet"


def _damaged(folder: Path, error: Exception) -> InputError:
    return InputError(f"the tallies in {folder} are damaged ({error}); make them again.")
