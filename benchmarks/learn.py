"""Time learning from a log, end to end, relative to reading the file.

Run ``python benchmarks/learn.py`` for a table, with ``--json`` for one JSON document. It makes a
log with string ids, Zipf contexts and colluders, and measures in one run:

- ``unswayed learn`` with each method in a separate process, relative to a plain ``pyarrow`` read of
  the same file in a process, for a quarter of the events and for all of them;
- one pass of Vowpal Wabbit over the same events, if ``--vw`` names a Python that has it;
- one filter iteration on two Dask workers relative to one in this process, and the driver's memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.engine import DaskWorkers
from unswayed.engine.workers import connected
from unswayed.estimators.rows import SparseRows
from unswayed.events import Columns, read_events
from unswayed.learners.methods import DEFAULT_METHOD, METHODS
from unswayed.learners.paper import reward_rows
from unswayed.randomness import generator
from unswayed.tallies import UserTallies, tally_events
from unswayed.tallies.cluster import tally_on_cluster

N_CONTEXTS, N_ACTIONS = 1_000, 20
COLLUDING = 0.1
EVENTS_PER_USER = 40
CHUNK = 1_000_000

RATIO_TARGET = 5.0
MEMORY_TARGET_MB = 3_000
LINEAR_TARGET = 1.2
VW_TARGET = 10.0
DASK_TARGET = 3.0
DRIVER_TARGET_MB = 500

READ = "import sys, pyarrow.parquet as p; p.read_table(sys.argv[1])"
DRIVER = """
import re, sys
from unswayed.learners.from_log import learn_on_cluster
if __name__ == "__main__":
    learn_on_cluster(sys.argv[1], alpha=0.15)
    # Not getrusage: its peak begins with that of the process that started this one.
    print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""
VW_PASS = """
import sys, vowpalwabbit
vowpalwabbit.Workspace(f"--cb_explore {sys.argv[2]} -d {sys.argv[1]} --quiet").finish()
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a process."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement and its target."""

    name: str
    value: float
    target: float

    @property
    def is_met(self) -> bool:
        """Whether the figure is within its target; Vowpal Wabbit's is a lower bound."""
        if self.name.startswith("vw"):
            return self.value >= self.target
        return self.value <= self.target


def make_log(path: Path, n_events: int, noise: float) -> None:
    """Write a log: Zipf contexts, uniform actions, colluders who push one.

    Rewards are binary, plus optional normal noise.
    """
    rng = generator(0, "benchmark", "log")
    n_users = n_events // EVENTS_PER_USER
    cumulative = np.cumsum(1 / np.arange(1, N_CONTEXTS + 1))
    cumulative /= cumulative[-1]
    users = pa.array([f"user-{code:08x}" for code in rng.permutation(n_users)])
    contexts = pa.array([f"context-{code:04d}" for code in range(N_CONTEXTS)])
    actions = pa.array([f"action-{code:02d}" for code in range(N_ACTIONS)])
    means = rng.random((N_CONTEXTS, N_ACTIONS))
    writer = None
    for start in range(0, n_events, CHUNK):
        n = min(CHUNK, n_events - start)
        user = rng.integers(n_users, size=n)
        context = np.searchsorted(cumulative, rng.random(n)).clip(0, N_CONTEXTS - 1)
        action = rng.integers(N_ACTIONS, size=n)
        honest = rng.random(n) < means[context, action]
        reward = np.where(user < COLLUDING * n_users, action == 0, honest).astype(np.float64)
        if noise > 0:
            reward += noise * rng.standard_normal(n)
        columns = (
            users.take(pa.array(user)),
            contexts.take(pa.array(context)),
            actions.take(pa.array(action)),
            pa.array(reward),
        )
        table = pa.table(dict(zip(("user", "context", "action", "reward"), columns, strict=True)))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def cost_of(*command: str | Path) -> Cost:
    """Run a process and return its cost; exit if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with code {process.returncode}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def cheapest(repetitions: int, *commands: tuple[str | Path, ...]) -> list[Cost]:
    """Return the fastest run of each command: the one that other work disturbed least.

    Commands alternate, so that other load affects all of them equally.
    """
    rounds = [[cost_of(*command) for command in commands] for _ in range(repetitions)]
    return [min(costs, key=lambda cost: cost.seconds) for costs in zip(*rounds, strict=True)]


def learn_command(log: Path, method: str, folder: Path) -> tuple[str | Path, ...]:
    """Return the command that learns from a log."""
    script = Path(sys.executable).with_name("unswayed")
    options = ("--alpha", "0.15", "--method", method, "--out", folder / "p.json")
    return (script, "learn", log, *options)


def vw_seconds_per_event(
    python: str, log: Path, folder: Path, n_events: int, repetitions: int
) -> float:
    """Return the seconds per event of one pass of Vowpal Wabbit, without writing its input."""
    table = pq.ParquetFile(log).iter_batches(n_events)
    rows = next(table).to_pydict()
    text = folder / "log.vw"
    with text.open("w") as file:
        for context, action, reward in zip(
            rows["context"], rows["action"], rows["reward"], strict=True
        ):
            chosen = int(action.removeprefix("action-")) + 1
            file.write(f"{chosen}:{-reward}:{1 / N_ACTIONS} | {context}\n")
    (cost,) = cheapest(repetitions, (python, "-c", VW_PASS, text, str(N_ACTIONS)))
    return cost.seconds / len(rows["reward"])


def dask_iteration_ratio(log: Path, repetitions: int) -> float:
    """Return the time of one iteration on two Dask workers relative to this process."""
    with connected(None) as client:
        there = tally_on_cluster(
            DaskWorkers(client),
            str(log),
            columns=Columns(),
            on_bad_rows="error",
            min_propensity=0.01,
        )
        seconds_there = _iteration_seconds(there.tallies, repetitions)
    here = tally_events(read_events(log).events).in_blocks().uniform()
    return seconds_there / _iteration_seconds(here, repetitions)


def _iteration_seconds(tallies: UserTallies, repetitions: int) -> float:
    """Return the time of one product with the covariance of the users' reward rows."""
    scales, is_rare = np.ones(tallies.n_contexts), np.ones(tallies.n_contexts, np.bool_)
    rows = tallies.rows(reward_rows, scales, is_rare)
    weights, centre = np.ones(rows.shape[0]), np.zeros(rows.n_columns)
    direction = np.ones((rows.n_columns, 1))

    def iterate() -> None:
        rows.total(SparseRows.gram, weights, centre, direction)

    return _fastest(iterate, repetitions * 5)


