"""An audit as one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unswayed.audit.comparing import Changes, Difference
from unswayed.audit.log import named_briefly
from unswayed.audit.redteam import RedTeam
from unswayed.audit.results import MOST_LISTED, Audit, ChangedDecision, GroupCard
from unswayed.reports.page import Value, beside, key, page, paragraph, section, table, tiles
from unswayed.reports.result_tables import error_rates
from unswayed.reports.svg import Bars, curves, diverging_bars, histogram, paired_bars, text_of
from unswayed.reports.svg import timeline as drawn_timeline

DRAWN = 12
"""Maximum number of bars."""

CARD_WIDTH, CARD_LABELS = 300.0, 70.0
"""Of a picture on a card, so that its letters are as large as those around it."""

MOST_NAMED = 5
"""Accounts that a card names."""


def audit_page(
    audit: Audit,
    red_team: RedTeam | None = None,
    changes: Changes | None = None,
    difference: Difference | None = None,
) -> str:
    """Return the page of an audit."""
    kind = {"attacked": " attacked", "suspected": " suspected"}.get(audit.verdict, "")
    answer = f'<div class="answer{kind}">{text_of(audit.statement, most=4_000)}</div>'
    parts = [
        "<h1>Audit</h1>",
        paragraph(
            f"{audit.source}. Events: {audit.n_events:,}, accounts: {audit.n_users:,}, contexts: "
            f"{audit.n_contexts:,}, actions: {audit.n_actions:,}.",
            "soft",
        ),
        answer,
        _tiles(audit),
        _decisions(audit),
        "" if changes is None else _changes(changes),
        "" if difference is None else _difference(difference),
        _items(audit),
        _groups(audit.groups),
        _accounts(audit),
        _cases(audit),
        _null(audit),
        _time(audit),
        _contexts(audit),
        *([] if red_team is None else [_red_team(red_team)]),
        _trust(audit),
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
            (f"{audit.cost:.3g}", "reward per visit lost under plain means"),
        ]
    )


def _items(audit: Audit) -> str:
    if not audit.items:
        return section(
            "Items", paragraph("No item's mean was shifted by flagged accounts.", "soft")
        )
    rows = [Bars(str(item.action), item.shift) for item in audit.items[:DRAWN]]
    return section(
        "Items: shift of their means",
        paragraph("Mean over all accounts minus the robust mean.", "soft small"),
        beside(
            diverging_bars(rows, title="shift of each item's mean")
            + key(("naive", "raised"), ("robust", "lowered")),
            table(
                ["item", "direction", "shift", "naive mean", "robust mean", "plays"],
                [
                    [str(i.action), i.direction, i.shift, i.naive, i.robust, i.plays]
                    for i in audit.items
                ],
                name="items",
            ),
        ),
    )


def _decisions(audit: Audit) -> str:
    if not audit.changed:
        return section("Decisions", paragraph("Plain means decide the same everywhere.", "soft"))
    rows = [Bars(str(c.context), c.cost) for c in audit.changed[:DRAWN]]
    return section(
        "Decisions: naive against robust",
        paragraph(
            f"Where plain means choose another action, and what a visit there loses. Averaged over "
            f"all visits: {audit.cost:.4g}.",
            "soft small",
        ),
        _map(audit.changed[:DRAWN]),
        beside(
            paired_bars(rows, title="cost of the naive decision in each context"),
            table(
                ["context", "share of visits", "naive", "robust", "cost per visit"],
                [
                    [str(c.context), f"{c.share:.2%}", str(c.naive), str(c.robust), c.cost]
                    for c in audit.changed
                ],
                name="decisions",
            ),
        ),
    )


def _map(changed: Sequence[ChangedDecision]) -> str:
    """Return which action plain and robust means choose in each context."""
    actions = list(dict.fromkeys(str(a) for c in changed for a in (c.naive, c.robust)))[:DRAWN]
    head = "".join(f"<th>{text_of(action, most=40)}</th>" for action in ["context", *actions])
    marks = ('<b class="naive">plain</b>', '<b class="robust">robust</b>')
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
        table(
            ["account", "group", "known group"],
            [
                [str(one.user), one.group or None, "yes" if one.is_known_group else "no"]
                for one in changes.accounts[:MOST_LISTED]
            ],
            name="newly flagged",
        ),
    )


def _difference(difference: Difference) -> str:
    return section(
        "Reference: against " + difference.source,
        paragraph(difference.statement()),
        table(
            ["item", "mean in the reference", "mean now", "standard errors apart"],
            [[str(i.action), i.reference, i.now, i.z] for i in difference.items],
            name="moved items",
        ),
    )


def _groups(groups: Sequence[GroupCard]) -> str:
    if not groups:
        return ""
    return section(
        "Groups", '<div class="cards">' + "".join(_card(group) for group in groups) + "</div>"
    )


def _card(group: GroupCard) -> str:
    seen = (
        "" if group.first_seen is None else f"Active from {group.first_seen} to {group.last_seen}."
    )
    overlap = (
        ""
        if math.isnan(group.seen)
        else paired_bars(
            [Bars("seen", group.seen), Bars("expected", group.expected)],
            title=group.measure,
            width=CARD_WIDTH,
            label_width=CARD_LABELS,
        )
    )
    pictures = overlap + (
        ""
        if group.timeline is None
        else drawn_timeline(
            group.timeline.starts,
            group.timeline.flagged,
            group.timeline.others,
            title="activity of members and of all others",
            width=CARD_WIDTH,
        )
    )
    items = table(
        ["item", "members' mean", "others' mean"],
        [[str(i.action), i.members_mean, i.others_mean] for i in group.items],
        shown=5,
    )
    return (
        f'<div class="card"><h3>{text_of(group.name)}</h3>'
        + paragraph(group.statement)
        + beside(pictures + (paragraph(seen, "soft small") if seen else ""), items)
        + paragraph(f"For instance {named_briefly(group.examples, MOST_NAMED)}.", "soft small")
        + "</div>"
    )


def _accounts(audit: Audit) -> str:
    rows = audit.listed_accounts()
    return section(
        "Accounts, by evidence",
        paragraph(error_rates(audit.rates), "soft small"),
        table(
            ["account", "weight", "score", "p", "group", "reason", "events"],
            [
                [
                    str(row["user"]),
                    round(float(row["weight"]), 3),
                    round(float(row["score"]), 2),
                    row["p_value"],
                    row["group"] or None,
                    row["reason"] or None,
                    row["interactions"],
                ]
                for row in rows
            ],
            name="accounts",
        ),
        paragraph(
            f"The {len(rows):,} most suspicious of {audit.n_users:,}; --users writes all of them.",
            "soft small",
        ),
    )


def _cases(audit: Audit) -> str:
    if not audit.cases:
        return ""
    has_contexts, has_times = audit.n_contexts > 1, any(d.last_seen for d in audit.cases[0].deeds)
    columns = ["context"] * has_contexts + ["item", "events", "mean", "others' mean", "others"]
    return section(
        "One by one: what accounts did, next to others",
        '<div class="cases">',
        *(
            f'<details class="case"><summary>{text_of(case.user, most=80)}</summary>'
            + paragraph(case.reason, "small")
            + table(
                columns + ["last"] * has_times,
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
                name=f"account {number}",
            )
            + "</details>"
            for number, case in enumerate(audit.cases, 1)
        ),
        "</div>",
        paragraph(
            "Others are accounts that are not flagged; their number is that of their events.",
            "soft small",
        ),
    )


def _null(audit: Audit) -> str:
    found = audit.histogram
    null = (
        "rewards permuted within cells"
        if audit.regime.name == "server"
        else "a normal distribution fitted to the lower scores of this log"
    )
    return section(
        "Null distribution: scores of honest accounts",
        paragraph(f"{found.name}; bars are accounts, the dashed line is {null}.", "soft small"),
        histogram(
            found.edges, found.seen, found.expected, threshold=found.threshold, title=found.name
        ),
        paragraph("Heights are square roots of shares.", "soft small"),
    )


def _time(audit: Audit) -> str:
    if audit.timeline is None:
        return ""
    line = audit.timeline
    return section(
        "Time",
        drawn_timeline(line.starts, line.flagged, line.others, title="events over time"),
        key(("naive", "flagged accounts"), ("robust", "all others")),
        paragraph("Each as a share of its own events.", "soft small"),
    )


def _contexts(audit: Audit) -> str:
    if audit.n_contexts < 2:
        return ""
    rows = [Bars(str(c.context), c.claimed, c.believed) for c in audit.contexts[:DRAWN]]
    return section(
        "Contexts: shares of visits, as logged and robust",
        paired_bars(rows, title="shares of visits"),
        key(("naive", "as logged"), ("robust", "robust estimate")),
    )


def _red_team(found: RedTeam) -> str:
    shares = [row.share for row in found.rows]
    return section(
        f"Red team: {found.kind} for {found.target}",
        paragraph(found.statement()),
        paragraph(
            "Coalitions with different shares of the accounts were added to this log. Prediction "
            "shift: change of the target's mean. Hit ratio: share of visits whose decision is in "
            "the coalition's interest. False positives: other accounts that are flagged, including "
            "those flagged without the coalition.",
            "soft small",
        ),
        beside(
            curves(
                shares,
                [
                    ("naive shift", "naive", [row.naive_shift for row in found.rows]),
                    ("robust shift", "robust", [row.robust_shift for row in found.rows]),
                ],
                title="prediction shift against the size of the coalition",
            ),
            curves(
                shares,
                [
                    ("naive hits", "naive", [row.naive_hits for row in found.rows]),
                    ("robust hits", "robust", [row.robust_hits for row in found.rows]),
                ],
                title="hit ratio against the size of the coalition",
            ),
        ),
        table(
            [
                "share",
                "accounts",
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
                    row.accounts,
                    row.verdict,
                    row.naive_shift,
                    row.robust_shift,
                    f"{row.naive_hits:.0%}",
                    f"{row.robust_hits:.0%}",
                    None if math.isnan(row.detected) else f"{row.detected:.1%}",
                    f"{row.false_positives:.2%}",
                    row.auc,
                ]
                for row in found.rows
            ],
            name="red team",
        ),
    )


def _trust(audit: Audit) -> str:
    health = audit.exploration
    # With propensities, how evenly actions were played says nothing.
    hidden = ("uniform_p_value", "looks_uniform") if health["has_propensities"] else ()
    facts: list[Sequence[Value]] = [
        [name.replace("_", " "), _fact(value)]
        for name, value in health.items()
        if name not in hidden
    ]
    withstands = (
        table(
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
        "<h3>What decisions withstand</h3>",
        withstands,
        "<h3>Exploration</h3>",
        table(["", ""], facts, shown=20),
        *(paragraph(f"Note: {note}", "small") for note in audit.notes),
    )


def _fact(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)
