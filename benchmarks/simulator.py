"""Measure the cost of every algorithm in the arena, at the size of the paper's Figure 2(d).

Run ``python benchmarks/simulator.py`` for a table, with ``--json`` for one JSON document. Cost is
CPU time for one repetition, as a ratio to the plainest algorithm in the same run, and per
arrival. The last line is the time for 20 repetitions of all algorithms on two cores.
"""

from __future__ import annotations

import argparse
import time

from unswayed.reports.tables import print_json, print_table
from unswayed.simulation.algorithms import algorithms
from unswayed.simulation.simulate import Settings, simulate
from unswayed.visible import Cell

N_USERS, N_INTERACTIONS = 500, 500
REFERENCE = "naive-mean"
REPETITIONS = 20
CORES = 2


def cpu_seconds(algorithm: str, *, repetitions: int) -> float:
    """Return the CPU time of one repetition, after compilation."""
    for n in (1, repetitions):
        settings = Settings(
            contexts=2,
            actions=5,
            users=N_USERS,
            interactions=N_INTERACTIONS,
            alpha=0.2,
            attack="push",
            algorithms=(algorithm,),
            repetitions=n,
        )
        start = time.process_time()
        simulate(settings, processes=1)
        seconds = (time.process_time() - start) / n
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = {name: cpu_seconds(name, repetitions=options.repetitions) for name in algorithms()}
    n_arrivals = N_USERS * N_INTERACTIONS
    projected = sum(seconds.values()) * REPETITIONS / CORES
    rows: list[dict[str, Cell]] = [
        {
            "algorithm": name,
            "ratio": value / seconds[REFERENCE],
            "seconds": value,
            "nanoseconds_per_arrival": 1e9 * value / n_arrivals,
        }
        for name, value in seconds.items()
    ]
    if options.json:
        print_json({"results": rows, "all_20_repetitions_seconds": projected})
        return
    print_table(
        f"One repetition of {n_arrivals:,} arrivals",
        ["algorithm", f"x {REFERENCE}", "CPU seconds", "ns per arrival"],
        [list(row.values()) for row in rows],
        note=f"All of them, {REPETITIONS} repetitions on {CORES} cores: {projected:.0f} s "
        "(target: 120 s).",
    )


if __name__ == "__main__":
    main()
