"""Compare learners on production-like logs with the plain mean, with and without bots.

Scores are (best - policy) / (best - random) in honest traffic: 0 is best, 1 is random play. Run
``python benchmarks/production.py`` for a table, with ``--json`` for one JSON document, ``--only``
for logs whose name contains a string. ``--one-account`` shows instead how many decisions a single
liar changes. Constants were chosen without using ``--part holdout``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unswayed.arrays import IntArray
from unswayed.learners.methods import DEFAULT_METHOD, METHODS
from worlds import PARTS, World
from worlds.production import ProductionSpec, build_production, production_specs
from worlds.production.building import LIAR_SPECS, build_liar

PER_CELL, WITHOUT_BOTS = "plain mean", "without bots"
WORSE_THAN_PER_CELL = 0.02
MOST_HONEST_REMOVED = 0.02
NUMBERS_OF_LIES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Result:
    """One learner on one log; ``honest_removed`` is the mean weight that honest users lost."""

    score: float
    pushed_share: float
    honest_removed: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """Results of all learners on one log."""

    log: str
    seed: int
    is_attacked: bool
    n_events: int
    per_cell: float
    without_bots: float
    pushed_per_cell: float
    pushed_without_bots: float
    learned: dict[str, Result]


@dataclass(frozen=True, slots=True)
class LiarRow:
    """Result of one learner with one liar: the changed decisions, and those for the pushed item."""

    log: str
    seed: int
    learner: str
    n_lies: int
    n_decisions: int
    n_changed: int
    n_pushed: int


def learn(name: str, log: World) -> tuple[IntArray, float]:
    """Return a method's decisions, and the mean weight that honest users lost."""
    estimates = log.learn(name)
    removed = 1.0 - float(estimates.user_weights[~log.is_bad].mean())
    return log.decided(estimates), removed


def measure(spec: ProductionSpec, seed: int, learners: list[str]) -> Row:
    """Return the results of learners on one log."""
    log = build_production(spec, seed)
    naive, oracle = log.naive(), log.oracle()
    learned = {}
    for name in learners:
        start = time.perf_counter()
        actions, removed = learn(name, log)
        seconds = time.perf_counter() - start
        learned[name] = Result(log.score(actions), log.pushed_share(actions), removed, seconds)
    return Row(
        log=spec.name,
        seed=seed,
        is_attacked=spec.attack != "none",
        n_events=len(log.users),
        per_cell=log.score(naive),
        without_bots=log.score(oracle),
        pushed_per_cell=log.pushed_share(naive),
        pushed_without_bots=log.pushed_share(oracle),
        learned=learned,
    )


