"""Kills during writes, and two concurrent writers: no day is lost, and no file is damaged."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.shop import café_log
from unswayed.errors import InputError
from unswayed.events import read_events
from unswayed.policy import Policy
from unswayed.tallies import tally_events
from unswayed.tallies.store import add_log, load_tallies

ROOT = Path(__file__).parents[2]


def played(fault: str, n_rounds: int, folder: Path) -> dict[str, int]:
    result = subprocess.run(
        [sys.executable, "-m", "tests.faults.rounds", fault, str(n_rounds), str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2_000:]
    found: dict[str, int] = json.loads(result.stdout)
    return found


@pytest.mark.slow
def test_220_kills_of_learning_lose_no_day_and_damage_no_file(tmp_path: Path) -> None:
    found = played("kills", 240, tmp_path)
    assert found["killed"] >= 200
    assert found["day was in"] > 20
    assert found["day was not in"] > 20


@pytest.mark.slow
def test_50_pairs_of_writers_lose_no_day(tmp_path: Path) -> None:
    assert played("writers", 50, tmp_path)["pairs"] == 50


def test_pieces_and_their_folder_are_synced_before_the_index_is_replaced(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure, only synced data remain."""
    order: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def kind_of(path: Path) -> str:
        return next((kind for kind in ("entries", "users", "json") if kind in path.name), "folder")

    def noted_fsync(handle: int) -> None:
        order.append(f"sync {kind_of(Path(f'/proc/self/fd/{handle}').readlink())}")
        fsync(handle)

    def noted_replace(self: Path, target: Path) -> Path:
        order.append(f"place {kind_of(Path(target))}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    log = tally_events(read_events(café_log(rng, 100)).events)
    add_log(tmp_path, None, log, {})
    assert order == [
        step
        for kind in ("entries", "users", "json")
        for step in (f"sync {kind}", f"place {kind}", "sync folder")
    ]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_an_error_during_sync_leaves_the_old_state(
    code: int, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full or broken disk may report an error only when files are synced."""
    log = tally_events(read_events(café_log(rng, 100)).events)
    add_log(tmp_path, None, log, {})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fails(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fails)
    stored = load_tallies(tmp_path)
    assert stored is not None
    more = tally_events(read_events(café_log(rng, 50)).events)
    with pytest.raises(InputError, match="cannot write"):
        add_log(tmp_path, stored, more, {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(InputError, match="cannot write"):
        Policy.load(write_policy(tmp_path)).save(tmp_path / "policy.json")


def write_policy(folder: Path) -> Path:
    """Write a small policy without syncing."""
    from tests.policy.test_damaged_policies import sound

    path = folder / "policy.json"
    path.write_text(json.dumps(sound()))
    return path
