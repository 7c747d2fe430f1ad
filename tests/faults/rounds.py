"""Rounds of one fault against one store, in forked children that run the real learner.

Run as ``python -m tests.faults.rounds kills 220 FOLDER`` or ``… writers 50 FOLDER``; prints a line
of JSON with the numbers of rounds and of losses. Forking is cheap: everything is imported and
compiled once, and each child learns in a fraction of a second.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq

from tests.cli.shop import café_log, unswayed
from unswayed import storage
from unswayed.policy import Policy
from unswayed.randomness import generator
from unswayed.tallies.store import load_tallies

EVENTS_PER_DAY = 300


class Shop:
    """A folder with logs of days, their tallies, and the learned policy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tallies = folder / "tallies"
        self.out, self.users = folder / "policy.json", folder / "users.csv"
        self.cells = folder / "cells.parquet"
        self.logs: set[str] = set()
        self._rng = generator(0, "shop")

    def new_day(self, number: int) -> Path:
        """Write the log of one more day."""
        path = self.folder / f"day-{number:04d}.parquet"
        pq.write_table(café_log(self._rng, EVENTS_PER_DAY, n_users=60), path)
        return path

    def learn(self, log: Path | None) -> None:
        """Run the command; without a log it learns from the existing tallies."""
        outputs = ["--out", self.out, "--users", self.users, "--cells", self.cells]
        options = ["--tallies", self.tallies, "--method", "paper", "--allow-unplayed"]
        unswayed("learn", *([] if log is None else [log]), *options, *outputs, "--json")

    def found_logs(self) -> set[str]:
        """Return the logs in the tallies, if the tallies can be read and are consistent."""
        stored = load_tallies(self.tallies)
        assert stored is not None
        assert stored.tallies.n_events == EVENTS_PER_DAY * len(stored.logs)
        return {log["source"] for log in stored.logs}

    def check_outputs(self) -> None:
        """Read every output: each file is complete, whatever happened to its writer."""
        policy = Policy.load(self.out)
        assert policy.decide("home").is_known
        users = pyarrow.csv.read_csv(self.users)
        assert users.column_names == ["user", "weight", "interactions"]
        assert sum(users["interactions"].to_pylist()) % EVENTS_PER_DAY == 0
        assert len(pq.read_table(self.cells)) == policy.mean_rewards.size

    def leftovers(self) -> list[str]:
        """Return the remaining temporary files."""
        return [str(path) for path in self.folder.rglob("*.part")]


def forked(work: Callable[..., None], *arguments: Any) -> int:
    """Run a function in a child and return the child's pid; it exits with 0 on success."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        work(*arguments)
        code = 0
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def count_steps(shop: Shop, log: Path) -> int:
    """Return the number of system calls that write files in one run."""
    reader, writer = os.pipe()

    def work() -> None:
        steps = Counter[str]()
        intercept(lambda name: steps.update([name]))
        shop.learn(log)
        os.write(writer, str(steps.total()).encode())

    assert ended(forked(work)) == 0
    return int(os.read(reader, 16))


def intercept(before: Callable[[str], None]) -> None:
    """Call a hook before and after every system call that creates, syncs or replaces a file."""
    for owner, name in (
        (os, "open"),
        (os, "fsync"),
        (os, "close"),
        (Path, "replace"),
        (Path, "unlink"),
        (Path, "write_text"),
        (pq, "write_table"),
        (pyarrow.csv, "write_csv"),
    ):
        _wrap(owner, name, before)


def _wrap(owner: Any, name: str, before: Callable[[str], None]) -> None:
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        before(name)
        result = original(*arguments, **options)
        before(name)
        return result

    setattr(owner, name, wrapped)


def killed_at_step(shop: Shop, log: Path, step: int) -> int:
    """Learn in a child that kills itself at a step, and return its exit status."""

    def work() -> None:
        left = [step]

        def count(_: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        intercept(count)
        shop.learn(log)

    return ended(forked(work))


def killed_after(shop: Shop, log: Path, seconds: float) -> int:
    """Learn in a child that is killed after some processor time, and return its exit status.

    Processor time tells how far a child has come, even on a busy machine.
    """
    child = forked(shop.learn, log)
    while not _has_ended(child) and _processor_seconds(child) < seconds:
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def _has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _processor_seconds(child: int) -> float:
    """Return the processor time of a child, from clock_getcpuclockid(3) and clock_gettime(2)."""
    return time.clock_gettime((~child << 3) | 2)


def learning_seconds(shop: Shop, log: Path) -> float:
    """Return the processor time that learning takes in a child."""
    _, status, used = os.wait4(forked(shop.learn, log), 0)
    assert status == 0
    return used.ru_utime + used.ru_stime


def kills(shop: Shop, n_rounds: int) -> dict[str, Any]:
    """Kill a run at every step of writing, and at random moments; then continue as a user would.

    After each kill every output must be readable, and the tallies must contain all earlier days,
    and the current day completely or not at all. If it is missing it is added again.
    """
    rng = generator(0, "kills")
    shop.learn(shop.new_day(0))
    shop.logs = shop.found_logs()
    n_steps = count_steps(shop, shop.new_day(1))
    shop.logs = shop.found_logs()
    seconds = learning_seconds(shop, shop.new_day(2))
    shop.logs = shop.found_logs()
    tried: Counter[str] = Counter()
    for number in range(n_rounds):
        log = shop.new_day(number + 3)
        at_step = number % 3 != 2
        if at_step:
            code = killed_at_step(shop, log, int(rng.integers(n_steps)))
        else:
            code = killed_after(shop, log, float(rng.uniform(0, seconds)))
        tried["killed" if code == -signal.SIGKILL else "finished before"] += 1
        found = shop.found_logs()
        assert shop.logs <= found <= shop.logs | {str(log)}, "a day was lost"
        shop.check_outputs()
        is_in = str(log) in found
        tried["day was in" if is_in else "day was not in"] += 1
        assert ended(forked(shop.learn, None if is_in else log)) == 0
        shop.logs = shop.found_logs()
        assert str(log) in shop.logs
        shop.check_outputs()
    assert ended(forked(shop.learn, shop.new_day(n_rounds + 3))) == 0
    assert shop.leftovers() == [], "drafts were left"
    return {"steps": n_steps, **tried, "lost": 0}


def writers(shop: Shop, n_rounds: int) -> dict[str, Any]:
    """Let two runs add a day each at the same time, and check that both days are stored."""
    shop.learn(shop.new_day(0))
    for number in range(n_rounds):
        pair = [shop.new_day(2 * number + 1), shop.new_day(2 * number + 2)]
        children = [forked(shop.learn, log) for log in pair]
        assert [ended(child) for child in children] == [0, 0]
        found = shop.found_logs()
        assert {str(log) for log in pair} <= found, "a day was lost"
        assert len(found) == 2 * number + 3
        shop.check_outputs()
    assert shop.leftovers() == []
    return {"pairs": n_rounds, "lost": 0}


def main() -> None:
    """Run rounds, and print the outcome."""
    name, n_rounds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    storage._NOTE_SECONDS = (
        storage.LOCK_SECONDS
    )  # expected here, because one writer waits for the other
    np.seterr(all="ignore")
    said = os.dup(1)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    result = {"kills": kills, "writers": writers}[name](Shop(folder), n_rounds)
    os.write(said, (json.dumps({"fault": name, **result}) + "\n").encode())


if __name__ == "__main__":
    main()
