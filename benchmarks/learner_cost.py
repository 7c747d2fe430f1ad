"""Measure the cost of learning in passes over the data.

One pass is one fused X·v and Xᵀ·u over the same rows, timed in the same run. Run
``python benchmarks/learner_cost.py`` for a line per learner, with ``--json`` for JSON.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from unswayed.estimators.rows import gram_vector
from unswayed.learners.design import uniform_design
from unswayed.learners.methods import METHODS
from unswayed.randomness import generator
from unswayed.tallies import Tallies

N_CONTEXTS, N_ACTIONS = 2000, 10
PER_ROW = 40
ALPHA = 0.2
TARGET_PASSES = 400


def attacked_tallies(n_users: int) -> Tallies:
    """Return rows of distinct cells, one play each, with a fifth of the users pushing."""
    rng = generator(0, "learner cost")
    n_cells = N_CONTEXTS * N_ACTIONS
    # Take one cell from each of PER_ROW strata, so that cells are distinct and sorted.
    width = n_cells // PER_ROW
    cells = rng.integers(width, size=(n_users, PER_ROW)) + width * np.arange(PER_ROW)
    means = 0.3 + 0.3 * rng.random(n_cells)
    rewards = (rng.random(cells.shape) < means[cells]).astype(float)
    is_target = cells % N_ACTIONS == 0
    is_bad = np.arange(n_users) < ALPHA * n_users
    rewards[is_bad[:, None] & is_target] = 1.0
    flat = rewards.ravel()
    return Tallies(
        N_CONTEXTS,
        N_ACTIONS,
        PER_ROW * np.arange(n_users + 1, dtype=np.int64),
        cells.ravel().astype(np.int32),
        np.ones(flat.size),
        flat,
        flat,
    )


def main() -> None:
    """Time one pass and each learner."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=500_000)
    parser.add_argument("--learners", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    small = attacked_tallies(3000)
    for name in arguments.learners:  # compile
        METHODS[name](small, uniform_design(small), alpha=ALPHA)
    tallies = attacked_tallies(arguments.users)
    ones = np.ones(tallies.n_users)
    ones_of_cells = np.ones(tallies.n_cells)
    passes = []
    for _ in range(5):
        start = time.perf_counter()
        gram_vector(tallies.sums, tallies.cells, tallies.indptr, ones, ones_of_cells, 0.0)
        passes.append(time.perf_counter() - start)
    one_pass = float(np.median(passes))
    results = []
    for name in arguments.learners:
        start = time.perf_counter()
        METHODS[name](tallies, uniform_design(tallies), alpha=ALPHA)
        seconds = time.perf_counter() - start
        results.append(
            {
                "learner": name,
                "users": arguments.users,
                "seconds": seconds,
                "pass_seconds": one_pass,
                "passes": seconds / one_pass,
                "target": TARGET_PASSES,
            }
        )
    if arguments.json:
        print(json.dumps(results, indent=1))
        return
    for result in results:
        print(
            "  ".join(
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in result.items()
            )
        )


if __name__ == "__main__":
    main()
