"""Audits and evaluations as tables: for files, and for terminals."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from unswayed.audit.comparing import Changes, Difference
from unswayed.audit.redteam import RedTeam
from unswayed.audit.results import Audit, ErrorRates
from unswayed.evaluation import Evaluation
from unswayed.evaluation.estimators import Estimate
from unswayed.reports.policies import check_table, write_table
from unswayed.reports.tables import Cell, print_line, print_table, rate
from unswayed.storage import check_writable, whole_file

SHOWN = 10
"""Maximum number of rows of a table on a terminal."""


def small_share(share: float) -> str:
    """Return a share in percent, or a bound on it.

    >>> small_share(0.0123), small_share(1e-7)
    ('1.230%', 'below 0.001%')
    """
    return f"{share:.3%}" if share >= 1e-5 else "below 0.001%"


def error_rates(rates: ErrorRates) -> str:
    """Return what the threshold means for honest accounts, in words."""
    return (
        f"Threshold: {rates.threshold}. Honest accounts beyond it: {small_share(rates.nominal)} "
        f"under the null, {rates.realised:.2%} measured on {rates.measured_on}. This is evidence, "
        "never a verdict on a person."
    )


def print_audit(audit: Audit) -> None:
    """Print what was found, for a person at a terminal."""
    print_line(audit.statement)
    regime = "the server chose the actions" if audit.regime.name == "server" else "users chose"
    print_line(f"Regime: {regime} ({audit.regime.reason}); --regime overrides it.")
    _print_some(
        "Items",
        ["item", "direction", "shift", "naive mean", "robust mean", "plays"],
        [
            [str(i.action), i.direction, i.shift, i.naive, i.robust, f"{i.plays:,}"]
            for i in audit.items
        ],
    )
    _print_some(
        "Changed decisions",
        ["context", "share", "naive", "robust", "cost per visit"],
        [
            [str(c.context), f"{c.share:.2%}", str(c.naive), str(c.robust), c.cost]
            for c in audit.changed
        ],
    )
    _print_some(
        "Groups", ["group", "what"], [[group.name, group.statement] for group in audit.groups]
    )
    _print_some(
        "Accounts, the most suspicious first",
        ["user", "weight", "score", "reason"],
        [
            [str(row["user"]), f"{row['weight']:.2f}", f"{row['score']:.2f}", row["reason"]]
            for row in audit.listed_accounts()
            if row["reason"]
        ],
        n_rows=sum(map(bool, audit.accounts.reasons)),
        more="--users writes all of them.",
    )
    print_line(error_rates(audit.rates))
    for note in audit.notes:
        print_line(f"Note: {note}")


def print_red_team(found: RedTeam) -> None:
    """Print how far injected coalitions get."""
    print_line(found.statement())
    print_table(
        f"Red team: {found.kind}, {found.target}",
        [
            "share",
            "verdict",
            "naive shift",
            "robust shift",
            "naive hits",
            "robust hits",
            "detected",
            "AUC",
        ],
        [
            [
                f"{row.share:.0%}",
                row.verdict,
                row.naive_shift,
                row.robust_shift,
                f"{row.naive_hits:.0%}",
                f"{row.robust_hits:.0%}",
                None if math.isnan(row.detected) else f"{row.detected:.1%}",
                None if math.isnan(row.auc) else row.auc,
            ]
            for row in found.rows
        ],
    )


def print_comparisons(changes: Changes | None, difference: Difference | None) -> None:
    """Print what is new, and what differs from a reference."""
    if changes is not None:
        print_line(changes.statement())
        _print_some(
            "Newly flagged",
            ["user", "group", "known group"],
            [
                [str(one.user), one.group, "yes" if one.is_known_group else "no"]
                for one in changes.accounts
            ],
            more="--json lists them.",
        )
    if difference is not None:
        print_line(difference.statement())


def check_cases(path: Path) -> None:
    """Reject a file of cases that cannot be written, before any work is done for it."""
    if path.suffix == ".json":
        check_writable(path)
    else:
        check_table(path, None)


def write_cases(cases: pa.Table, path: Path) -> None:
    """Write flagged accounts as CSV, Parquet or JSON, as the name of the file says."""
    if path.suffix != ".json":
        write_table(cases, path, None)
        return
    rows = [
        {k: v.isoformat() if isinstance(v, dt.datetime) else v for k, v in row.items()}
        for row in cases.to_pylist()
    ]
    with whole_file(path) as draft:
        text = json.dumps(rows, indent=1, allow_nan=False, ensure_ascii=False)
        draft.write_text(text + "\n", encoding="utf-8")


def write_page(text: str, path: Path) -> None:
    """Write a page."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_data(audit: Audit, report: Mapping[str, Any], folder: Path) -> None:
    """Write an audit as JSON, and its accounts, items and decisions as Parquet."""
    with whole_file(folder / "audit.json") as draft:
        text = json.dumps(report, indent=1, allow_nan=False, ensure_ascii=False)
        draft.write_text(text + "\n", encoding="utf-8")
    for part in ("accounts", "items", "decisions", "groups"):
        write_table(audit.table(part), folder / f"{part}.parquet", None)


def _print_some(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    n_rows: int | None = None,
    more: str = "",
) -> None:
    """Print the first rows of a table, and how many there are beyond them."""
    if not rows:
        return
    hidden = (len(rows) if n_rows is None else n_rows) - SHOWN
    note = f"And {hidden:,} more. {more}".rstrip() if hidden > 0 else None
    print_table(title, columns, rows[:SHOWN], note=note)


def print_evaluation(found: Evaluation) -> None:
    """Print the value of a policy."""
    print_line(found.statement)
    print_table(
        "Estimates",
        ["estimator", "users", "value", "uplift"],
        [
            [
                one.estimator.upper(),
                "honest" if one.robust else "all",
                _text(one.value, sign=""),
                _text(one.uplift),
            ]
            for one in found.estimates
        ],
        note="value: mean reward per visit. uplift: over the baseline. IPS: inverse propensity "
        "scores; SNIPS: the same, normalised; DR: doubly robust, used below. Intervals of honest "
        f"users hold {found.condition}.",
    )
    print_table(
        "By context",
        ["context", "share", "action", "plays", "value", "uplift"],
        [
            [
                str(one.context),
                rate(one.share),
                str(one.action),
                f"{one.plays:,}",
                f"{one.robust.estimate:.3g}",
                _text(one.uplift),
            ]
            for one in found.contexts[:SHOWN]
        ],
        note="For honest users. share: of the visits. plays: of the policy's action in the log. "
        "value: mean reward of the policy. uplift: what it gains over the baseline, with a 95% "
        "interval. --json also has the values for all users.",
    )
    print_line(
        f"Effective sample: {found.effective_sample_size:,.0f} of {found.n_events:,} events, which "
        f"leave the uplift uncertain by ±{_half(found.honest.sampling):.3g}. The learner kept "
        f"{found.weight_kept:.1%} of the users' weight."
    )
    for warning in found.warnings:
        print_line(f"Warning: {warning}")
    for note in found.notes:
        print_line(f"Note: {note}")


def _text(found: Estimate, sign: str = "+") -> str:
    return f"{found.estimate:{sign}.3g} ({found.low:.3g} to {found.high:.3g})"


def _half(found: Estimate) -> float:
    return (found.high - found.low) / 2.0
