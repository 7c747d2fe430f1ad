"""Evaluate learners on logs like those of shops, feeds, review sites and A/B tests.

Scores are (best - policy) / (best - random) in honest traffic: 0 is best, 1 is random play. Run
``python benchmarks/wild.py --learners bounded,paper`` for a table, with ``--json FILE`` to keep
the rows, ``--only`` for kinds whose name contains a string. ``--few-accounts`` shows how many
honest plays get another action when a few accounts join a log, ``--ab`` the largest gap of an A/B
test at which colluders mislead a learner, and ``--cheapest`` the smallest number of accounts that
change half of the honest plays with any attack of a grid. Constants were chosen without using
``--part holdout``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unswayed.arrays import IntArray
from unswayed.learners.methods import DEFAULT_METHOD, METHODS, method_names
from worlds.wild import AB_ATTACKS, FEW_ATTACKS, KINDS, ab_test, build_wild, few_accounts, wild_spec
from worlds.wild.kinds import Kind
from worlds.wild.small import hidden_gap
from worlds.wild.specs import Family
from worlds.world import PARTS, Part, World

NAIVE, ORACLE = "naive", "without bots"
MOST_HONEST_REMOVED = 0.02
COSTLY = 0.05
"""An attack counts if it costs the plain mean at least this much."""
AS_NAIVE = 0.9
"""A learner resists an attack if it loses less than this share of the plain mean's loss."""
NUMBERS_OF_ACCOUNTS = (1, 3, 10, 30)
FEW_LOGS: tuple[tuple[Family, Literal["uniform", "epsilon-greedy"]], ...] = (
    ("clicks", "uniform"),
    ("clicks", "epsilon-greedy"),
    ("coin", "uniform"),
    ("baskets", "uniform"),
)
TRAFFIC = (0.01, 0.1)
COALITIONS = (1, 3, 6, 12, 24, 48, 96, 180, 300, 420, 600, 840, 1_200)
"""Numbers of colluders to try, in addition to 6,000 honest accounts with 20 events each."""
AIMS = ("push each", "half push", "swap", "sink")
STRENGTHS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
EVENTS_EACH = (20, 100, 500)
MOST_TRAFFIC = 0.4
TURNED = 0.5
"""An attack succeeds if it changes the action of this share of the honest plays."""
AB_ALPHAS = (0.05, 0.1, 0.2, 0.3)
AB_GAPS = (1.0, 1.25, 1.5, 2.0, 2.8)
"""Gaps of A/B tests, relative to the largest gap that no method can detect."""


@dataclass(frozen=True, slots=True)
class Result:
    """One learner on one log; ``honest_removed`` is the mean weight that honest users lost."""

    score: float
    pushed_share: float
    honest_removed: float
    bad_kept: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """Results of all learners on one log."""

    kind: str
    group: str
    tags: tuple[str, ...]
    part: str
    seed: int
    n_users: int
    n_events: int
    bad_share: float
    alpha: float
    results: dict[str, Result]


@dataclass(frozen=True, slots=True)
class FewRow:
    """Result of one learner: the share of honest plays whose action a few accounts change."""

    log: str
    attack: str
    traffic: float
    n_accounts: int
    seed: int
    learner: str
    changed: float
    seconds: float


@dataclass(frozen=True, slots=True)
class CheapRow:
    """Result of one attack on one learner with a given number of accounts."""

    logging: str
    learner: str
    attack: str
    strength: float
    events_each: int
    n_accounts: int
    changed: float


@dataclass(frozen=True, slots=True)
class AbRow:
    """Result of one learner on one A/B test."""

    alpha: float
    hidden_gap: float
    multiple: float
    attack: str
    seed: int
    learner: str
    is_wrong: bool


def learn(name: str, log: World) -> tuple[IntArray, Result]:
    """Return a learner's decisions and its result; its time excludes the tallies."""
    tallies = log.tallies
    assert tallies.n_users == log.n_users
    start = time.perf_counter()
    estimates = log.learn(name)
    seconds = time.perf_counter() - start
    actions = log.decided(estimates)
    kept = estimates.user_weights
    bad_kept = float(kept[log.is_bad].mean()) if log.is_bad.any() else 1.0
    removed = 1.0 - float(kept[~log.is_bad].mean())
    return actions, Result(
        log.score(actions), log.pushed_share(actions), removed, bad_kept, seconds
    )


