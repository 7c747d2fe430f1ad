"""Audits of planted logs: how well accounts are ranked, and how many honest ones are flagged.

- ``reviews``: markets (``worlds.reviews``) whose users chose for themselves, and some are paid.
- ``textbook``: the shilling attacks of the literature and paid reviews, 5% each, in real ratings.
- ``clean``: real ratings as they are, whole and in parts, and with stars drawn anew given account
  and item (``worlds.real_ratings``). Nothing is planted: every alarm is false.
- ``honest``: markets without spammers that are easily mistaken for attacked ones, and with
  minorities, whose members are recorded as bad.
- ``low``: evasive coalitions. ``likes``: markets of which only the choices are known.
- ``production``: logs (``worlds.production``) where the server chose, and some accounts are bots.

AUC is the probability that a bad account scores above an honest one: over all pairs, and over those
that rated the same item. It is compared with the best one-line baseline, chosen with the labels.
Run ``python benchmarks/audit.py`` for a table, with ``--json`` for one JSON document. Constants
were chosen on the part development, and on the seeds 0 to 3 of what is planted in real ratings.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.audit.auditing import audit_events
from unswayed.audit.results import Audit
from unswayed.events import Events, Labels
from worlds import PARTS, Part, World
from worlds.production import build_production, production_specs
from worlds.real_ratings import are_installed, clean_logs, redrawn
from worlds.reviews import (
    CLEAN,
    TEXTBOOK,
    ReviewLog,
    ReviewSpec,
    area_under_curve,
    baselines,
    build_reviews,
    planted,
    review_specs,
    textbook,
    with_minority,
    with_releases,
    with_series,
)

KINDS = ("reviews", "textbook", "clean", "honest", "low", "likes", "production")
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
PLANTED_IN = ("movies", "lectures", "films, Sci-Fi", "films, 0.3 of the ratings")
PLANTED = 0.05
MINORITIES, OWN_ITEMS = (0.05, 0.1, 0.2), (200, 100, 60, 20)
LOW = (
    ReviewSpec(name="low: stars that vary", is_varied=True),
    ReviewSpec(name="low: two targets each", n_targets=20, effort=0.1),
    ReviewSpec(name="low: much camouflage", camouflage=5.0),
    ReviewSpec(name="low: all of it", is_varied=True, n_targets=20, effort=0.1, camouflage=5.0),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One log: areas under the curve, and shares of accounts that were flagged."""

    log: str
    regime: str
    seed: int
    share: float
    n_events: int
    has_times: bool
    auc: float
    auc_within_items: float
    baseline: str
    baseline_auc: float
    flagged_honest: float
    flagged_bad: float
    said_attacked: bool
    seconds: float


def within_items(scores: FloatArray, is_bad: np.ndarray, log: ReviewLog) -> float:
    """Return the area under the curve over pairs of accounts that rated the same item."""
    order = np.argsort(log.items, kind="stable")
    ends = np.flatnonzero(np.diff(log.items[order])) + 1
    won, total = 0.0, 0
    for raters in np.split(log.users[order], ends):
        bad, honest = raters[is_bad[raters]], raters[~is_bad[raters]]
        if len(bad) and len(honest):
            apart = scores[bad][:, None] - scores[honest][None, :]
            won += float((apart > 0).sum() + 0.5 * (apart == 0).sum())
            total += apart.size
    return won / total if total else float("nan")


def audit_reviews(name: str, log: ReviewLog, seed: int, share: float, has_times: bool) -> Row:
    """Return how an audit did on a review market."""
    names = [Labels.of(range(n)) for n in (log.n_users, 1, log.n_items)]
    contexts = np.zeros(len(log.users), dtype=np.int64)
    times = log.days * 86_400.0 if has_times else None
    columns = (log.users, contexts, log.items, log.stars)
    events = Events(*columns, names[0], names[1], names[2], times=times)
    start = time.perf_counter()
    audit = audit_events(events, source=name, stated=0.1, regime="users")
    row = _row(name, audit, log.is_spammer, seed, share, has_times, time.perf_counter() - start)
    simple = baselines(log if has_times else replace(log, days=np.zeros(len(log.users))))
    areas = {key: area_under_curve(scores, log.is_spammer) for key, scores in simple.items()}
    best = max(areas, key=areas.__getitem__)
    return replace(
        row,
        auc_within_items=within_items(audit.accounts.scores, log.is_spammer, log),
        baseline=best,
        baseline_auc=areas[best],
    )


