"""Sensitivity of the default learner to its constants: scores with smaller and larger values.

Run ``python benchmarks/constants.py`` for a table of all constants on wild logs of the development
part, ``--every 4`` for a quarter of the kinds, ``--only CLEAR,PRICE`` for some constants, and
``--json FILE`` to keep the rows. Numerical constants (grids, bins, steps of iterations) are not
varied: they change precision, not decisions.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import wild
from unswayed.learners.bounded import coalition, honest, means, method, rewards
from unswayed.learners.methods import DEFAULT_METHOD
from worlds.wild import KINDS

MODULES = (rewards, means, honest, coalition, method)

VALUES: dict[str, tuple[Any, Any]] = {
    "SAMPLE_ENTRIES": (50_000, 800_000),
    "LEAST_ATOM": (0.003, 0.03),
    "LONGEST_SCALE": (5.0, 80.0),
    "DOMINANT": (0.3, 0.8),
    "TAIL_QUANTILES": ((0.3, 0.6), (0.5, 0.8)),
    "TAIL_EDGE": (1.8, 3.5),
    "MOST_INFLUENCE": (2.0, 6.0),
    "EXACT": (0.05, 0.6),
    "CONTEXT_PLAYS": (20.0, 500.0),
    "PRIOR_SIZE": (8.0, 120.0),
    "LENIENCE": (1.0, 4.0),
    "LAW_PLAYS": (3.0, 30.0),
    "LEAST_CORRELATION": (0.01, 0.15),
    "PRICE": (0.75, 3.0),
    "LEVEL_STARTS": ((0.0, 0.7, -0.7), (0.0, 2.5, -2.5)),
    "N_DIRECTIONS": (1, 4),
    "USUAL_TASTE": (0.1, 1.0),
    "N_FINALISTS": (1, 4),
    "MOST_NATS": (2.5, 10.0),
    "THRESHOLD": (1.5, 3.0),
    "FEWEST": (5, 80),
    "ALIKE": (0.75, 0.97),
    "SEARCH_ENTRIES": (20_000, 180_000),
    "CLEAR": (35.0, 75.0),
    "SUSPECTED": (0.2, 0.6),
    "HALVED": (0.2, 0.8),
    "QUIET": (0.0, 0.3),
    "LOUD": (1.0, 4.0),
    "MORE": (0.0, 0.2),
    "MARGIN": (0.6, 2.0),
    "MOST_ROUNDS": (2, 16),
}
"""A smaller and a larger value of each constant."""


@dataclass(frozen=True, slots=True)
class Row:
    """Mean scores with one value of one constant, and that of the worst log without an attack."""

    constant: str
    value: str
    attacked: float
    peace: float
    worst_in_peace: float
    honest_lost_weight: int


def measure(constant: str, value: str, every: int, seeds: list[int]) -> Row:
    """Return the results of the default learner with the current constants."""
    kinds = KINDS[:: max(every, 1)]
    rows = [
        wild.measure(kind, "development", seed, [DEFAULT_METHOD])
        for seed in seeds
        for kind in kinds
    ]
    found = wild.summary(rows)[DEFAULT_METHOD]
    return Row(
        constant,
        value,
        found["attacked"],
        found["peace"],
        found["worst in peace"],
        found["honest lost weight in peace"],
    )


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="one kind of log of so many")
    parser.add_argument("--seed", default="1", help="one seed or several, with commas")
    parser.add_argument("--only", default="", help="constants, with commas")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seed.split(",")]
    chosen = {name for name in arguments.only.split(",") if name}
    rows = []

    def add(constant: str, value: str) -> None:
        row = measure(constant, value, arguments.every, seeds)
        rows.append(row)
        print(
            f"{row.constant:<22}{row.value:<16}{row.attacked:>9.3f}{row.peace:>9.3f}"
            f"{row.worst_in_peace:>9.3f}{row.honest_lost_weight:>6}",
            flush=True,
        )

    print(f"{'constant':<22}{'value':<16}{'attacked':>9}{'peace':>9}{'worst':>9}{'lost':>6}")
    add("as they are", "")
    for name, values in VALUES.items():
        if chosen and name not in chosen:
            continue
        modules = [module for module in MODULES if hasattr(module, name)]
        usual = getattr(modules[0], name)
        for value in (*values, usual):
            for module in modules:
                setattr(module, name, value)
            if value != usual:
                add(name, f"{usual} -> {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
