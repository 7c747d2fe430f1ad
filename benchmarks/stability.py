"""Share of the traffic whose decision changes if the same log is written differently.

Run ``python benchmarks/stability.py`` for a table, with ``--json`` for one JSON document. It learns
production logs again with one row in a hundred dropped, with rows shuffled, with users renamed and
with rewards on another scale. Only dropped rows change the data; their effect on the plain mean is
shown for comparison. All other columns should be 0.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from unswayed.arrays import IntArray
from unswayed.learners.methods import DEFAULT_METHOD, METHODS
from unswayed.randomness import generator
from worlds import PARTS, World
from worlds.production import build_production, production_specs

DROPPED = 0.01
SCALE, SHIFT = 7.3, 100.0

Change = Callable[[World, np.random.Generator], World]


@dataclass(frozen=True, slots=True)
class Row:
    """Shares of good users' traffic whose decision changed, in one log."""

    log: str
    dropped_per_cell: float
    dropped: float
    shuffled: float
    renamed: float
    rescaled: float


def _of_rows(world: World, rows: IntArray) -> World:
    propensities = world.propensities
    return replace(
        world,
        users=world.users[rows],
        contexts=world.contexts[rows],
        actions=world.actions[rows],
        rewards=world.rewards[rows],
        propensities=None if propensities is None else propensities[rows],
    )


def dropped(world: World, rng: np.random.Generator) -> World:
    """Return the log without one row in a hundred."""
    return _of_rows(world, np.flatnonzero(rng.random(len(world.users)) >= DROPPED))


def shuffled(world: World, rng: np.random.Generator) -> World:
    """Return the log in another order."""
    return _of_rows(world, rng.permutation(len(world.users)))


def renamed(world: World, rng: np.random.Generator) -> World:
    """Return the log with other codes of users."""
    codes = rng.permutation(world.n_users)
    return replace(world, users=codes[world.users], is_bad=world.is_bad[np.argsort(codes)])


def rescaled(world: World, rng: np.random.Generator) -> World:  # noqa: ARG001  # as the others
    """Return the log with rewards on another scale."""
    return replace(world, rewards=SCALE * world.rewards + SHIFT)


CHANGES: dict[str, Change] = {
    change.__name__: change for change in (dropped, shuffled, renamed, rescaled)
}


def decisions(world: World, method: str) -> IntArray:
    """Return what a method decides in each context."""
    return world.decided(world.learn(method))


def measure(name: str, world: World, seed: int, method: str) -> Row:
    """Return the share of the traffic whose decision changes after each modification."""
    nu, standing = world.context_probabilities, decisions(world, method)
    changed, per_cell = {}, 0.0
    for kind, change in CHANGES.items():
        other = change(world, generator(seed, "stability", kind))
        changed[kind] = float(nu @ (decisions(other, method) != standing))
        if change is dropped:
            per_cell = float(nu @ (other.naive() != world.naive()))
    return Row(name, per_cell, **changed)


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="development")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=4, help="take every so many logs")
    parser.add_argument("--method", choices=list(METHODS), default=DEFAULT_METHOD)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for spec in production_specs(arguments.part)[:: arguments.every]:
        world = build_production(spec, arguments.seed)
        rows.append(measure(spec.name, world, arguments.seed, arguments.method))
        if not arguments.json:
            print(_line(rows[-1]), flush=True)
    columns = [name for name in Row.__slots__ if name != "log"]
    means = {name: float(np.mean([getattr(row, name) for row in rows])) for name in columns}
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "means": means}, indent=2))
        return
    print(_line(Row("mean", **means)))


def _line(row: Row) -> str:
    return (
        f"{row.log:<96} dropped {row.dropped:.3f} (plain mean {row.dropped_per_cell:.3f}) "
        f"shuffled {row.shuffled:.3f} renamed {row.renamed:.3f} rescaled {row.rescaled:.3f}"
    )


if __name__ == "__main__":
    main()
