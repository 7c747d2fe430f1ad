"""Measure the loss as a function of the strength of a shift, with and without tastes.

Run ``python benchmarks/strength.py`` for lines, with ``--json`` for one JSON document.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from worlds import Spec, build

STRENGTHS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)
TASTES = {"none": 0.0, "rank two": 0.12}


def measure(tastes: str, strength: float, seeds: list[int]) -> dict[str, object]:
    """Return the mean losses of the plain mean and of ``bounded`` at one strength."""
    spec = Spec(
        name="strength",
        family="strength",
        n_users=3000,
        n_contexts=20,
        n_actions=5,
        plays=60,
        alpha=0.2,
        attack="shift",
        strength=strength,
        rewards="binary",
        design="mixed",
        gap=0.05,
        spread=0.15,
        tastes=tastes,
        taste_size=TASTES[tastes],
    )
    losses = []
    for seed in seeds:
        world = build(spec, seed)
        policies = world.naive(), world.decided(world.learn("bounded"))
        losses.append([world.suboptimality(actions) for actions in policies])
    pooled, bounded = np.mean(losses, axis=0).tolist()
    return {"tastes": tastes, "shift": strength, "plain mean": pooled, "bounded": bounded}


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for tastes in TASTES:
        for strength in STRENGTHS:
            rows.append(measure(tastes, strength, arguments.seeds))
            if not arguments.json:
                print("  ".join(f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
