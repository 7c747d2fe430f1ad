"""Learners x worlds x seeds: how far each learner's decisions are from the best, under attack.

Run ``python benchmarks/accuracy.py`` for tables, with ``--json`` for one JSON document, ``--quick``
for every third world. Only ``--part holdout`` was never looked at while constants were chosen.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from unswayed.learners.design import design_of_log
from unswayed.learners.methods import METHODS
from worlds import PARTS, Spec, World, build, specs
from worlds.world import IntArray

QUICK_STEP = 3
WORSE_THAN_NAIVE = 0.005
Learn = Callable[[World, float], IntArray]


@dataclass(frozen=True, slots=True)
class Row:
    """One learner in one world."""

    family: str
    world: str
    seed: int
    learner: str
    suboptimality: float
    naive: float
    oracle: float
    seconds: float


def _by_method(name: str) -> Learn:
    def learn(world: World, alpha: float) -> IntArray:
        design = design_of_log(world.tallies, "auto")
        estimates = METHODS[name](world.tallies, design, adversarial_fraction=alpha)
        known = np.where(np.isnan(estimates.mean_rewards), -np.inf, estimates.mean_rewards)
        best: IntArray = known.argmax(axis=1)
        return best

    return learn


def measure(spec: Spec, seed: int, learners: list[str], misstated: float) -> list[Row]:
    """Return how each learner did in one world; ``misstated`` multiplies the stated share."""
    world = build(spec, seed)
    naive, oracle = world.suboptimality(world.naive()), world.suboptimality(world.oracle())
    rows = []
    for name in learners:
        start = time.perf_counter()
        alpha = min(misstated * world.adversarial_fraction, 0.49)
        loss = world.suboptimality(_by_method(name)(world, alpha))
        seconds = time.perf_counter() - start
        rows.append(Row(spec.family, spec.name, seed, name, loss, naive, oracle, seconds))
    return rows


def summary(rows: list[Row]) -> list[dict[str, object]]:
    """Return the means and worst cases by family and learner."""
    told: list[dict[str, object]] = []
    for family in dict.fromkeys(row.family for row in rows):
        ours = [row for row in rows if row.family == family]
        for learner in dict.fromkeys(row.learner for row in ours):
            some = [row for row in ours if row.learner == learner]
            losses = np.array([row.suboptimality for row in some])
            naive = np.array([row.naive for row in some])
            told.append(
                {
                    "family": family,
                    "learner": learner,
                    "worlds": len(some),
                    "mean": float(losses.mean()),
                    "naive": float(naive.mean()),
                    "oracle": float(np.mean([row.oracle for row in some])),
                    "worst": float(losses.max()),
                    "worst world": some[int(losses.argmax())].world,
                    "worse than naive": int((losses > naive + WORSE_THAN_NAIVE).sum()),
                    "seconds": float(np.mean([row.seconds for row in some])),
                }
            )
    return told


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every third world")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", choices=PARTS, default="holdout")
    parser.add_argument("--family", choices=("loud", "hidden", "rated"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--learners", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--misstated", type=float, default=1.0, help="factor on the stated share")
    arguments = parser.parse_args()
    chosen = [s for s in specs(arguments.part) if arguments.family in (None, s.family)]
    if arguments.quick:
        chosen = chosen[::QUICK_STEP]
    rows: list[Row] = []
    for spec in chosen:
        for seed in arguments.seeds:
            rows += measure(spec, seed, arguments.learners, arguments.misstated)
            if not arguments.json:
                for row in rows[-len(arguments.learners) :]:
                    print(
                        f"{row.world:<64} {row.learner:<9} {row.suboptimality:.4f} "
                        f"naive {row.naive:.4f} oracle {row.oracle:.4f} {row.seconds:5.1f} s",
                        flush=True,
                    )
    if arguments.json:
        document = {"summary": summary(rows), "rows": [asdict(row) for row in rows]}
        print(json.dumps(document, indent=1))
        return
    for line in summary(rows):
        print(
            "  ".join(
                f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in line.items()
            )
        )


if __name__ == "__main__":
    main()