def _fastest(function: Callable[[], None], repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(arguments: argparse.Namespace, folder: Path) -> tuple[list[Result], dict[str, Cost]]:
    """Run everything."""
    costs: dict[str, Cost] = {}
    kind = f"-noise-{arguments.noise:g}" if arguments.noise else ""
    sizes = (arguments.events // 4, arguments.events)
    logs = {n: folder / f"{n}{kind}.parquet" for n in sizes}
    for n_events, log in logs.items():
        if not log.exists():
            make_log(log, n_events, arguments.noise)
        # Read twice; the second read reuses memory, which is its best case.
        read = (sys.executable, "-c", READ, log)
        learns = [learn_command(log, method, folder) for method in METHODS]
        first, second, *learned = cheapest(arguments.repetitions, read, read, *learns)
        costs[f"read {n_events:,}"] = min(first, second, key=lambda cost: cost.seconds)
        for method, cost in zip(METHODS, learned, strict=True):
            costs[f"learn {n_events:,} {method}"] = cost
    quarter, whole = (f"{n:,}" for n in logs)
    per_event = None
    if arguments.vw:
        n_passed = arguments.events // 10
        per_event = vw_seconds_per_event(
            arguments.vw, logs[arguments.events], folder, n_passed, arguments.repetitions
        )
    results = []
    for method in (DEFAULT_METHOD, *(name for name in METHODS if name != DEFAULT_METHOD)):
        small, large = (
            costs[f"learn {n} {method}"].seconds / costs[f"read {n}"].seconds
            for n in (quarter, whole)
        )
        cost = costs[f"learn {whole} {method}"]
        results += [
            Result(f"learn / plain read, {method}", large, RATIO_TARGET),
            Result(f"that ratio, all events / a quarter, {method}", large / small, LINEAR_TARGET),
            Result(f"peak memory of learn, MB, {method}", cost.peak_mb, MEMORY_TARGET_MB),
        ]
        if per_event is not None:
            ratio = per_event * arguments.events / cost.seconds
            results.append(Result(f"vw pass / learn, {method}", ratio, VW_TARGET))
    if arguments.dask:
        ratio = dask_iteration_ratio(logs[arguments.events], arguments.repetitions)
        results.append(Result("iteration on two Dask workers / here", ratio, DASK_TARGET))
        driver = subprocess.run(
            [sys.executable, "-c", DRIVER, logs[arguments.events]],
            check=True,
            capture_output=True,
            text=True,
        )
        peak = float(driver.stdout.split()[-1])
        results.append(Result("driver's peak memory with Dask, MB", peak, DRIVER_TARGET_MB))
    return results, costs


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument(
        "--noise", type=float, default=0.0, help="add noise, which makes rewards real numbers"
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="folder in which logs are kept and reused")
    parser.add_argument("--vw", help="a Python with vowpalwabbit")
    parser.add_argument("--no-dask", dest="dask", action="store_false")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results, costs = measure(arguments, folder)
    if arguments.json:
        document = {
            "events": arguments.events,
            "cores": os.cpu_count(),
            "results": [{**asdict(result), "is_met": result.is_met} for result in results],
            "costs": {name: asdict(cost) for name, cost in costs.items()},
        }
        print(json.dumps(document, indent=2))
        return
    for name, cost in costs.items():
        print(
            f"{name:40s} {cost.seconds:8.2f} s {cost.cpu_seconds:8.2f} s CPU {cost.peak_mb:8.0f} MB"
        )
    for result in results:
        verdict = "met" if result.is_met else "MISSED"
        print(f"{result.name:56s} {result.value:8.2f} target {result.target:8.2f} {verdict}")


if __name__ == "__main__":
    main()
