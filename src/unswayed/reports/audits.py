"""Audits as tables: accounts for files, and a summary for terminals."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unswayed.audit.results import Accounts, Audit
from unswayed.reports.tables import Cell, print_line, print_table

SHOWN = 10
"""Rows of a table on a terminal."""


def accounts_table(accounts: Accounts) -> pa.Table:
    """Return one row an account, the most suspicious first."""
    order = accounts.order
    places = pa.array(order)
    return pa.table(
        {
            "user": pa.array(accounts.labels.values).take(places),
            "weight": accounts.weights[order],
            "score": accounts.scores[order],
            "group": pa.array(accounts.groups, pa.string()).take(places),
            "reason": pa.array(accounts.reasons, pa.string()).take(places),
            "interactions": accounts.interactions[order],
            "p_value": pa.array(accounts.p_values[order], from_pandas=True),
        }
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
        ["context", "share", "naive", "robust", "cost a visit"],
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
        ["user", "weight", "score", "group", "reason"],
        [
            [
                str(row["user"]),
                f"{row['weight']:.2f}",
                f"{row['score']:.2f}",
                row["group"],
                row["reason"],
            ]
            for row in audit.listed_accounts()
            if row["reason"]
        ],
    )
    rates = audit.rates
    print_line(
        f"Threshold: {rates.threshold}. Honest accounts beyond it: {rates.nominal:.3%} by the "
        f"null, {rates.realised:.2%} measured on {rates.measured_on}. This is evidence, never a "
        "verdict on a person."
    )
    for note in audit.notes:
        print_line(f"Note: {note}")


def _print_some(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if not rows:
        return
    hidden = len(rows) - SHOWN
    note = f"and {hidden:,} more." if hidden > 0 else None
    print_table(title, columns, rows[:SHOWN], note=note)
