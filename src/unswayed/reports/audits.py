"""An audit for people: on a terminal, and as one self-contained HTML page.

Every table is made once (``audit_tables``); a terminal prints its first rows, a page has them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from unswayed.audit.results import MOST_LISTED, Audit, ChangedDecision, GroupCard, named_briefly
from unswayed.reports.page import beside, key, page, paragraph, section, tiles
from unswayed.reports.page import table as html_table
from unswayed.reports.svg import bars, text_of
from unswayed.reports.svg import timeline as drawn_timeline
from unswayed.reports.tables import Table, print_line, print_some
from unswayed.visible import Cell, number

DRAWN = 12
"""Maximum number of bars."""

CARD_WIDTH, CARD_LABELS = 300.0, 70.0
"""Of a picture on a card, so that its letters are as large as those around it."""


def table_of(rows: Iterable[object], **columns: str) -> Table:
    """Return attributes of rows as a table, by the name of the column; labels are text."""

    def cell(row: object, name: str) -> Cell:
        value = getattr(row, name)
        if name == "share":
            return f"{value:.2%}"
        is_label = name in ("action", "context", "user", "naive", "robust")
        return value if isinstance(value, float) or not is_label else str(value)

    return Table(
        [name.replace("_", " ") for name in columns],
        [[cell(row, name) for name in columns.values()] for row in rows],
    )


def audit_tables(audit: Audit) -> dict[str, Table]:
    """Return the tables of an audit by name."""
    has_p = any(not math.isnan(p) for p in audit.accounts.p_values[:1].tolist())
    changes, difference, team = audit.changes, audit.difference, audit.red_team
    words, shares = {"attacked": "yes", "nothing found": "no"}, ("share", "accounts")
    return {
        "items": table_of(
            audit.items,
            item="action",
            direction="direction",
            shift="shift",
            naive_mean="naive",
            robust_mean="robust",
            plays="plays",
        ),
        "decisions": table_of(
            audit.changed,
            context="context",
            share_of_visits="share",
            naive="naive",
            robust="robust",
            cost_per_visit="cost",
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
        "newly flagged": Table(
            ["account", "group", "known group"],
            [
                [str(one.user), one.group or None, "yes" if one.is_known_group else "no"]
                for one in (changes.accounts[:MOST_LISTED] if changes else ())
            ],
        ),
        "moved items": table_of(
            difference.items if difference else (),
            item="action",
            mean_in_the_reference="reference",
            mean_now="now",
            standard_errors_apart="z",
        ),
        "red team": Table(
            [*shares, "attacked?", "naive shift", "robust shift", "detected", "false positives"],
            [
                [
                    f"{100.0 * row.share:g}%",
                    row.accounts,
                    words.get(row.verdict, row.verdict),
                    row.naive_shift,
                    row.robust_shift,
                    f"{row.detected:.1%}" if row.accounts else None,
                    f"{row.false_positives:.2%}",
                ]
                for row in (team.sizes if team else ())
            ],
        ),
    }


def _who_chose(audit: Audit) -> str:
    who = "the server chose the actions" if audit.regime.name == "server" else "users chose"
    return f"{who} ({audit.regime.reason})"


def _error_rates(audit: Audit) -> str:
    """Return what the threshold means for honest accounts, in words."""
    rates = audit.rates
    return (
        f"Flagged: {rates.threshold}. Share of honest accounts flagged by mistake: "
        f"{rates.realised:.2%} measured on {rates.measured_on}. This is evidence, never a "
        "verdict on a person."
    )


def print_audit(audit: Audit) -> None:
    """Print what was found, for a person at a terminal."""
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
        print_line(audit.changes.statement())
        n_new = len(audit.changes.accounts)
        print_some(
            "Newly flagged", tables["newly flagged"], n_rows=n_new, more="--json lists them."
        )
    if audit.difference is not None:
        print_line(audit.difference.statement())
    if (team := audit.red_team) is not None:
        print_some(f"Injected: {team.kind} of {team.target}", tables["red team"])
        print_line(team.statement())


def audit_page(audit: Audit) -> str:
    """Return the page of an audit."""
    tables = audit_tables(audit)

    def shown(name: str) -> str:
        return html_table(*tables[name], name=name)

    parts = [
        "<h1>Audit</h1>",
        paragraph(
            f"{audit.source}. Events: {audit.n_events:,}, accounts: {audit.n_users:,}, contexts: "
            f"{audit.n_contexts:,}, actions: {audit.n_actions:,}.",
            "soft",
        ),
        f'<div class="answer {audit.verdict.replace(" ", "-")}">'
        f"{text_of(audit.statement, most=4_000)}</div>",
        _tiles(audit),
        _decisions(audit, shown("decisions")),
    ]
    if (changes := audit.changes) is not None:
        heading = f"New: since {changes.since}"
        parts.append(section(heading, paragraph(changes.statement()), shown("newly flagged")))
    if (difference := audit.difference) is not None:
        heading = f"Reference: against {difference.source}"
        parts.append(section(heading, paragraph(difference.statement()), shown("moved items")))
    parts.append(_items(audit, shown("items")))
    if audit.groups:
        cards = "".join(_card(group) for group in audit.groups)
        meaning = key(("naive", "members"), ("robust", "others, or expected by chance"))
        parts.append(section("Groups", f'<div class="cards">{cards}</div>', meaning))
    parts.append(
        section(
            "Accounts, by evidence",
            paragraph(_error_rates(audit), "soft small"),
            shown("accounts"),
            paragraph(
                f"The {len(tables['accounts'].rows):,} most suspicious of {audit.n_users:,}; "
                "--users writes all of them.",
                "soft small",
            ),
        )
    )
    if audit.cases:
        parts.append(_cases(audit))
    if (team := audit.red_team) is not None:
        explained = (
            f"Coalitions were injected into {team.accounts:,} accounts of this log, one share "
            "at a time. Shift: change of the target's mean. Detected: members that are flagged. "
            "False positives: other accounts that are flagged, also without the coalition."
        )
        parts.append(
            section(
                f"Red team: {team.kind} of {team.target}",
                paragraph(explained, "soft small"),
                shown("red team"),
                paragraph(team.statement()),
            )
        )
    parts.append(
        section(
            "Basis of this audit",
            paragraph(
                f"Regime: {_who_chose(audit)}. Assumed share of colluding accounts: "
                f"up to {audit.alpha:.1%}."
            ),
            "<h3>What no method could have detected</h3>",
            *(paragraph(limit) for limit in audit.limits),
            *(paragraph(f"Note: {note}", "small") for note in audit.notes),
        )
    )
    return page(f"Audit of {audit.source}", parts)


def _tiles(audit: Audit) -> str:
    share, up = audit.share, sum(item.shift > 0 for item in audit.items)
    ends = f"{share.low:.1%} to {share.high:.1%}"
    if math.isinf(share.high):
        ends = f"at least {share.low:.1%}"
    return tiles(
        [
            (f"{share.estimate:.1%}", f"of the accounts collude ({ends})"),
            (
                f"{int(audit.accounts.is_flagged.sum()):,}",
                "accounts flagged, with weight below one half",
            ),
            (f"{up:,} up, {len(audit.items) - up:,} down", "items shifted"),
            (f"{len(audit.changed):,}", "decisions differ under plain means"),
            (number(audit.cost), "reward per visit lost under plain means"),
        ]
    )


def _items(audit: Audit, items: str) -> str:
    if not audit.items:
        nothing = "No item's mean was shifted by flagged accounts."
        return section("Items", paragraph(nothing, "soft"))
    rows = [(str(item.action), item.shift) for item in audit.items[:DRAWN]]
    picture = bars(rows, title="shift of each item's mean reward")
    return section(
        "Items: shift of their means",
        paragraph("Mean over all accounts minus the robust mean.", "soft small"),
        beside(picture + key(("naive", "raised"), ("robust", "lowered")), items),
    )


def _decisions(audit: Audit, decisions: str) -> str:
    if not audit.changed:
        return section("Decisions", paragraph("Plain means decide the same everywhere.", "soft"))
    rows = [(str(c.context), c.cost) for c in audit.changed[:DRAWN]]
    return section(
        "Decisions: naive against robust",
        paragraph(
            "Where plain means over all accounts (naive) choose another action, and what a visit "
            f"there loses. Averaged over all visits: {number(audit.cost)}.",
            "soft small",
        ),
        _map(audit.changed[:DRAWN]),
        beside(bars(rows, title="loss per visit of the naive decision, by context"), decisions),
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
        pictures += drawn_timeline(
            line.starts, line.members, line.others, title=title, width=CARD_WIDTH
        )
    means = {"members' mean": "members_mean", "others' mean": "others_mean"}
    return (
        f'<div class="card"><h3>{text_of(group.name)}</h3>'
        + paragraph(group.statement)
        + beside(pictures, html_table(*table_of(group.items, item="action", **means), shown=5))
        + paragraph(f"For instance {named_briefly(group.examples)}.", "soft small")
        + "</div>"
    )


def _cases(audit: Audit) -> str:
    columns = {"item": "action", "events": "plays", "mean": "mean", "others' mean": "others_mean"}
    columns["others' events"] = "others"
    if audit.n_contexts > 1:
        columns = {"context": "context", **columns}
    if audit.cases[0].deeds[0].last_seen:
        columns["last"] = "last_seen"
    return section(
        "One by one: what accounts did, next to others",
        '<div class="cases">',
        *(
            f'<details class="case"><summary>{text_of(case.user, most=80)}</summary>'
            + paragraph(case.reason, "small")
            + html_table(*table_of(case.deeds, **columns), shown=20, name=f"account {place}")
            + "</details>"
            for place, case in enumerate(audit.cases, 1)
        ),
        "</div>",
        paragraph("Others are accounts that are not flagged.", "soft small"),
    )
