"""Ctrl-C stops the command at any moment: exit code 130, no traceback, no temporary files."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import café_log
from tests.cli.test_main import COMMAND

#: Maximum time in seconds until a command stops.
SECONDS = 2.0


def interrupted(
    arguments: list[str],
    after: float,
    folder: Path,
    *,
    whole_group: bool = True,
    until: Path | None = None,
) -> tuple[int, str, float]:
    """Interrupt a command; return its exit code, its output, and the seconds until it stopped.

    A terminal signals the whole group of processes, `kill` only one. The signal is sent once the
    file ``until`` exists.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [COMMAND, *arguments],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # The command waits for the signal in a thread, which a busy machine starts late.
    threads = Path(f"/proc/{process.pid}/task")
    while process.poll() is None and len(list(threads.iterdir())) < 2:
        time.sleep(0.01)
    while until is not None and not until.exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(after)
    start = time.monotonic()
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    try:
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    taken = time.monotonic() - start
    deadline = time.monotonic() + SECONDS
    while (alive := living_members(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)  # workers may need a moment to notice
    assert alive == []
    return process.returncode, said, taken


def living_members(group: int) -> list[int]:
    """Return the running processes of a process group, without zombies."""
    alive = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:  # the process has ended meanwhile
            continue
        if int(its_group) == group and state != "Z":
            alive.append(int(folder.name))
    return alive


def assert_stopped(result: tuple[int, str, float], folder: Path) -> None:
    code, said, taken = result
    assert "Traceback" not in said
    assert "Warning" not in said
    assert taken < SECONDS
    if code != 0:  # otherwise the command had finished before the signal
        assert (code, said.strip().splitlines()[0][:7]) == (130, "Stopped")
        assert list(folder.rglob("*.part")) == []
        assert [path.name for path in (folder / "tmp").glob("unswayed-*")] == []


@pytest.fixture
def log(rng: np.random.Generator, tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    pq.write_table(café_log(rng, 60_000, n_users=3_000), path)
    return path


@pytest.mark.parametrize("after", [0.15, 0.6, 1.2, 2.0])
def test_learning_stops_on_ctrl_c(after: float, log: Path, tmp_path: Path) -> None:
    arguments = ["learn", log.name, "--tallies", "tallies", "--users", "users.csv"]
    assert_stopped(interrupted(arguments, after, tmp_path), tmp_path)


@pytest.mark.parametrize("whole_group", [True, False])
def test_worker_processes_end_with_the_command(whole_group: bool, tmp_path: Path) -> None:
    arguments = ["simulate", "--repetitions", "200", "--users", "500", "--processes", "2"]
    result = interrupted(arguments, 2.5, tmp_path, whole_group=whole_group)
    assert result[0] == 130
    assert_stopped(result, tmp_path)


def test_an_interrupted_experiment_prints_how_to_resume(tmp_path: Path) -> None:
    arguments = ["reproduce", "figure-2a", "--processes", "1"]
    result = interrupted(arguments, 0.5, tmp_path, until=tmp_path / "results")
    assert_stopped(result, tmp_path)
    assert "the same command resumes from there" in result[1]
