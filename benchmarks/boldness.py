"""Regret of users with tastes by how boldly they try actions: shares of a posterior's deviation.

    python benchmarks/boldness.py --seed 0

Chose ``BOLDNESS`` in unswayed.learners.players; 500 users with 500 interactions each,
S = A = 5, 10% colluders who push.
"""

from __future__ import annotations

import argparse

from unswayed.learners import players
from unswayed.simulation.settings import PAPER_GAP, Settings
from unswayed.simulation.simulate import Goal, run_repetition

SHARES = (0.0, 0.25, 0.5)
SIZES = (PAPER_GAP, 2 * PAPER_GAP)
ALGORITHM = "epochs-personal"


def regret(share: float, size: float, seed: int) -> float:
    """Return a good user's mean regret with draws of this share and tastes of this size."""
    settings = Settings(
        contexts=5,
        actions=5,
        users=500,
        interactions=500,
        alpha=0.1,
        attack="push",
        algorithms=(ALGORITHM,),
        perturbation=size,
        seed=seed,
    )
    usual = players.BOLDNESS
    players.BOLDNESS = share
    try:
        return run_repetition(settings, ALGORITHM, 0, Goal.REGRET).loss
    finally:
        players.BOLDNESS = usual


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    for size in SIZES:
        found = ", ".join(f"{share:g}: {regret(share, size, seed):.1f}" for share in SHARES)
        print(f"tastes of {size:g}, regret by share: {found}", flush=True)


if __name__ == "__main__":
    main()
