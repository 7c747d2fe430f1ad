"""An online learner in one file: a zip of versioned JSON and Parquet tables, and no pickle."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.arrays import IntArray
from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.policy import Policy
from unswayed.storage import temporary_folder, whole_file
from unswayed.tallies import LogTallies
from unswayed.tallies.store import Index, load_piece, write_piece

FORMAT = "unswayed-learner"
VERSION = 1

_STATE, _USERS, _POLICY = "learner.json", "users.parquet", "policy.json"

#: Ours: the file holds the secret of the assignment, so only its owner may read it.
_MODE = 0o600


@dataclass(frozen=True, slots=True, eq=False)
class SavedLearner:
    """The saved state of a learner.

    Attributes
    ----------
    state
        Parameters, contexts and open decisions; plain JSON values.
    user_labels, plays
        The users that were met, and how many actions were decided for each.
    tallies
        What was observed, by phase.
    policy
        What was learned last, if anything was.
    """

    state: dict[str, Any]
    user_labels: Labels
    plays: IntArray
    tallies: dict[str, LogTallies]
    policy: Policy | None


def write_learner(path: str | os.PathLike[str], saved: SavedLearner) -> None:
    """Write a learner to one file, whole or not at all; only the owner may read it."""
    state = {
        "format": FORMAT,
        "version": VERSION,
        **saved.state,
        "pieces": {
            name: {"contexts": list(part.context_labels), "actions": list(part.action_labels)}
            for name, part in saved.tallies.items()
        },
    }
    with temporary_folder() as folder:
        content = folder / "learner"
        content.mkdir()
        (content / _STATE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
        users = {"user": pa.array(saved.user_labels.values), "plays": saved.plays}
        pq.write_table(pa.table(users), content / _USERS)
        for name, part in saved.tallies.items():
            write_piece(content, name, part)
        if saved.policy is not None:
            saved.policy.save(content / _POLICY)
        with whole_file(path) as draft:
            draft.chmod(_MODE)
            with zipfile.ZipFile(draft, "w") as archive:
                for file in sorted(content.iterdir()):
                    archive.write(file, file.name)


def read_learner(path: str | os.PathLike[str]) -> SavedLearner:
    """Return what ``write_learner`` wrote; refuse anything else."""
    name = os.fspath(path)
    try:
        with temporary_folder() as folder, zipfile.ZipFile(path) as archive:
            content = folder / "learner"
            content.mkdir()
            for member in archive.namelist():
                (content / Path(member).name).write_bytes(archive.read(member))
            return _read(content, name)
    except OSError as error:
        raise InputError(f"cannot read the learner {name}: {error.strerror or error}.") from error
    except InputError:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, NotImplementedError) as error:
        raise damaged_learner(name, error) from error
    except (AttributeError, RecursionError, pa.ArrowException, RuntimeError) as error:
        raise damaged_learner(name, error) from error


def damaged_learner(name: str, error: Exception) -> InputError:
    """Return the error for a file that holds no learner."""
    return InputError(f"{name} holds no learner, or is damaged ({error}); save the learner again.")


def _read(content: Path, name: str) -> SavedLearner:
    state = json.loads((content / _STATE).read_text(encoding="utf-8"))
    if state["format"] != FORMAT:
        raise ValueError(f"its format is {state['format']!r}")
    if state["version"] != VERSION:
        raise InputError(
            f"{name} has version {state['version']}, and this program reads version {VERSION}; use "
            "the program that wrote it."
        )
    users = pq.read_table(content / _USERS)
    tallies = {}
    try:
        for piece, labels in state["pieces"].items():
            index = Index(
                context_labels=Labels.of(labels["contexts"]),
                action_labels=Labels.of(labels["actions"]),
            )
            part = load_piece(index, content, str(piece))
            assert isinstance(part, LogTallies)  # the index keeps no events
            tallies[str(piece)] = part
        policy = Policy.load(content / _POLICY) if (content / _POLICY).exists() else None
    except InputError as error:  # names the folder it was unpacked to, which is gone by now
        raise ValueError("its tallies or its policy cannot be read") from error
    plays = users["plays"].to_numpy().astype(np.int64)
    return SavedLearner(state, Labels.of(users["user"].to_pylist()), plays, tallies, policy)
