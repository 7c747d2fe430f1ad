"""Off-policy evaluation under attack: bias, coverage and width of the uplift, and of an oracle's.

Logs have 2,000 users with 30 plays each, 10 contexts and 5 actions, or fewer with ``--size small``
(``worlds/evaluations.py``). A share of the users lies: ``push`` and ``nuke`` lie about the item
that the policy plays, ``swap`` about the best and the second best item of each context, and
``quiet`` likewise in a part of the rewards; the policy plays either in turn. In ``none``, nobody
lies. ``--curse`` evaluates a policy that was learned from the log: on that log, on it as if it were
another one, and on the log of the next day.

Run ``python benchmarks/evaluate.py`` for a table, with ``--json`` for one JSON document. With
``--rows FILE`` each log is kept as a line of JSON, an interrupted run continues, and ``--logs 0``
prints what there is. Constants were chosen with the seeds of the part development.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from unswayed import RobustMCB
from unswayed.evaluation import evaluate_policy, evaluating
from unswayed.learners.bounded.method import find_coalitions
from unswayed.policy import Policy
from unswayed.tallies import UserTallies
from worlds.evaluations import (
    ATTACKS,
    KINDS,
    SIZES,
    Kind,
    Log,
    Size,
    build_log,
)

PARTS = {"development": 0, "validation": 10_000, "holdout": 20_000}
COVERAGE, FAMILY_LEVEL = 0.95, 0.05
"""Stated coverage, and the probability that any setting fails by chance."""


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluation: errors of the uplift by DR, and whether intervals hold."""

    kind: str
    attack: str
    policy: str
    alpha: float
    stated: str
    seed: int
    uplift: float
    naive: float
    robust: float
    is_covered: bool
    is_covered_naively: bool
    is_covered_by_oracle: bool
    width: float
    width_naive: float
    width_oracle: float
    share: float
    seconds: float

    @property
    def setting(self) -> tuple[str, ...]:
        """What is counted together."""
        return self.kind, self.attack, f"{self.alpha:g}", self.stated


def remembered(search: Callable[..., Any]) -> Callable[..., Any]:
    """Return a search for coalitions that remembers what it found last.

    Evaluations of one log, with alpha given and not, share it.
    """
    found: dict[Any, Any] = {}

    def searched(tallies: UserTallies, *others: Any, **options: Any) -> Any:
        key = (tallies.cell_sums("sums").tobytes(), others, *sorted(options.items()))
        if key not in found:
            while len(found) > 4:
                del found[next(iter(found))]
            found[key] = search(tallies, *others, **options)
        return found[key]

    return searched


def rows_of(kind: Kind, attack: str, alpha: float, seed: int, size: Size) -> Iterator[Row]:
    """Evaluate a policy on one log, with alpha stated and not."""
    plays = ATTACKS[attack][seed % len(ATTACKS[attack])]
    log = build_log(kind, attack, plays, alpha, seed, size=size)
    for stated in (f"{alpha:g}", "auto"):
        yield row_of(log, log.policy(), log.uplift, (kind.name, attack, plays), alpha, stated, seed)


def curse_rows(kind: Kind, attack: str, alpha: float, seed: int, size: Size) -> Iterator[Row]:
    """Evaluate a learned policy on its own log, as if it were another one, and on the next day."""
    plays = ATTACKS[attack][0]
    log, next_day = (
        build_log(kind, attack, plays, alpha, seed, day=day, size=size) for day in (0, 1)
    )
    policy = RobustMCB(alpha=alpha).fit(log.events).policy()
    uplift = log.uplift_of(policy.actions)
    from_another = replace(policy, source=log.policy().source)
    for name, judged, evaluated in (
        ("same log", log, policy),
        ("as it is", log, from_another),
        ("next day", next_day, from_another),
    ):
        names = kind.name, f"{attack}, {name}", plays
        yield row_of(judged, evaluated, uplift, names, alpha, f"{alpha:g}", seed)


def row_of(
    log: Log,
    policy: Policy,
    uplift: float,
    names: tuple[str, str, str],
    alpha: float,
    stated: str,
    seed: int,
) -> Row:
    """Return how an evaluation did on one log."""
    start = time.perf_counter()
    found = evaluate_policy(log.events, policy, alpha="auto" if stated == "auto" else float(stated))
    seconds = time.perf_counter() - start
    naive, robust = found.naive.uplift, found.honest.uplift
    guess, half = _oracle(log, policy)
    return Row(
        *names,
        alpha=alpha,
        stated="auto" if stated == "auto" else "given",
        seed=seed,
        uplift=uplift,
        naive=naive.estimate - uplift,
        robust=robust.estimate - uplift,
        is_covered=robust.low <= uplift <= robust.high,
        is_covered_naively=naive.low <= uplift <= naive.high,
        is_covered_by_oracle=abs(guess - uplift) <= half,
        width=robust.high - robust.low,
        width_naive=naive.high - naive.low,
        width_oracle=2.0 * half,
        share=found.share,
        seconds=seconds,
    )


