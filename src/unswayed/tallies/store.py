"""Tallies on disk: a folder to which each day's log is added once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.events.user_order import labels_of_column
from unswayed.tallies.labelled import LabelledTallies, merged_logs
from unswayed.tallies.tallies import Remainders, Tallies

FORMAT = "unswayed-tallies"
VERSION = 1

_INDEX = "tallies.json"
_COLUMNS = ("counts", "sums", "squares")


@dataclass(frozen=True, slots=True, eq=False)
class StoredTallies:
    """What a folder of tallies holds.

    ``bins`` are the edges of binned context columns, fixed by the first log; ``logs`` says of each
    log that was added what it was and a digest of its tallies.
    """

    labelled: LabelledTallies
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    logs: tuple[Mapping[str, Any], ...] = ()

    def with_log(
        self,
        labelled: LabelledTallies,
        source: Mapping[str, Any],
        bins: Mapping[str, tuple[float, ...]],
    ) -> StoredTallies:
        """Return the tallies with one more log; a log that is in already is refused."""
        digest = digest_of(labelled)
        if any(log["digest"] == digest for log in self.logs):
            raise InputError(
                f"the log {source.get('source', '')} was added to these tallies before, and would "
                "count twice; leave it out, or start in a new folder."
            )
        if bins != self.bins:
            raise InputError(
                "these tallies were made with other --context-bins; use the same, or a new folder."
            )
        log = {**source, "digest": digest}
        return StoredTallies(merged_logs([self.labelled, labelled]), self.bins, (*self.logs, log))


def first_log(
    labelled: LabelledTallies, source: Mapping[str, Any], bins: Mapping[str, tuple[float, ...]]
) -> StoredTallies:
    """Return stored tallies that hold one log."""
    return StoredTallies(labelled, bins, ({**source, "digest": digest_of(labelled)},))


def digest_of(labelled: LabelledTallies) -> str:
    """Return a digest of everything in the tallies, labels included."""
    digest = hashlib.blake2b(digest_size=16)
    tallies = labelled.tallies
    for array in (tallies.indptr, tallies.cells, tallies.counts, tallies.sums, tallies.squares):
        digest.update(np.ascontiguousarray(array).data)
    for labels in (labelled.user_labels, labelled.context_labels, labelled.action_labels):
        digest.update("\0".join(labels.texts).encode())
    return digest.hexdigest()


def save_tallies(folder: str | os.PathLike[str], stored: StoredTallies) -> None:
    """Write tallies to a folder; a half-written state never takes the place of a whole one.

    The small index is replaced last and names the files it belongs to, so a run that dies leaves
    the old state, and one that reads meanwhile sees the old or the new one.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    tallies = stored.labelled.tallies
    generation = f"{len(stored.logs):06d}-{stored.logs[-1]['digest'][:8]}" if stored.logs else "0"
    entries = {"cells": tallies.cells, **{name: getattr(tallies, name) for name in _COLUMNS}}
    for name in _COLUMNS:
        if len(rests := getattr(tallies.remainders, name)):
            entries[f"{name}_remainder"] = rests
    if tallies.is_weighted:
        entries["weighted_plays"] = tallies.weighted_plays
    users = {
        "user": pa.array(stored.labelled.user_labels.values),
        "entries": np.diff(tallies.indptr),
    }
    files = {"entries": f"entries-{generation}.parquet", "users": f"users-{generation}.parquet"}
    pq.write_table(pa.table(entries), target / files["entries"])
    pq.write_table(pa.table(users), target / files["users"])
    index = {
        "format": FORMAT,
        "version": VERSION,
        **files,
        "contexts": list(stored.labelled.context_labels),
        "actions": list(stored.labelled.action_labels),
        "bins": {column: list(edges) for column, edges in stored.bins.items()},
        "logs": [dict(log) for log in stored.logs],
    }
    draft = target / (_INDEX + ".part")
    draft.write_text(json.dumps(index, indent=1, ensure_ascii=False), encoding="utf-8")
    draft.replace(target / _INDEX)
    for old in (*target.glob("entries-*.parquet"), *target.glob("users-*.parquet")):
        if old.name not in files.values():
            old.unlink()


def load_tallies(folder: str | os.PathLike[str]) -> StoredTallies | None:
    """Return the tallies of a folder, or None if there are none yet."""
    target = Path(folder)
    if not (target / _INDEX).exists():
        return None
    try:
        index = json.loads((target / _INDEX).read_text(encoding="utf-8"))
        if (index["format"], index["version"]) != (FORMAT, VERSION):
            raise InputError(
                f"{target} holds {index['format']} of version {index['version']}, and this "
                f"program reads {FORMAT} of version {VERSION}; make the tallies again."
            )
        return _loaded(target, index)
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the tallies in {target} are damaged ({error}); make them again."
        ) from error


def _loaded(target: Path, index: Mapping[str, Any]) -> StoredTallies:
    entries = pq.read_table(target / index["entries"])
    users = pq.read_table(target / index["users"])

    def column(name: str) -> Any:
        return entries[name].to_numpy() if name in entries.column_names else np.empty(0)

    contexts, actions = Labels.of(index["contexts"]), Labels.of(index["actions"])
    tallies = Tallies(
        n_users=len(users),
        n_contexts=len(contexts),
        n_actions=len(actions),
        indptr=np.concatenate([[0], np.cumsum(users["entries"].to_numpy())]),
        cells=column("cells"),
        counts=column("counts"),
        sums=column("sums"),
        squares=column("squares"),
        remainders=Remainders(*(column(f"{name}_remainder") for name in _COLUMNS)),
        weighted_plays=column("weighted_plays"),
    )
    return StoredTallies(
        LabelledTallies(tallies, labels_of_column(users["user"]), contexts, actions),
        {name: tuple(edges) for name, edges in index["bins"].items()},
        tuple(index["logs"]),
    )
