"""Off-policy evaluation under attack: bias, sign and coverage of the uplift, beside an oracle.

2,000 users with 30 plays each, 10 contexts, 5 actions (``worlds/evaluations.py``):
clicks from frequent to rare, normal, skewed and starred rewards, tastes, heavy-tailed activity, and
logged propensities. A share of the users lies: ``push`` and ``nuke`` about one item, which the
policy plays; ``swap`` about the best and the second best item of each context, and ``quiet`` the
same in a part of the rewards; the policy plays the best or the second. ``none`` has no attack. Run
``python benchmarks/evaluate.py`` for a table, with ``--json`` for one JSON document. Constants were
chosen with the seeds of the part development.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass

import numpy as np

from unswayed.evaluation import Evaluation, evaluate_events
from worlds.evaluations import (
    ATTACKS,
    KINDS,
    N_ACTIONS,
    N_CONTEXTS,
    Kind,
    Log,
    build_log,
)

HEAD = ("uplift", "naive", "robust", "rms", "worst", "oracle", "covers", "sign", "width")
PARTS = {"development": 0, "validation": 10_000, "holdout": 20_000}


@dataclass(frozen=True, slots=True)
class Row:
    """One log: errors of the uplift by DR, and whether intervals hold."""

    kind: str
    attack: str
    policy: str
    alpha: float
    seed: int
    uplift: float
    naive: float
    robust: float
    oracle: float
    is_covered: bool
    is_covered_naively: bool
    has_right_sign: bool
    width: float
    width_naive: float
    weight_kept: float
    found_by: str
    seconds: float


def measure(kind: Kind, attack: str, plays: str, alpha: float, seed: int) -> Row:
    """Return how an evaluation did on one log."""
    log = build_log(kind, attack, plays, alpha, seed)
    start = time.perf_counter()
    found = evaluate_events(log.events, log.policy(), stated=alpha)
    seconds = time.perf_counter() - start
    naive, robust = _dr(found, robust=False), _dr(found, robust=True)
    return Row(
        kind=kind.name,
        attack=attack,
        policy=plays,
        alpha=alpha,
        seed=seed,
        uplift=log.uplift,
        naive=naive[0] - log.uplift,
        robust=robust[0] - log.uplift,
        oracle=_oracle(log) - log.uplift,
        is_covered=robust[1] <= log.uplift <= robust[2],
        is_covered_naively=naive[1] <= log.uplift <= naive[2],
        has_right_sign=(robust[0] > 0) == (log.uplift > 0) or robust[1] <= 0.0 <= robust[2],
        width=robust[2] - robust[1],
        width_naive=naive[2] - naive[1],
        weight_kept=found.weight_kept,
        found_by=found.found_by,
        seconds=seconds,
    )


def _dr(found: Evaluation, *, robust: bool) -> tuple[float, float, float]:
    (one,) = [e for e in found.estimates if e.robust == robust and e.estimator == "dr"]
    return one.uplift.estimate, one.uplift.low, one.uplift.high


def _oracle(log: Log) -> float:
    """Return the uplift by the means of honest users."""
    honest = ~log.is_bad[log.events.users]
    contexts, rewards = log.events.contexts[honest], log.events.rewards[honest]
    cells = contexts * N_ACTIONS + log.events.actions[honest]
    n_cells = N_CONTEXTS * N_ACTIONS
    n = np.maximum(np.bincount(cells, minlength=n_cells), 1)
    means = (np.bincount(cells, rewards, n_cells) / n).reshape(N_CONTEXTS, N_ACTIONS)
    shares = np.bincount(contexts, minlength=N_CONTEXTS) / len(contexts)
    return float(shares @ means[np.arange(N_CONTEXTS), log.choices] - rewards.mean())


def print_rows(rows: list[Row]) -> None:
    """Print means over the seeds of one kind and attack."""
    errors = np.array([row.robust for row in rows])
    mean = {
        name: float(np.mean([getattr(row, name) for row in rows]))
        for name in ("uplift", "naive", "oracle", "is_covered", "has_right_sign", "width")
    }
    numbers = (
        mean["uplift"],
        mean["naive"],
        errors.mean(),
        np.sqrt((errors**2).mean()),
        np.abs(errors).max(),
        mean["oracle"],
        mean["is_covered"],
        mean["has_right_sign"],
        mean["width"],
    )
    direct = np.mean([row.found_by != "the learner" for row in rows])
    print(
        f"{rows[0].kind:<13} {rows[0].attack + ' ' + rows[0].policy:<14} {len(rows):>4}",
        *(f"{number:>7.4f}" for number in numbers),
        f"{direct:.2f}",
        flush=True,
    )


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), default="development")
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--alpha", type=float, default=0.2)
    parser.add_argument("--kinds", nargs="+", default=[kind.name for kind in KINDS])
    parser.add_argument("--attacks", nargs="+", default=[name for name, _ in ATTACKS])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[Row] = []
    if not arguments.json:
        print(f"{'kind':<13} {'attack':<14} {'logs':>4}", *(f"{name:>7}" for name in HEAD), "found")
    for kind in (kind for kind in KINDS if kind.name in arguments.kinds):
        for attack, plays in ATTACKS:
            if attack in arguments.attacks:
                first = PARTS[arguments.part]
                seeds = range(first, first + arguments.logs)
                some = [measure(kind, attack, plays, arguments.alpha, seed) for seed in seeds]
                rows += some
                if not arguments.json:
                    print_rows(some)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
