"""The evidence behind the policy that is served, and live audits.

The latest audit of each campaign is refreshed while its page is open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unswayed.learners.explaining import is_suspected
from unswayed.reports.svg import Bars, diverging_bars
from unswayed.service import endpoints
from unswayed.service.calls import Call
from unswayed.service.catalogue import now_ms
from unswayed.service.console.markup import (
    MOST_BARS,
    MOST_ROWS,
    Html,
    colours,
    moment,
    number,
    percent,
    section,
    soft,
    table,
    tag,
    tiles,
    user_link,
)
from unswayed.service.errors import Refusal

#: Ours: seconds between questions for a new audit.
_SECONDS = 5

LEAST_PAUSE = 60.0
"""Ours: seconds between the end of an audit and the next one, at least."""

AFTER_REFUSAL = 5.0
"""Ours: the same where there was too little to audit; a campaign has just begun."""

PAUSES = 10.0
"""Ours: and so many times as long as the last one took, so that audits take a tenth of a core."""


def evidence(served: Mapping[str, Any]) -> list[Html]:
    """Return what the learning of the policy that is served has found."""
    policy = served["policy"]
    if policy is None:
        return [tag("p", "Nothing was learned yet, so there is no evidence.")]
    source = policy["source"]
    lies = source["evidence"].get("lies", [])
    changed = source["changed"]
    findings = source["findings"]
    return [
        tag(
            "div",
            _summary(lies, changed),
            class_="answer" if all(map(is_suspected, lies)) else "answer attacked",
        ),
        tiles(
            [
                (number(findings["n_users"]), "users"),
                (number(findings["n_events"]), "explored decisions"),
                (percent(policy["adversarial_fraction"]), "assumed share of colluders"),
                (number(len(changed)), "decisions of naive means differ"),
            ]
        ),
        section("Lies", *_lies(lies)),
        section("Changed decisions", *_changed(policy, changed)),
        section("Notes", *_notes(source["notes"])),
    ]


def _summary(lies: list[Mapping[str, Any]], changed: Mapping[str, Any]) -> str:
    suspected = sum(lie["accounts"] for lie in lies if is_suspected(lie))
    doubt = f" About {suspected:,.0f} accounts are suspected and still count." if suspected else ""
    if all(map(is_suspected, lies)):
        return f"No coalition was found in the decisions that the policy was learned from.{doubt}"
    accounts = sum(lie["accounts"] for lie in lies if not is_suspected(lie))
    effect = (
        f"naive means would decide differently in {len(changed):,} contexts."
        if changed
        else "naive means would still decide the same."
    )
    return f"About {accounts:,.0f} accounts stand out and no longer count; {effect}{doubt}"


def _lies(lies: list[Mapping[str, Any]]) -> list[Html]:
    if not lies:
        return [tag("p", "None found.", class_="soft")]
    return [
        table(
            "Lies",
            ["actions", "direction", "accounts, about", "contexts", "status"],
            [
                [
                    ", ".join(map(str, lie["actions"])),
                    "raised" if lie["direction"] == "up" else "lowered",
                    number(lie["accounts"], digits=1),
                    number(lie["contexts"]),
                    lie.get("status", "flagged"),
                ]
                for lie in lies[:MOST_ROWS]
            ],
        ),
        soft("An estimate over accounts, never a verdict on a person."),
    ]


def _changed(policy: Mapping[str, Any], changed: Mapping[str, Any]) -> list[Html]:
    if not changed:
        return [tag("p", "Naive means decide the same everywhere.", class_="soft")]
    plain = policy["source"].get("plain_means", {})
    rows = []
    for context, naive in list(changed.items())[:MOST_ROWS]:
        cells, chosen = policy["mean_rewards"][context], str(policy["policy"][context])
        known = plain.get(context, {})
        rows.append(
            [
                context,
                chosen,
                number(cells[chosen]["mean"]),
                number(known.get(chosen)),
                str(naive),
                number(cells[str(naive)]["mean"]),
                number(known.get(str(naive))),
            ]
        )
    return [
        table(
            "Changed decisions",
            [
                "context",
                "robust choice",
                "robust mean",
                "naive mean",
                "naive choice",
                "robust mean",
                "naive mean",
            ],
            rows,
        )
    ]


def _notes(notes: list[str]) -> list[Html]:
    if not notes:
        return [tag("p", "None.", class_="soft")]
    return [tag("ul", *(tag("li", note) for note in notes), class_="plain")]


def live_audit(name: str) -> Html:
    """Return the part of the page that shows audits as they are made, and makes one when asked."""
    return section(
        "Live audit",
        tag(
            "p",
            "Audits all explored decisions whose windows are closed, repeatedly while this page is "
            "open.",
        ),
        tag(
            "button",
            "Audit now",
            type="button",
            hx_get=f"/console/c/{name}/audit/now",
            hx_target="#audited",
            hx_swap="outerHTML",
            class_="main",
        ),
        tag(
            "div",
            _watched(name, 0, [tag("p", "The first audit is running.", class_="soft")]),
            aria_live="polite",
        ),
    )


def latest_audit(name: str, latest: Latest) -> Html:
    """Return the latest audit, with when it was made; it asks for the next one by itself."""
    if latest.audit is None:
        said = [tag("p", latest.refused or "No audit yet.", role="status")]
    else:
        said = _audited(name, latest.audit)
    when = soft(
        "Audit ",
        number(latest.number),
        " since the service started, finished at ",
        moment(latest.at_ms),
    )
    return _watched(name, latest.number, [*said, when])


def _watched(name: str, seen: int, parts: list[Html]) -> Html:
    return tag(
        "div",
        *parts,
        id="audited",
        data_number=seen,
        hx_get=f"/console/c/{name}/audit/live?seen={seen}",
        hx_trigger=f"load, every {_SECONDS}s" if seen == 0 else f"every {_SECONDS}s",
        hx_swap="outerHTML",
    )


def _audited(name: str, audit: Mapping[str, Any]) -> list[Html]:
    """Return what an audit says."""
    share, items, rates = audit["share"], audit["items"], audit["error_rates"]
    return [
        tag(
            "div",
            audit["statement"],
            class_="answer attacked" if audit["attacked"] else "answer",
        ),
        tiles(
            [
                (percent(share["estimate"]), "of the accounts collude"),
                (number(audit["flagged"]), "accounts count less than half"),
                (number(len(audit["changed"])), "decisions of naive means differ"),
                (number(audit["cost"]), "reward per visit that naive means would cost"),
            ]
        ),
        *_items(items),
        tag("h3", "Accounts, by evidence"),
        soft(
            "Evidence, not a verdict on a person. Of honest accounts ",
            percent(rates["nominal"]),
            " are flagged by chance.",
        ),
        table(
            "Accounts",
            ["account", "weight", "score", "decisions", "reason"],
            [
                [
                    user_link(name, str(row["user"])),
                    number(row["weight"]),
                    number(row["score"]),
                    number(row["interactions"]),
                    row["reason"],
                ]
                for row in audit["accounts"][:20]
            ],
        ),
    ]


def _items(items: list[Mapping[str, Any]]) -> list[Html]:
    if not items:
        return [tag("p", "No action's mean was shifted by down-weighted accounts.", class_="soft")]
    rows = [Bars(str(item["action"]), item["shift"]) for item in items[:MOST_BARS]]
    return [
        tag("h3", "Shift of means"),
        Html(diverging_bars(rows, title="shift of each action's mean")),
        colours(("naive", "raised"), ("robust", "lowered")),
    ]


@dataclass
class Latest:
    """The latest audit of a campaign: how many there were, what it says, and when it was made.

    ``audit`` is None before the first one, and where there is too little to audit, as ``refused``
    says.
    """

    number: int = 0
    audit: Mapping[str, Any] | None = None
    refused: str = ""
    at_ms: int = 0
    next_at: float = 0.0
    task: asyncio.Task[None] | None = None


class LiveAudits:
    """The latest audits of one process of the service."""

    def __init__(self) -> None:
        self._latest: dict[str, Latest] = {}

    def look(self, call: Call) -> Latest:
        """Return the latest audit, and begin another one if it is time."""
        found = self._latest.setdefault(call.campaign, Latest())
        if found.task is None and time.monotonic() >= found.next_at:
            self._begin(call, found)
        return found

    async def now(self, call: Call) -> Latest:
        """Return an audit that begins now, or the one that has begun already."""
        found = self._latest.setdefault(call.campaign, Latest())
        await asyncio.shield(found.task or self._begin(call, found))
        return found

    def _begin(self, call: Call, found: Latest) -> asyncio.Task[None]:
        found.task = asyncio.create_task(_audit(call, found))
        return found.task


async def _audit(call: Call, found: Latest) -> None:
    start, pause = time.monotonic(), LEAST_PAUSE
    try:
        found.audit, found.refused = await endpoints.audit(call), ""
    except Refusal as refusal:
        found.audit, found.refused = None, refusal.message
        pause = AFTER_REFUSAL
    found.task = None
    found.number += 1
    found.at_ms = now_ms()
    end = time.monotonic()
    found.next_at = end + max(pause, PAUSES * (end - start))