def audit_production(name: str, log: World, seed: int) -> Row:
    """Return how an audit did on a production log."""
    sizes = (log.n_users, log.n_contexts, log.n_actions)
    names = [Labels.of(range(n)) for n in sizes]
    events = Events(
        log.users,
        log.contexts,
        log.actions,
        log.rewards,
        names[0],
        names[1],
        names[2],
        log.propensities,
    )
    start = time.perf_counter()
    audit = audit_events(events, source=name, stated=log.alpha, regime="server")
    share = float(log.is_bad.mean())
    return _row(name, audit, log.is_bad, seed, share, False, time.perf_counter() - start)


def _row(
    name: str,
    audit: Audit,
    is_bad: np.ndarray,
    seed: int,
    share: float,
    has_times: bool,
    seconds: float,
) -> Row:
    flagged = audit.accounts.is_flagged
    return Row(
        log=name,
        regime=audit.regime.name,
        seed=seed,
        share=share,
        n_events=audit.n_events,
        has_times=has_times,
        auc=area_under_curve(audit.accounts.scores, is_bad),
        auc_within_items=float("nan"),
        baseline="",
        baseline_auc=float("nan"),
        flagged_honest=float(flagged[~is_bad].mean()),
        flagged_bad=float(flagged[is_bad].mean()) if is_bad.any() else float("nan"),
        said_attacked=audit.is_attacked,
        seconds=seconds,
    )


def review_rows(part: Part, seeds: list[int]) -> Iterator[Row]:
    """Audit the review markets of a part at every share of spammers."""
    for seed in seeds:
        for share in SHARES:
            for spec in review_specs(part, share):
                log = build_reviews(spec, seed)
                yield audit_reviews(spec.name, log, seed, share, False)
                if spec.burst_days is not None or share == 0.0:
                    yield audit_reviews(f"{spec.name}, times", log, seed, share, True)


def honest_rows(seeds: list[int]) -> Iterator[Row]:
    """Audit markets without spammers: strong tastes, series, releases, heavy tails, minorities."""
    for seed in seeds:
        for spec in CLEAN:
            plain = build_reviews(spec, seed)
            for name, log in (
                ("", plain),
                (", series", with_series(plain, seed)),
                (", releases", with_releases(plain, seed)),
            ):
                for has_times in (False, True):
                    yield audit_reviews(f"clean {spec.name}{name}", log, seed, 0.0, has_times)
        for share in MINORITIES:
            for n_own in OWN_ITEMS:
                log, is_member = with_minority(build_reviews(CLEAN[0], seed), share, n_own, seed)
                # Record members as bad, to measure the share of them that is flagged.
                as_bad = replace(log, is_spammer=is_member)
                yield audit_reviews(f"minority, {n_own} own items", as_bad, seed, share, False)


def hidden_rows(seeds: list[int]) -> Iterator[Row]:
    """Audit evasive coalitions: few targets each, popular ones, stars that vary."""
    for seed in seeds:
        for spec in LOW:
            log = build_reviews(spec, seed)
            yield audit_reviews(spec.name, log, seed, spec.spam_share, False)


def textbook_rows(seeds: list[int]) -> Iterator[Row]:
    """Audit real ratings with 5% of planted profiles: of shilling attacks, and of paid groups."""
    for name, log in clean_logs(0) if are_installed() else ():
        if name not in PLANTED_IN:
            continue
        for seed in seeds:
            for kind in TEXTBOOK:
                for is_sinking in (False, True):
                    attacked = textbook(log, kind, PLANTED, seed, is_sinking=is_sinking)
                    what = f"{kind} {'nuke' if is_sinking else 'push'} in {name}"
                    yield audit_reviews(what, attacked, seed, PLANTED, False)
            spec = ReviewSpec(name="paid", spam_share=PLANTED, group_size=12)
            paid = planted(log, spec, seed)
            yield audit_reviews(f"paid groups in {name}", paid, seed, PLANTED, False)


def clean_rows(seeds: list[int]) -> Iterator[Row]:
    """Audit real ratings as they are, and with stars drawn anew; with times where known."""
    for name, log in clean_logs(0) if are_installed() else ():
        for has_times in (False, True)[: 1 + bool(np.ptp(log.days) > 0.0)]:
            suffix = ", times" if has_times else ""
            yield audit_reviews(f"real {name}{suffix}", log, 0, 0.0, has_times)
            for seed in seeds:
                drawn = redrawn(log, seed)
                yield audit_reviews(f"redrawn {name}{suffix}", drawn, seed, 0.0, has_times)