def summary(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """Return means and worst cases of each column: the plain mean, learners, without bots.

    The excess is the score minus that of the plain mean without bots, in attacked logs.
    """
    if not rows:
        return {}
    columns = {PER_CELL: _column(rows, lambda row: Result(row.per_cell, row.pushed_per_cell, 0, 0))}
    for name in rows[0].learned:
        columns[name] = _column(rows, lambda row, name=name: row.learned[name])  # type: ignore[misc]
    columns[WITHOUT_BOTS] = _column(
        rows, lambda row: Result(row.without_bots, row.pushed_without_bots, 0, 0)
    )
    return columns


def _column(rows: list[Row], of: Callable[[Row], Result]) -> dict[str, Any]:
    peaceful = [row for row in rows if not row.is_attacked]
    attacked = [row for row in rows if row.is_attacked]
    summary: dict[str, Any] = {}
    if peaceful:
        worse = np.array([of(row).score - row.per_cell for row in peaceful])
        removed = np.array([of(row).honest_removed for row in peaceful])
        summary |= {
            "peaceful logs": len(peaceful),
            "peace": float(np.mean([of(row).score for row in peaceful])),
            "worse than the plain mean": int((worse > WORSE_THAN_PER_CELL).sum()),
            "worst in peace": float(worse.max()),
            "worst peaceful log": peaceful[int(worse.argmax())].log,
            "honest removed in peace": float(removed.mean()),
            "too much removed": int((removed > MOST_HONEST_REMOVED).sum()),
        }
    if attacked:
        excess = np.array([of(row).score - row.without_bots for row in attacked])
        pushed = np.array([of(row).pushed_share for row in attacked])
        summary |= {
            "attacked logs": len(attacked),
            "attacked": float(np.mean([of(row).score for row in attacked])),
            "excess": float(excess.mean()),
            "worst excess": float(excess.max()),
            "worst attacked log": attacked[int(excess.argmax())].log,
            "pushed": float(pushed.mean()),
            "most pushed": float(pushed.max()),
            "most pushed log": attacked[int(pushed.argmax())].log,
            "honest removed under attack": float(
                np.mean([of(row).honest_removed for row in attacked])
            ),
        }
    return summary | {"seconds": float(np.mean([of(row).seconds for row in rows]))}


def measure_liar(seeds: list[int], learners: list[str]) -> list[LiarRow]:
    """Return how many decisions one liar changes, by the number of lies."""
    deciders: dict[str, Callable[[World], IntArray]] = {
        PER_CELL: World.naive,
        **{name: lambda log, name=name: learn(name, log)[0] for name in learners},  # type: ignore[misc]
    }
    rows = []
    for spec in LIAR_SPECS:
        for seed in seeds:
            peace = build_liar(spec, 0, seed)
            before = {name: decide(peace) for name, decide in deciders.items()}
            for n_lies in NUMBERS_OF_LIES:
                log = build_liar(spec, n_lies, seed)
                for name, decide in deciders.items():
                    after = decide(log)
                    is_changed = after != before[name]
                    rows.append(
                        LiarRow(
                            log=spec.name,
                            seed=seed,
                            learner=name,
                            n_lies=n_lies,
                            n_decisions=len(after),
                            n_changed=int(is_changed.sum()),
                            n_pushed=int((is_changed & (after == log.targets)).sum()),
                        )
                    )
    return rows


def print_liar(rows: list[LiarRow]) -> None:
    """Print changed decisions by the number of lies, with a line for each log and learner."""
    print("decisions changed by one liar (of them to the pushed item), of all decisions")
    print(f"{'log':<38} {'learner':<14}" + "".join(f"{n:>13,}" for n in NUMBERS_OF_LIES))
    for log, learner in dict.fromkeys((row.log, row.learner) for row in rows):
        cells = []
        for n_lies in NUMBERS_OF_LIES:
            some = [r for r in rows if (r.log, r.learner, r.n_lies) == (log, learner, n_lies)]
            changed, pushed = sum(r.n_changed for r in some), sum(r.n_pushed for r in some)
            cells.append(f"{changed} ({pushed}) of {sum(r.n_decisions for r in some)}")
        print(f"{log:<38} {learner:<14}" + "".join(f"{cell:>13}" for cell in cells))


def print_row(row: Row) -> None:
    """Print the results on one log."""
    learned = "  ".join(
        f"{name} {r.score:.3f} (pushed {r.pushed_share:.2f}, honest removed "
        f"{r.honest_removed:.3f}, {r.seconds:.1f} s)"
        for name, r in row.learned.items()
    )
    print(
        f"{row.log:<96} {row.n_events:>8,}  {PER_CELL} {row.per_cell:.3f}  {learned}  "
        f"{WITHOUT_BOTS} {row.without_bots:.3f}",
        flush=True,
    )


def print_summary(columns: dict[str, dict[str, Any]]) -> None:
    """Print the summary of each column."""
    for name, summary in columns.items():
        print(f"\n{name}")
        for key, value in summary.items():
            print(
                f"  {key:<30} {value:.4f}" if isinstance(value, float) else f"  {key:<30} {value}"
            )


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="development")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--learners", nargs="*", choices=list(METHODS), default=[DEFAULT_METHOD])
    parser.add_argument("--only", default="", help="logs whose name contains this")
    parser.add_argument("--one-account", action="store_true", help="what a single liar can do")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.one_account:
        liar_rows = measure_liar(arguments.seeds, arguments.learners)
        if arguments.json:
            print(json.dumps([asdict(row) for row in liar_rows], indent=1))
        else:
            print_liar(liar_rows)
        return
    chosen = [spec for spec in production_specs(arguments.part) if arguments.only in spec.name]
    if not chosen:
        parser.error(f"no log of the part {arguments.part} has {arguments.only!r} in its name.")
    rows = []
    for spec in chosen:
        for seed in arguments.seeds:
            rows.append(measure(spec, seed, arguments.learners))
            if not arguments.json:
                print_row(rows[-1])
    if arguments.json:
        document = {"summary": summary(rows), "rows": [asdict(row) for row in rows]}
        print(json.dumps(document, indent=1))
        return
    print_summary(summary(rows))


if __name__ == "__main__":
    main()
