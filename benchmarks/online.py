"""Measure the relative cost of the lock and the decision ids of an online learner.

One round is a decision and its reward. Run ``python benchmarks/online.py`` for a line per variant,
with ``--json`` for JSON. Variants alternate; each ratio is a median over the repetitions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from unswayed import RobustMCB

CONTEXTS = ("home", "search", "checkout", "basket")


def learner(*, has_lock: bool = True) -> RobustMCB:
    """Return a learner with its lock or with a dummy lock."""
    made = RobustMCB(0.1, actions=list("abcde"), contexts=CONTEXTS, secret=bytes(16))
    if not has_lock:
        unlocked: Any = nullcontext()
        made._lock = unlocked
    return made


def play(made: RobustMCB, rounds: range) -> None:
    """Decide and observe, one by one."""
    for number in rounds:
        user, context = f"user-{number % 1_000}", CONTEXTS[number % 4]
        made.observe(user, context, made.decide(user, context), 1.0)


def play_in_threads(made: RobustMCB, rounds: range, n_threads: int = 8) -> None:
    """Decide and observe from several threads."""
    parts = [rounds[number::n_threads] for number in range(n_threads)]
    threads = [threading.Thread(target=play, args=(made, part)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


WAYS: dict[str, Callable[[range], None]] = {
    "without a lock": lambda rounds: play(learner(has_lock=False), rounds),
    "with the lock": lambda rounds: play(learner(), rounds),
    "eight threads": lambda rounds: play_in_threads(learner(), rounds),
}


def main() -> None:
    """Time the variants and print ratios to the first one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5_000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    play(learner(), range(100))  # compile
    for _ in range(arguments.turns):
        for name, way in WAYS.items():
            start = time.process_time()
            way(range(arguments.rounds))
            seconds[name].append(time.process_time() - start)
    base = seconds["without a lock"]
    results = [
        {
            "way": name,
            "ratio": round(statistics.median(t / b for t, b in zip(taken, base, strict=True)), 3),
            "microseconds a round": round(1e6 * statistics.median(taken) / arguments.rounds, 1),
        }
        for name, taken in seconds.items()
    ]
    if arguments.json:
        print(json.dumps(results))
        return
    for result in results:
        print(*(f"{key}: {value}" for key, value in result.items()), sep="   ")


if __name__ == "__main__":
    main()
