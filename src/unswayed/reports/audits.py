"""An audit for people: on a terminal, as one self-contained HTML page, and as files.

Every table is made once (``audit_tables``); a terminal prints its first rows, a page has them all.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from unswayed.audit.auditing import Audited
from unswayed.audit.comparing import Changes, Difference
from unswayed.audit.log import named_briefly
from unswayed.audit.redteam import RedTeam
from unswayed.audit.results import MOST_LISTED, Audit, ChangedDecision, ErrorRates, GroupCard
from unswayed.errors import InputError, option
from unswayed.reports.page import Value, beside, key, page, paragraph, section, tiles
from unswayed.reports.page import table as html_table
from unswayed.reports.policies import write_table
from unswayed.reports.svg import Bars, bars, curves, histogram, text_of
from unswayed.reports.svg import timeline as drawn_timeline
from unswayed.reports.tables import Table, print_line, print_some
from unswayed.storage import check_writable, whole_file
from unswayed.visible import number, percent

DRAWN = 12
"""Maximum number of bars."""

CARD_WIDTH, CARD_LABELS = 300.0, 70.0
"""Of a picture on a card, so that its letters are as large as those around it."""

MOST_NAMED = 5
"""Accounts that a card names."""


def error_rates(rates: ErrorRates) -> str:
    """Return what the threshold means for honest accounts, in words."""
    # The tail of a fitted distribution is far too optimistic to be shown beside what was measured.
    is_telling = rates.nominal >= rates.realised / 10.0
    own = f"; {percent(rates.nominal)} by the weights in this log" if is_telling else ""
    return (
        f"Flagged: {rates.threshold}. Share of honest accounts flagged by mistake: "
        f"{rates.realised:.2%} measured on {rates.measured_on}{own}. This is evidence, never a "
        "verdict on a person."
    )


def audit_tables(audit: Audit) -> dict[str, Table]:
    """Return the tables of an audit by name."""
    has_p = any(not math.isnan(p) for p in audit.accounts.p_values[:1].tolist())
    return {
        "items": Table(
            ["item", "direction", "shift", "naive mean", "robust mean", "plays"],
            [
                [str(i.action), i.direction, i.shift, i.naive, i.robust, i.plays]
                for i in audit.items
            ],
        ),
        "decisions": Table(
            ["context", "share of visits", "naive", "robust", "cost per visit"],
            [
                [str(c.context), f"{c.share:.2%}", str(c.naive), str(c.robust), c.cost]
                for c in audit.changed
            ],
        ),
        "accounts": Table(
            ["account", "weight", "score", *["p"] * has_p, "group", "reason", "events"],
            [
                [
                    str(row["user"]),
                    f"{row['weight']:.2f}",
                    f"{row['score']:.2f}",
                    *[row["p_value"]] * has_p,
                    row["group"] or None,
                    row["reason"] or None,
                    row["interactions"],
                ]
                for row in audit.listed_accounts()
            ],
        ),
    }


def changes_table(changes: Changes) -> Table:
    """Return the newly flagged accounts."""
    return Table(
        ["account", "group", "known group"],
        [
            [str(one.user), one.group or None, "yes" if one.is_known_group else "no"]
            for one in changes.accounts[:MOST_LISTED]
        ],
    )


def red_team_table(found: RedTeam) -> Table:
    """Return how far coalitions of each size get."""
    return Table(
        [
            "share",
            "verdict",
            "naive shift",
            "robust shift",
            "naive hits",
            "robust hits",
            "detected",
            "false positives",
            "AUC",
        ],
        [
            [
                f"{row.share:.0%}",
                row.verdict,
                round(row.naive_shift, 4),
                round(row.robust_shift, 4),
                f"{row.naive_hits:.0%}",
                f"{row.robust_hits:.0%}",
                None if math.isnan(row.detected) else f"{row.detected:.1%}",
                f"{row.false_positives:.2%}",
                None if math.isnan(row.auc) else round(row.auc, 3),
            ]
            for row in found.rows
        ],
    )


def print_audit(found: Audited, red_team: RedTeam | None = None) -> None:
    """Print what was found, for a person at a terminal."""
    audit = found.audit
    print_line(audit.statement)
    regime = "the server chose the actions" if audit.regime.name == "server" else "users chose"
    print_line(f"Regime: {regime} ({audit.regime.reason}); --regime overrides it.")
    tables = audit_tables(audit)
    print_some("Items", tables["items"])
    print_some("Changed decisions", tables["decisions"])
    for group in audit.groups:
        print_line(f"{group.name[:1].upper()}{group.name[1:]}: {group.statement}")
    accounts = tables["accounts"].only("account", "weight", "score", "reason")
    print_some(
        "Accounts, the most suspicious first",
        accounts._replace(rows=[row for row in accounts.rows if row[-1]]),
        n_rows=sum(map(bool, audit.accounts.reasons)),
        more="--users writes all of them.",
    )
    print_line(error_rates(audit.rates))
    for note in audit.notes:
        print_line(f"Note: {note}")
    if found.changes is not None:
        print_line(found.changes.statement())
        new = changes_table(found.changes)
        n_new = len(found.changes.accounts)
        print_some("Newly flagged", new, n_rows=n_new, more="--json lists them.")
    if found.difference is not None:
        print_line(found.difference.statement())
    if red_team is not None:
        print_line(red_team.statement())
        sizes = red_team_table(red_team)
        print_some(f"Red team: {red_team.kind}, {red_team.target}", sizes)


def check_cases(path: Path) -> None:
    """Reject a file of cases that cannot be written, before any work is done for it."""
    if path.suffix not in (".csv", ".parquet", ".json"):
        raise InputError(
            f"{option('--cases', path.name)}: name a file that ends in .csv, .parquet or .json."
        )
    check_writable(path)


def write_cases(cases: pa.Table, path: Path) -> None:
    """Write flagged accounts as CSV, Parquet or JSON, as the name of the file says."""
    if path.suffix != ".json":
        write_table(cases, path, None)
        return
    rows = [
        {k: v.isoformat() if isinstance(v, dt.datetime) else v for k, v in row.items()}
        for row in cases.to_pylist()
    ]
    _write_json(rows, path)


def write_data(audit: Audit, report: Mapping[str, Any], folder: Path) -> None:
    """Write an audit as JSON, and its accounts, items and decisions as Parquet."""
    _write_json(report, folder / "audit.json")
    for part in ("accounts", "items", "decisions", "groups"):
        write_table(audit.table(part), folder / f"{part}.parquet", None)


def _write_json(value: object, path: Path) -> None:
    with whole_file(path) as draft:
        text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
        draft.write_text(text + "\n", encoding="utf-8")


def audit_page(found: Audited, red_team: RedTeam | None = None) -> str:
    """Return the page of an audit."""
    audit = found.audit
    tables = audit_tables(audit)
    kind = {"attacked": " attacked", "suspected": " suspected"}.get(audit.verdict, "")
    parts = [
        "<h1>Audit</h1>",
        paragraph(
            f"{audit.source}. Events: {audit.n_events:,}, accounts: {audit.n_users:,}, contexts: "
            f"{audit.n_contexts:,}, actions: {audit.n_actions:,}.",
            "soft",
        ),
        f'<div class="answer{kind}">{text_of(audit.statement, most=4_000)}</div>',
        _tiles(audit),
        _decisions(audit, tables["decisions"]),
        "" if found.changes is None else _changes(found.changes),
        "" if found.difference is None else _difference(found.difference),
        _items(audit, tables["items"]),
        _groups(audit.groups),
        _accounts(audit, tables["accounts"]),
        _cases(audit),
        _null(audit),
        _time(audit),
        _contexts(audit),
        "" if red_team is None else _red_team(red_team),
        _basis(audit),
    ]
    return page(f"Audit of {audit.source}", [part for part in parts if part])


def _tiles(audit: Audit) -> str:
    share = audit.share
    up = sum(item.shift > 0 for item in audit.items)
    return tiles(
        [
            (f"{share.estimate:.1%}", f"of the accounts collude ({share.words()})"),
            (
                f"{int(audit.accounts.is_flagged.sum()):,}",
                "accounts flagged, with weight below one half",
            ),
            (f"{up:,} up, {len(audit.items) - up:,} down", "items shifted"),
            (f"{len(audit.changed):,}", "decisions differ under plain means"),
            (number(audit.cost), "reward per visit lost under plain means"),
        ]
    )


def _items(audit: Audit, items: Table) -> str:
    if not audit.items:
        return section(
            "Items", paragraph("No item's mean was shifted by flagged accounts.", "soft")
        )
    rows = [Bars(str(item.action), item.shift) for item in audit.items[:DRAWN]]
    return section(
        "Items: shift of their means",
        paragraph("Mean over all accounts minus the robust mean.", "soft small"),
        beside(
            bars(rows, title="shift of each item's mean reward")
            + key(("naive", "raised"), ("robust", "lowered")),
            html_table(*items, name="items"),
        ),
    )


def _decisions(audit: Audit, decisions: Table) -> str:
    if not audit.changed:
        return section("Decisions", paragraph("Plain means decide the same everywhere.", "soft"))
    rows = [Bars(str(c.context), c.cost) for c in audit.changed[:DRAWN]]
    return section(
        "Decisions: naive against robust",
        paragraph(
            "Where plain means over all accounts (naive) choose another action, and what a visit "
            f"there loses. Averaged over all visits: {number(audit.cost)}.",
            "soft small",
        ),
        _map(audit.changed[:DRAWN]),
        beside(
            bars(rows, title="loss per visit of the naive decision, by context"),
            html_table(*decisions, name="decisions"),
        ),
    )


def _map(changed: Sequence[ChangedDecision]) -> str:
    """Return which action plain and robust means choose in each context."""
    actions = list(dict.fromkeys(str(a) for c in changed for a in (c.naive, c.robust)))[:DRAWN]
    head = "".join(f"<th>{text_of(action, most=40)}</th>" for action in ["context", *actions])
    marks = ('<b class="naive">naive</b>', '<b class="robust">robust</b>')
    lines = [
        f"<tr><th>{text_of(c.context, most=40)}</th>"
        + "".join(
            f"<td>{marks[0] * (a == str(c.naive))}{marks[1] * (a == str(c.robust))}</td>"
            for a in actions
        )
        + "</tr>"
        for c in changed
    ]
    return (
        f'<div class="wide"><table class="map"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _changes(changes: Changes) -> str:
    return section(
        "New: since " + changes.since,
        paragraph(changes.statement()),
        html_table(*changes_table(changes), name="newly flagged"),
    )


def _difference(difference: Difference) -> str:
    return section(
        "Reference: against " + difference.source,
        paragraph(difference.statement()),
        html_table(
            ["item", "mean in the reference", "mean now", "standard errors apart"],
            [[str(i.action), i.reference, i.now, round(i.z, 1)] for i in difference.items],
            name="moved items",
        ),
    )


def _groups(groups: Sequence[GroupCard]) -> str:
    if not groups:
        return ""
    return section(
        "Groups",
        '<div class="cards">' + "".join(_card(group) for group in groups) + "</div>",
        key(("naive", "members, and what was seen"), ("robust", "all others")),
    )


def _card(group: GroupCard) -> str:
    pictures = ""
    if not math.isnan(group.seen):
        pictures = bars(
            [Bars("seen", group.seen), Bars("expected", group.expected)],
            title=group.measure,
            width=CARD_WIDTH,
            label_width=CARD_LABELS,
        )
    if group.timeline is not None:
        pictures += drawn_timeline(
            group.timeline.starts,
            group.timeline.flagged,
            group.timeline.others,
            title="events over time, as a share of all",
            width=CARD_WIDTH,
        )
    if group.first_seen is not None and group.last_seen is not None:
        first, last = (when.partition("T")[0] for when in (group.first_seen, group.last_seen))
        pictures += paragraph(f"Active from {first} to {last}.", "soft small")
    items = html_table(
        ["item", "members' mean", "others' mean"],
        [[str(i.action), i.members_mean, i.others_mean] for i in group.items],
        shown=5,
    )
    return (
        f'<div class="card"><h3>{text_of(group.name)}</h3>'
        + paragraph(group.statement)
        + beside(pictures, items)
        + paragraph(f"For instance {named_briefly(group.examples, MOST_NAMED)}.", "soft small")
        + "</div>"
    )


def _accounts(audit: Audit, accounts: Table) -> str:
    return section(
        "Accounts, by evidence",
        paragraph(error_rates(audit.rates), "soft small"),
        html_table(*accounts, name="accounts"),
        paragraph(
            f"The {len(accounts.rows):,} most suspicious of {audit.n_users:,}; --users writes all "
            "of them.",
            "soft small",
        ),
    )


def _cases(audit: Audit) -> str:
    if not audit.cases:
        return ""
    has_contexts, has_times = audit.n_contexts > 1, any(d.last_seen for d in audit.cases[0].deeds)
    columns = ["context"] * has_contexts + ["item", "events", "mean", "others' mean"]
    return section(
        "One by one: what accounts did, next to others",
        '<div class="cases">',
        *(
            f'<details class="case"><summary>{text_of(case.user, most=80)}</summary>'
            + paragraph(case.reason, "small")
            + html_table(
                [*columns, "others' events", *["last"] * has_times],
                [
                    [
                        *[str(deed.context)] * has_contexts,
                        str(deed.action),
                        deed.plays,
                        deed.mean,
                        deed.others_mean,
                        deed.others,
                        *[deed.last_seen] * has_times,
                    ]
                    for deed in case.deeds
                ],
                shown=20,
                name=f"account {place}",
            )
            + "</details>"
            for place, case in enumerate(audit.cases, 1)
        ),
        "</div>",
        paragraph("Others are accounts that are not flagged.", "soft small"),
    )


def _null(audit: Audit) -> str:
    found = audit.histogram
    null = (
        "accounts with the same plays and permuted rewards"
        if audit.regime.name == "server"
        else "a normal distribution fitted to the lower scores of this log"
    )
    return section(
        "Null distribution: scores of honest accounts",
        beside(
            histogram(
                found.edges,
                found.seen,
                found.expected,
                threshold=found.threshold,
                title=f"share of accounts by {found.name}",
            ),
            paragraph(
                f"Bars are the accounts of this log. The dashed line is what honest accounts look "
                f"like: {null}. Heights are square roots of shares, so that a few accounts far out "
                "can be seen. The last bar holds everything beyond it."
            )
            + paragraph(error_rates(audit.rates), "soft small"),
        ),
    )


def _time(audit: Audit) -> str:
    if audit.timeline is None:
        return ""
    line = audit.timeline
    return section(
        "Time",
        beside(
            drawn_timeline(
                line.starts, line.flagged, line.others, title="events over time, as a share of all"
            ),
            key(("naive", "flagged accounts"), ("robust", "all others"))
            + paragraph(
                f"Each as a share of its own events, in {len(line.starts)} equal steps. A campaign "
                "shows as a peak of the flagged accounts alone."
            ),
        ),
    )


def _contexts(audit: Audit) -> str:
    if audit.n_contexts < 2:
        return ""
    rows = [Bars(str(c.context), c.claimed, c.believed) for c in audit.contexts[:DRAWN]]
    return section(
        "Contexts: shares of visits, as logged and robust",
        beside(
            bars(rows, title="share of visits, by context", is_share=True)
            + key(("naive", "as logged"), ("robust", "robust estimate")),
            html_table(
                ["context", "as logged", "robust estimate"],
                [[str(c.context), f"{c.claimed:.2%}", f"{c.believed:.2%}"] for c in audit.contexts],
                name="contexts",
            ),
        ),
    )


def _red_team(found: RedTeam) -> str:
    shares = [row.share for row in found.rows]
    return section(
        f"Red team: {found.kind} for {found.target}",
        paragraph(found.statement()),
        paragraph(
            "Coalitions with different shares of the accounts were added to this log. Shift: "
            "change of the target's mean. Hits: share of visits whose decision is in the "
            "coalition's interest. Detected: share of its members that are flagged. False "
            "positives: other accounts that are flagged, including those flagged without the "
            "coalition. AUC: probability that a member scores above another account.",
            "soft small",
        ),
        beside(
            *(
                curves(
                    shares,
                    [
                        (kind, kind, [getattr(row, f"{kind}_{what}") for row in found.rows])
                        for kind in ("naive", "robust")
                    ],
                    title=f"{title}, by the coalition's share",
                    is_share=what == "hits",
                )
                for what, title in (("shift", "shift of the target's mean"), ("hits", "hits"))
            )
        ),
        html_table(*red_team_table(found), name="red team"),
    )


def _basis(audit: Audit) -> str:
    health = audit.exploration
    # With propensities, how evenly actions were played says nothing.
    hidden = ("uniform_p_value", "looks_uniform") if health["has_propensities"] else ()
    facts: list[Sequence[Value]] = [
        [name.replace("_", " "), _fact(value)]
        for name, value in health.items()
        if name not in hidden
    ]
    withstands = (
        html_table(
            ["context", "certified share of accounts needed to change the decision"],
            [[context, f"{share:.2%}"] for context, share in audit.withstands.items()],
        )
        if audit.withstands
        else paragraph("No decision is certified to withstand more than one account.", "soft small")
    )
    regime = "the server chose" if audit.regime.name == "server" else "users chose"
    return section(
        "Basis of this audit",
        paragraph(
            f"Who chose the actions: {regime} ({audit.regime.reason}). Assumed share of colluding "
            f"accounts: up to {audit.alpha:.1%}."
        ),
        "<h3>What no method could have detected</h3>",
        *(paragraph(limit) for limit in audit.limits),
        beside(
            "<h3>What decisions withstand</h3>" + withstands,
            "<h3>Exploration</h3>" + html_table(["", ""], facts, shown=20),
        ),
        *(paragraph(f"Note: {note}", "small") for note in audit.notes),
    )


def _fact(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return number(value, 4)
        case int():
            return f"{value:,}"
        case _:
            return str(value)