def likes_rows(part: Part, seeds: list[int]) -> Iterator[Row]:
    """Audit markets in which all ratings are equal."""
    for seed in seeds:
        for share in SHARES:
            for spec in review_specs(part, share):
                log = build_reviews(spec, seed)
                likes = replace(log, stars=np.ones(len(log.users)))
                yield audit_reviews(f"likes {spec.name}", likes, seed, share, False)


def production_rows(part: Part, seeds: list[int], every: int) -> Iterator[Row]:
    """Audit every n-th production log of a part."""
    for seed in seeds:
        for spec in production_specs(part)[::every]:
            yield audit_production(spec.name, build_production(spec, seed), seed)


def print_row(row: Row) -> None:
    """Print one log."""
    print(
        f"{row.log[:60]:<60} {row.regime:<6} {row.share:>5.2f} {row.n_events:>8,}  AUC "
        f"{row.auc:.3f}  within {row.auc_within_items:.3f}  {row.baseline or 'none':>10} "
        f"{row.baseline_auc:.3f}  flagged honest "
        f"{row.flagged_honest:.4f} bad "
        f"{row.flagged_bad:.3f}  attacked {row.said_attacked}  {row.seconds:.1f} s",
        flush=True,
    )


def print_summary(rows: list[Row]) -> None:
    """Print means and worst cases by regime and kind."""
    minorities = [r for r in rows if r.log.startswith("minority")]
    if minorities:
        flagged = [r.flagged_bad for r in minorities]
        print(
            f"honest minorities: {len(minorities)}, flagged {np.mean(flagged):.4f} (most "
            f"{max(flagged):.4f})"
        )
    rows = [r for r in rows if r not in minorities]
    names = {spec.name for part in PARTS for spec in review_specs(part, 0.0)}
    for name, some in (
        ("coalitions that stay low", [r for r in rows if r.log.startswith("low")]),
        ("textbook attacks", [r for r in rows if " push in " in r.log or " nuke in " in r.log]),
        ("paid groups in real ratings", [r for r in rows if r.log.startswith("paid groups")]),
        ("real ratings", [r for r in rows if r.log.startswith("real ")]),
        ("redrawn ratings", [r for r in rows if r.log.startswith("redrawn ")]),
        ("likes", [r for r in rows if r.log.startswith("likes ")]),
        ("honest markets", [r for r in rows if r.log.startswith("clean ")]),
        ("markets", [r for r in rows if r.regime == "users" and r.log.partition(",")[0] in names]),
        ("production logs", [r for r in rows if r.regime == "server"]),
    ):
        bad = [r for r in some if r.share > 0]
        clean = [r for r in some if r.share == 0]
        if bad:
            aucs = [r.auc for r in bad]
            simple = [r.baseline_auc for r in bad]
            ahead = sum(r.auc >= r.baseline_auc for r in bad)
            within = [w for r in bad if np.isfinite(w := r.auc_within_items)] or [np.nan]
            print(
                f"{name}: {len(bad)} attacked, AUC {np.mean(aucs):.3f} (worst {min(aucs):.3f}), "
                f"within items {np.mean(within):.3f} (worst {min(within):.3f}), best one-line "
                f"baseline {np.mean(simple):.3f} (worst {min(simple):.3f}; not above ours in "
                f"{ahead}), flagged honest "
                f"{np.mean([r.flagged_honest for r in bad]):.4f}, bad "
                f"{np.mean([r.flagged_bad for r in bad]):.3f}, said so in "
                f"{sum(r.said_attacked for r in bad)}"
            )
        if clean:
            flagged = [r.flagged_honest for r in clean]
            print(
                f"{name}: {len(clean)} clean, flagged {np.mean(flagged):.4f} (most "
                f"{max(flagged):.4f}), said attacked in {sum(r.said_attacked for r in clean)}"
            )


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="development")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--every", type=int, default=4, help="of the production logs")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sources = {
        "reviews": lambda: review_rows(arguments.part, arguments.seeds),
        "honest": lambda: honest_rows(arguments.seeds),
        "low": lambda: hidden_rows(arguments.seeds),
        "textbook": lambda: textbook_rows(arguments.seeds),
        "clean": lambda: clean_rows(arguments.seeds),
        "likes": lambda: likes_rows(arguments.part, arguments.seeds),
        "production": lambda: production_rows(arguments.part, arguments.seeds, arguments.every),
    }
    if not are_installed():
        print("textbook, clean: left out; install benchmarks/requirements.txt", file=sys.stderr)
    rows = []
    for kind in arguments.kinds:
        for row in sources[kind]():
            rows.append(row)
            if not arguments.json:
                print_row(row)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        print_summary(rows)


if __name__ == "__main__":
    main()
