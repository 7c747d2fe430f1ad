"""Reports of audits, on a terminal and as a self-contained HTML page.

Both show the tables of ``audit_tables``, the terminal only their first rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unswayed.audit.results import MOST_LISTED, Audit, GroupCard, named_briefly, plain
from unswayed.reports.page import beside, key, page, paragraph, section
from unswayed.reports.page import table as html_table
from unswayed.reports.svg import bars, text_of
from unswayed.reports.svg import timeline as drawn_timeline
from unswayed.reports.tables import Table, print_line, print_some, rate
from unswayed.visible import Cell, number

DRAWN = 12
"""Maximum number of bars in a picture."""

SHARES, LABELS = (
    ("share", "detected", "false_positives"),
    ("user", "context", "action", "naive", "robust"),
)
"""Fields that are shown as percentages, and those that contain labels."""

MARKS = {kind: f'<b class="{kind}">{kind}</b>' for kind in ("naive", "robust")}

CARD_WIDTH, CARD_LABELS = 300.0, 70.0
"""Size of a picture on a card; its text is then as large as that around it."""


def table_of(rows: list[dict[str, Any]], **columns: str) -> Table:
    """Return a table of some fields of rows; keywords map column names to fields."""

    def cell(name: str, value: Any) -> Cell:
        if name in SHARES:
            return rate(value)
        if name == "weight":
            return float(round(value, 3))
        if isinstance(value, bool):
            return "yes" if value else "no"
        # Numbers that are labels are shown as text.
        return str(value) if name in LABELS and isinstance(value, int) else value

    return Table(
        [name.replace("_", " ") for name in columns],
        [[cell(name, row[name]) for name in columns.values()] for row in rows],
    )


def audit_tables(audit: Audit) -> dict[str, Table]:
    """Return the tables of an audit by name."""
    changes, difference, team = audit.changes, audit.difference, audit.red_team
    has_p = bool(np.isfinite(audit.accounts.p_values).any())
    return {
        "items": table_of(
            audit.items.to_pylist(),
            item="action",
            direction="direction",
            shift="shift",
            naive_mean="naive",
            robust_mean="robust",
            plays="plays",
        ),
        "decisions": table_of(
            audit.changed.to_pylist(),
            context="context",
            share_of_visits="share",
            naive="naive",
            robust="robust",
            cost_per_visit="cost",
        ),
        "accounts": table_of(
            [row for row in audit.listed_accounts().to_pylist() if row["score"] > 0.0],
            account="user",
            weight="weight",
            score="score",
            reason="reason",
            group="group",
            **{"p": "p_value"} if has_p else {},
            events="interactions",
        ),
        "newly flagged": table_of(
            changes.accounts[:MOST_LISTED].to_pylist() if changes else [],
            account="user",
            group="group",
            known_group="is_known_group",
        ),
        "moved items": table_of(
            difference.items.to_pylist() if difference else [],
            item="action",
            mean_in_the_reference="reference",
            mean_now="now",
            standard_errors_apart="z",
        ),
        "red team": table_of(
            plain(team.sizes) if team else [],
            share="share",
            accounts="accounts",
            **{"attacked?": "verdict"},
            naive_shift="naive_shift",
            robust_shift="robust_shift",
            detected="detected",
            false_positives="false_positives",
        ),
    }


def _who_chose(audit: Audit) -> str:
    who = "the server chose the actions" if audit.regime.name == "server" else "users chose"
    return f"{who} ({audit.regime.reason})"


def _error_rates(audit: Audit) -> str:
    """Describe the threshold for flagging and its error rate."""
    rates = audit.rates
    return (
        f"Flagged: {rates['threshold']}. Share of honest accounts flagged by mistake: "
        f"{rates['realised']:.2%} measured on {rates['measured_on']}. This is evidence, never a "
        "verdict on a person."
    )


def print_audit(audit: Audit) -> None:
    """Print the findings on a terminal."""
    tables = audit_tables(audit)
    print_line(audit.statement)
    print_line(f"Regime: {_who_chose(audit)}; --regime overrides it.")
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
    print_line(_error_rates(audit))
    for note in audit.notes:
        print_line(f"Note: {note}")
    if audit.changes is not None:
        print_line(audit.changes.statement)
        n_new = len(audit.changes.accounts)
        print_some(
            "Newly flagged", tables["newly flagged"], n_rows=n_new, more="--json lists them."
        )
    if audit.difference is not None:
        print_line(audit.difference.statement)
    if (team := audit.red_team) is not None:
        print_some(f"Injected: {team.kind} of {team.target}", tables["red team"])
        print_line(team.statement)


def audit_page(audit: Audit) -> str:
    """Return the page of an audit."""
    tables = {name: html_table(*found, name=name) for name, found in audit_tables(audit).items()}
    share, shifts = audit.share, audit.items["shift"].to_numpy()
    up = int((shifts > 0).sum())
    ends = f"collude ({share.low:.1%} to {share.high:.1%})"
    if not audit.is_attacked:
        hidden = "how many hide cannot be known"
        if not math.isinf(share.high):
            hidden = f"up to {share.high:.1%} may hide, as stated"
        ends = f"are known to collude; {hidden}"
    elif math.isinf(share.high):
        ends = f"collude (at least {share.low:.1%})"
    sections = [_decisions(audit, tables["decisions"])]
    if (changes := audit.changes) is not None:
        heading = f"New: since {changes.since}"
        sections.append(section(heading, paragraph(changes.statement), tables["newly flagged"]))
    if (difference := audit.difference) is not None:
        heading = f"Reference: against {difference.source}"
        sections.append(section(heading, paragraph(difference.statement), tables["moved items"]))
    sections.append(_items(audit, tables["items"]))
    if audit.groups:
        cards = "".join(map(_card, audit.groups))
        meaning = key(("naive", "members"), ("robust", "others, or expected by chance"))
        sections.append(section("Groups", f'<div class="cards">{cards}</div>', meaning))
    sections.append(
        section(
            "Accounts, by evidence",
            paragraph(_error_rates(audit), "soft small"),
            tables["accounts"],
            paragraph(
                f"Listed are those with any evidence, at most {MOST_LISTED} of "
                f"{audit.n_users:,}; --users writes all.",
                "soft small",
            ),
        )
    )
    if audit.cases:
        sections.append(_cases(audit))
    if (team := audit.red_team) is not None:
        explained = (
            f"Coalitions were injected into {team.accounts:,} accounts of this log, one share "
            "at a time. Shift: change of the target's mean. Detected: members that are flagged. "
            "False positives: other accounts that are flagged, also without the coalition."
        )
        heading = f"Red team: {team.kind} of {team.target}"
        explanation = paragraph(explained, "soft small")
        answer = paragraph(team.statement)
        sections.append(section(heading, explanation, tables["red team"], answer))
    sections.append(
        section(
            "Basis of this audit",
            paragraph(
                f"Regime: {_who_chose(audit)}. Assumed share of colluding accounts: "
                f"up to {audit.alpha:.1%}."
            ),
            "<h3>What no method could have detected</h3>",
            *map(paragraph, audit.limits),
            *(paragraph(f"Note: {note}", "small") for note in audit.notes),
        )
    )
    return page(
        f"Audit: {audit.verdict}",
        audit.source,
        f"Events: {audit.n_events:,}, accounts: {audit.n_users:,}, contexts: "
        f"{audit.n_contexts:,}, actions: {audit.n_actions:,}.",
        audit.statement,
        audit.verdict.replace(" ", "-"),
        [
            (f"{share.estimate:.1%}", f"of the accounts {ends}"),
            (
                f"{int(audit.accounts.is_flagged.sum()):,}",
                "accounts flagged, with weight below one half",
            ),
            (f"{up:,} up, {len(shifts) - up:,} down", "items shifted"),
            (f"{len(audit.changed):,}", "decisions differ under plain means"),
            (number(audit.cost), "reward per visit lost under plain means"),
        ],
        sections,
    )


def _items(audit: Audit, items: str) -> str:
    if not len(audit.items):
        nothing = "No item's mean was shifted by flagged accounts."
        return section("Items", paragraph(nothing, "soft"))
    rows = [(str(one["action"]), one["shift"]) for one in audit.items[:DRAWN].to_pylist()]
    picture = bars(rows, title="shift of each item's mean reward")
    return section(
        "Items: shift of their means",
        paragraph("Mean over all accounts minus the robust mean.", "soft small"),
        beside(picture + key(("naive", "raised"), ("robust", "lowered")), items),
    )


def _decisions(audit: Audit, decisions: str) -> str:
    """Return the section on contexts in which plain and robust means choose different actions."""
    if not len(audit.changed):
        return section("Decisions", paragraph("Plain means decide the same everywhere.", "soft"))
    drawn = audit.changed[:DRAWN].to_pylist()
    actions = list(dict.fromkeys(row[kind] for row in drawn for kind in ("naive", "robust")))
    head = "".join(f"<th>{text_of(x, most=40)}</th>" for x in ("context", *actions[:DRAWN]))
    lines = [
        f"<tr><th>{text_of(row['context'], most=40)}</th>"
        + "".join(
            f"<td>{''.join(MARKS[kind] for kind in MARKS if row[kind] == action)}</td>"
            for action in actions[:DRAWN]
        )
        + "</tr>"
        for row in drawn
    ]
    return section(
        "Decisions: naive against robust",
        paragraph(
            "Where plain means over all accounts (naive) choose another action, and what a visit "
            f"there loses. Averaged over all visits: {number(audit.cost)}.",
            "soft small",
        ),
        f'<div class="wide"><table class="map"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>",
        beside(
            bars(
                [(str(row["context"]), row["cost"]) for row in drawn],
                title="loss per visit of the naive decision, by context",
            ),
            decisions,
        ),
    )


def _card(group: GroupCard) -> str:
    pictures, line = "", group.timeline
    if not math.isnan(group.seen):
        rows = [("seen", group.seen), ("expected", group.expected)]
        pictures = bars(
            rows,
            title=group.measure,
            width=CARD_WIDTH,
            label_width=CARD_LABELS,
            kinds=("naive", "robust"),
        )
    if line is not None:
        title = "events over time, as a share of all"
        pictures += drawn_timeline(**line, title=title, width=CARD_WIDTH)
    means = {"members' mean": "members_mean", "others' mean": "others_mean"}
    return (
        f'<div class="card"><h3>{text_of(group.name)}</h3>'
        + paragraph(group.statement)
        + beside(
            pictures,
            html_table(*table_of(group.items.to_pylist(), item="action", **means), shown=5),
        )
        + paragraph(
            f"For instance {named_briefly(group.examples, len(group.examples))}.", "soft small"
        )
        + "</div>"
    )


def _cases(audit: Audit) -> str:
    columns = {"item": "action", "events": "plays", "mean": "mean", "others' mean": "others_mean"}
    columns["others' events"] = "others"
    if audit.n_contexts > 1:
        columns = {"context": "context", **columns}
    if audit.cases[0]["deeds"][0]["last_seen"]:
        columns["last"] = "last_seen"
    return section(
        "One by one: what accounts did, next to others",
        '<div class="cases">',
        *(
            f'<details class="case"><summary>{text_of(case["user"], most=80)}</summary>'
            + paragraph(case["reason"], "small")
            + html_table(*table_of(case["deeds"], **columns), shown=20, name=f"account {place}")
            + "</details>"
            for place, case in enumerate(audit.cases, 1)
        ),
        "</div>",
        paragraph("Others are accounts that are not flagged.", "soft small"),
    )