def measure(kind: Kind, part: Part, seed: int, learners: list[str]) -> Row:
    """Return the results of learners on one log."""
    spec = wild_spec(kind, part, seed)
    log = build_wild(spec)
    naive, oracle = log.naive(), log.oracle()
    results = {NAIVE: Result(log.score(naive), log.pushed_share(naive), 0.0, 1.0, 0.0)}
    results |= {name: learn(name, log)[1] for name in learners}
    results[ORACLE] = Result(log.score(oracle), log.pushed_share(oracle), 0.0, 0.0, 0.0)
    return Row(
        kind=kind.name,
        group=kind.group,
        tags=kind.tags,
        part=part,
        seed=seed,
        n_users=log.n_users,
        n_events=len(log.users),
        bad_share=float(log.is_bad.mean()),
        alpha=spec.alpha,
        results=results,
    )


def summary(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """Return summary statistics of each learner, including the plain mean with and without bots."""
    return {name: _column(rows, name) for name in rows[0].results} if rows else {}


def _column(rows: list[Row], name: str) -> dict[str, Any]:
    def mean(group: str) -> float:
        return _mean(row.results[name].score for row in rows if row.group == group)

    found: dict[str, Any] = {g: mean(g) for g in ("attacked", "peace", "fans", "unaimed")}
    peace = [row for row in rows if row.group == "peace"]
    for group in ("peace", "fans", "unaimed"):
        some = [row for row in rows if row.group == group]
        worse = [(_loss(row, name) - _loss(row, NAIVE), row.kind) for row in some]
        if worse:
            found[f"worst in {group}"], found[f"worst kind in {group}"] = max(worse)
    found["honest lost weight in peace"] = sum(
        row.results[name].honest_removed > MOST_HONEST_REMOVED for row in peace
    )
    attacked = [row for row in rows if row.group == "attacked"]
    costly = [row for row in attacked if _loss(row, NAIVE) - _loss(row, ORACLE) > COSTLY]
    found["costly attacks"] = len(costly)
    found["of them lost as naive loses"] = sum(is_lost(row, name) for row in costly)
    found["excess over without bots"] = _mean(
        _loss(row, name) - _loss(row, ORACLE) for row in attacked
    )
    # Compilation slows down the first log of a process, but not the median.
    found["seconds, median"] = float(np.median([row.results[name].seconds for row in rows]))
    return found


def is_lost(row: Row, name: str) -> bool:
    """Return whether a learner loses nearly as much to the attack as the plain mean."""
    oracle = _loss(row, ORACLE)
    return _loss(row, name) - oracle >= AS_NAIVE * (_loss(row, NAIVE) - oracle)


def by_tag(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Return mean scores by tag, separately for attacked and for other logs."""
    table: dict[str, dict[str, float]] = {}
    for is_attacked in (True, False):
        some = [row for row in rows if (row.group == "attacked") == is_attacked]
        for tag in dict.fromkeys(tag for row in some for tag in row.tags):
            tagged = [row for row in some if tag in row.tags]
            label = f"{'attacked' if is_attacked else 'other'}: {tag} ({len(tagged)})"
            table[label] = {
                name: _mean(_loss(row, name) for row in tagged) for name in tagged[0].results
            }
    return table


def _loss(row: Row, name: str) -> float:
    return row.results[name].score


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return float(np.mean(listed)) if listed else float("nan")


def deciders(learners: list[str]) -> dict[str, Callable[[World], IntArray]]:
    """Return the plain mean and learners as functions from a log to decisions."""
    return {
        NAIVE: World.naive,
        **{name: lambda log, name=name: learn(name, log)[0] for name in learners},  # type: ignore[misc]
    }


def measure_few(seeds: list[int], learners: list[str], part: Part, only: str) -> list[FewRow]:
    """Return how many honest plays get another action when a few accounts join."""
    rows = []
    for family, logging in FEW_LOGS:
        for seed in seeds:
            before: dict[str, IntArray] = {}
            for attack in FEW_ATTACKS:
                log = f"{family} {logging}"
                if only not in f"{log} {attack}" or (attack == "wholesale" and family != "baskets"):
                    continue
                for traffic in TRAFFIC:
                    for n_accounts in NUMBERS_OF_ACCOUNTS:
                        without, joined = few_accounts(
                            n_accounts,
                            seed,
                            part=part,
                            attack=attack,
                            traffic=traffic,
                            family=family,
                            logging=logging,
                        )
                        for name, decide in deciders(learners).items():
                            if name not in before:
                                before[name] = decide(without)
                            start = time.perf_counter()
                            changed = decide(joined) != before[name]
                            rows.append(
                                FewRow(
                                    log=log,
                                    attack=attack,
                                    traffic=traffic,
                                    n_accounts=n_accounts,
                                    seed=seed,
                                    learner=name,
                                    changed=float(without.context_probabilities @ changed),
                                    seconds=time.perf_counter() - start,
                                )
                            )
                        print(_few_words(rows[-len(learners) - 1 :]), flush=True)
    return rows


def _few_words(rows: list[FewRow]) -> str:
    first = rows[0]
    found = "  ".join(f"{row.learner} {row.changed:.3f}" for row in rows)
    return (
        f"{first.log:<24} {first.attack:<12} {first.traffic:>4.0%} of the traffic "
        f"{first.n_accounts:>3} accounts, seed {first.seed}: {found}"
    )


def print_few(rows: list[FewRow]) -> None:
    """Print the mean and the largest share of honest plays that changed, by number of accounts."""
    print("\nhonest plays with another action: mean, worst")
    print(f"{'learner':<16}" + "".join(f"{f'{k} accounts':>18}" for k in NUMBERS_OF_ACCOUNTS))
    for name in dict.fromkeys(row.learner for row in rows):
        cells = []
        for n_accounts in NUMBERS_OF_ACCOUNTS:
            some = [r.changed for r in rows if (r.learner, r.n_accounts) == (name, n_accounts)]
            cells.append(f"{np.mean(some):.3f}, {max(some):.3f}" if some else "-")
        print(f"{name:<16}" + "".join(f"{cell:>18}" for cell in cells))


def measure_cheapest(seed: int, learners: list[str], part: Part) -> list[CheapRow]:
    """Return the results of all attacks with decreasing numbers of accounts, by type of logging.

    Each attack starts with one step fewer accounts than the cheapest one so far, and continues with
    fewer accounts as long as it changes half of the honest plays.
    """
    rows = []
    for logging in ("uniform", "epsilon-greedy"):
        for name, decide in deciders(learners).items():
            step = len(COALITIONS) - 1
            before: IntArray | None = None
            for attack, strength, each in itertools.product(AIMS, STRENGTHS, EVENTS_EACH):
                while step >= 0:
                    lies = COALITIONS[step] * each
                    traffic = lies / (lies + 120_000)
                    if traffic > MOST_TRAFFIC:
                        break
                    without, joined = few_accounts(
                        COALITIONS[step],
                        seed,
                        part=part,
                        attack=attack,
                        traffic=traffic,
                        strength=strength,
                        logging=logging,
                    )
                    before = decide(without) if before is None else before
                    changed = float(without.context_probabilities @ (decide(joined) != before))
                    rows.append(
                        CheapRow(logging, name, attack, strength, each, COALITIONS[step], changed)
                    )
                    if changed < TURNED:
                        break
                    print(f"{name}: {_cheap_words(rows[-1])}", flush=True)
                    step -= 1
    return rows


def _cheap_words(row: CheapRow) -> str:
    return (
        f"{row.logging}, {row.attack} in {row.strength:.0%} of the plays, {row.n_accounts:,} "
        f"accounts with {row.events_each} events each turn {row.changed:.0%}"
    )


def print_cheapest(rows: list[CheapRow]) -> None:
    """Print the attack with the fewest accounts that changed half of the plays."""
    print()
    for key in dict.fromkeys((row.learner, row.logging) for row in rows):
        tried = [row for row in rows if (row.learner, row.logging) == key]
        found = [row for row in tried if row.changed >= TURNED]
        best = min(found, key=lambda row: row.n_accounts, default=None)
        words = _cheap_words(best) if best else f"{key[1]}, none"
        print(f"{key[0]:<16} {words} ({len(tried)} attacks tried)")


def measure_ab(seeds: list[int], learners: list[str], only: str) -> list[AbRow]:
    """Return which A/B tests learners get wrong, by share, gap and attack."""
    rows = []
    for alpha in AB_ALPHAS:
        hidden = hidden_gap(alpha)
        for multiple in AB_GAPS:
            for attack in (name for name in AB_ATTACKS if only in name):
                for seed in seeds:
                    log = ab_test(min(multiple * hidden, 0.9), alpha, attack, seed)
                    for name, decide in deciders(learners).items():
                        is_wrong = bool((decide(log) != log.optimal()).any())
                        rows.append(AbRow(alpha, hidden, multiple, attack, seed, name, is_wrong))
            wrong = {
                name: sum(
                    r.is_wrong
                    for r in rows
                    if (r.alpha, r.multiple, r.learner) == (alpha, multiple, name)
                )
                for name in deciders(learners)
            }
            print(f"alpha {alpha:g}, {multiple:g} x {hidden:.3f}: wrong {wrong}", flush=True)
    return rows


def print_ab(rows: list[AbRow]) -> None:
    """Print the largest relative gap at which an attack misled each learner."""
    print("\nlargest gap that is turned, in gaps that no method can see (the attack)")
    for name in dict.fromkeys(row.learner for row in rows):
        cells = []
        for alpha in AB_ALPHAS:
            wrong = [r for r in rows if (r.learner, r.alpha) == (name, alpha) and r.is_wrong]
            worst = max(wrong, key=lambda r: r.multiple, default=None)
            cells.append(f"{worst.multiple:g} ({worst.attack})" if worst else "none")
        print(f"{name:<16}" + "".join(f"{cell:>28}" for cell in cells))


def print_row(row: Row) -> None:
    """Print the results on one log."""
    results = "  ".join(
        f"{name} {r.score:.3f}"
        + (
            f" (honest -{r.honest_removed:.3f}, bad kept {r.bad_kept:.2f}, {r.seconds:.1f} s)"
            if r.seconds
            else ""
        )
        for name, r in row.results.items()
    )
    print(f"{row.seed} {row.kind:<72} {row.n_events:>7,}  {results}", flush=True)


def print_summary(columns: dict[str, dict[str, Any]], tags: dict[str, dict[str, float]]) -> None:
    """Print summary statistics of each learner, and mean scores by tag."""
    names = list(columns)
    print("\n" + " " * 40 + "".join(f"{name:>16}" for name in names))
    for key in dict.fromkeys(key for found in columns.values() for key in found):
        if key.startswith("worst kind"):
            continue
        values = [columns[name][key] for name in names]
        cells = "".join(f"{v:>16.4f}" if isinstance(v, float) else f"{v:>16}" for v in values)
        print(f"{key:<40}{cells}")
    for name in names[1:-1]:
        for group in ("peace", "fans", "unaimed"):
            if f"worst kind in {group}" in columns[name]:
                print(f"worst of {name} in {group}: {columns[name][f'worst kind in {group}']}")
    print("\nby tag")
    for label, found in tags.items():
        print(f"{label:<40}" + "".join(f"{found[name]:>16.3f}" for name in names))


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="development")
    parser.add_argument("--seed", default="0", help="one seed or several, with commas")
    parser.add_argument("--learners", default=DEFAULT_METHOD, help="methods, with commas")
    parser.add_argument("--only", default="", help="logs whose name contains this")
    parser.add_argument("--few-accounts", action="store_true", help="what 1 to 30 accounts can do")
    parser.add_argument("--cheapest", action="store_true", help="the cheapest attack on clicks")
    parser.add_argument("--ab", action="store_true", help="gaps of A/B tests that can be turned")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    learners = [name for name in arguments.learners.split(",") if name]
    unknown = [name for name in learners if name not in method_names()]
    if unknown:
        parser.error(f"no method is called {unknown[0]!r}; there are {', '.join(METHODS)}.")
    seeds = [int(seed) for seed in arguments.seed.split(",")]
    document: dict[str, Any]
    if arguments.few_accounts:
        few = measure_few(seeds, learners, arguments.part, arguments.only)
        print_few(few)
        document = {"rows": [asdict(row) for row in few]}
    elif arguments.cheapest:
        cheap = measure_cheapest(seeds[0], learners, arguments.part)
        print_cheapest(cheap)
        document = {"rows": [asdict(row) for row in cheap]}
    elif arguments.ab:
        ab = measure_ab(seeds, learners, arguments.only)
        print_ab(ab)
        document = {"rows": [asdict(row) for row in ab]}
    else:
        chosen = [kind for kind in KINDS if arguments.only in kind.name]
        if not chosen:
            parser.error(f"no kind of log has {arguments.only!r} in its name.")
        rows = []
        for seed in seeds:
            for kind in chosen:
                rows.append(measure(kind, arguments.part, seed, learners))
                print_row(rows[-1])
        print_summary(summary(rows), by_tag(rows))
        document = {"summary": summary(rows), "rows": [asdict(row) for row in rows]}
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