def _oracle(log: Log, policy: Policy) -> tuple[float, float]:
    """Return the uplift by DR from honest users only, and half of its 95 % interval."""
    honest = ~log.is_bad[log.events.users]
    users, s, a = (
        column[honest] for column in (log.events.users, log.events.contexts, log.events.actions)
    )
    rewards, chosen = log.events.rewards[honest], policy.actions[s]
    shape, n_cells = log.means.shape, log.means.size
    cells = s * shape[1] + a
    n = np.maximum(np.bincount(cells, minlength=n_cells), 1)
    means = (np.bincount(cells, rewards, n_cells) / n).reshape(shape)
    ratios = (a == chosen) / log.logging[s, a]
    gains = means[s, chosen] - means[s, a] + (ratios - 1.0) * (rewards - means[s, a])
    by_user, visits = np.bincount(users, gains), np.bincount(users)
    influences = by_user - gains.mean() * visits
    return float(gains.mean()), float(1.96 * np.sqrt((influences**2).sum()) / len(users))


def measured(
    measure: Callable[[Kind, str, float, int, Size], Iterator[Row]],
    settings: list[tuple[Kind, str, float]],
    seeds: range,
    size: Size,
    file: Path | None,
) -> list[Row]:
    """Return the rows of all settings, seed by seed; those in the file are not measured again."""
    known = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
    found = {
        json.dumps(task): rows
        for task, rows in map(json.loads, known)
        if (task[0], task[-1]) == (measure.__name__, list(size))
    }
    for seed in seeds:
        for kind, attack, alpha in settings:
            task = [measure.__name__, kind.name, attack, alpha, seed, list(size)]
            if json.dumps(task) in found:
                continue
            rows = [asdict(row) for row in measure(kind, attack, alpha, seed, size)]
            found[json.dumps(task)] = rows
            if file:
                with file.open("a", encoding="utf-8") as lines:
                    print(json.dumps([task, rows]), file=lines)
    return [Row(**row) for rows in found.values() for row in rows]


def fewest_covered(n_logs: int, n_settings: int) -> int:
    """Return how many intervals hold at least, in all settings together, if they are valid."""
    counts = np.arange(n_logs + 1)
    is_rare = special.bdtr(counts, n_logs, COVERAGE) <= FAMILY_LEVEL / n_settings
    return int(is_rare.sum())


def table_line(rows: list[Row], n_settings: int) -> str:
    """Return what intervals of one setting did, as a line of a table."""
    bound = fewest_covered(len(rows), n_settings)
    held = {
        name: sum(getattr(row, f"is_covered{name}") for row in rows)
        for name in ("", "_naively", "_by_oracle")
    }
    width, naive, oracle = (
        float(np.median([getattr(row, name) for row in rows]))
        for name in ("width", "width_naive", "width_oracle")
    )
    errors = [np.mean([getattr(row, name) for row in rows]) for name in ("naive", "robust")]
    return (
        f"{rows[0].kind:<15} {rows[0].attack:<15} {rows[0].alpha:<5g} {rows[0].stated:<6}"
        f"{held['']:>5}/{len(rows):<4} {bound:>5} {held['_naively']:>5} {held['_by_oracle']:>6}"
        f" {width:>7.4f} {naive:>7.4f} {oracle:>7.4f} {width / oracle:>5.1f}"
        f" {errors[0]:>7.4f} {errors[1]:>7.4f} {np.mean([row.seconds for row in rows]):>5.2f}"
        f"{'  SHORT' if held[''] < bound else ''}"
    )


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), default="development")
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--size", choices=list(SIZES), default="usual")
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.1, 0.2])
    parser.add_argument("--kinds", nargs="+", default=[kind.name for kind in KINDS[:6]])
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS))
    parser.add_argument("--curse", action="store_true")
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    settings = [
        (kind, attack, alpha)
        for kind in KINDS
        if kind.name in arguments.kinds
        for attack in arguments.attacks
        for alpha in arguments.alpha
    ]
    vars(evaluating).update(find_coalitions=remembered(find_coalitions))
    measure = curse_rows if arguments.curse else rows_of
    seeds = range(PARTS[arguments.part], PARTS[arguments.part] + arguments.logs)
    rows = measured(measure, settings, seeds, SIZES[arguments.size], arguments.rows)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print(
        "                                             intervals that hold           median width"
        "           mean error\n"
        "kind            attack          alpha stated    of  least naive oracle   width   naive"
        "  oracle ratio   naive  robust  secs"
    )
    names = list(dict.fromkeys(row.setting for row in rows))
    for name in names:
        print(table_line([row for row in rows if row.setting == name], len(names)))


if __name__ == "__main__":
    main()
