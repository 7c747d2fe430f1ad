"""A report per day: what changed since the last one, and which accounts are newly suspected.

One process of all claims a day by a row in the store, and a process of its own works it out. If the
share of colluders that the audit estimates passes a threshold, a webhook is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx

from unswayed.service.catalogue import ACTIVE, Campaign, now_ms, plan_of
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.database import Connection
from unswayed.service.errors import not_found
from unswayed.service.reporting import audit_campaign

#: Ours: how long a webhook may take.
_WEBHOOK_SECONDS = 10.0

#: What a day has until its report is there.
_CLAIMED = "{}"


def today() -> str:
    """Return the day, in UTC."""
    return f"{datetime.fromtimestamp(now_ms() / 1000.0, UTC):%Y-%m-%d}"


def claim(connection: Connection, campaign: Campaign) -> bool:
    """Whether the report of today is due and was not begun by anybody; from now on it is."""
    if not campaign.settings.daily_report or campaign.state != ACTIVE:
        return False
    row = (campaign.name, today(), now_ms(), _CLAIMED)
    columns = ("campaign", "day", "created_ms", "report")
    (is_new,) = connection.insert_new("reports", columns, [row])
    return is_new


def reports_of(connection: Connection, name: str) -> list[dict[str, Any]]:
    """Return the reports of a campaign, the newest first."""
    campaign_of(connection, name)
    rows = connection.execute(
        "SELECT report FROM reports WHERE campaign = ? AND report <> ? ORDER BY day DESC",
        (name, _CLAIMED),
    )
    return [json.loads(row[0]) for row in rows]


def report_of(connection: Connection, name: str, day: str) -> dict[str, Any]:
    """Return the report of a day."""
    found = next((one for one in reports_of(connection, name) if one["day"] == day), None)
    if found is None:
        raise not_found(f"campaign {name!r} has no report of {day[:40]!r}.", "unknown_day")
    return found


def make_report(connection: Connection, name: str) -> dict[str, Any]:
    """Work out the report of today, store it, and tell the webhook."""
    campaign = campaign_of(connection, name)
    day = today()
    before = next((one for one in reports_of(connection, name) if one["day"] < day), None)
    found = compared(_state(connection, campaign), before, day)
    settings = campaign.settings
    is_alarming = found["share"] is not None and found["share"] > settings.webhook_share
    if settings.webhook and is_alarming:
        found["webhook"] = _told(settings.webhook, found)
    with connection.transaction():
        connection.execute(
            "UPDATE reports SET report = ? WHERE campaign = ? AND day = ?",
            (json.dumps(found), name, day),
        )
    return found


def _state(connection: Connection, campaign: Campaign) -> dict[str, Any]:
    """Return what a report holds of a moment."""
    plan, _ = plan_of(connection, campaign.name, campaign.plan_version)
    audit = audit_campaign(connection, campaign.name)
    is_audited = "refused" not in audit
    return {
        "campaign": campaign.name,
        "policy": campaign.policy_version,
        "epoch": plan.epoch,
        "actions": {
            str(context): str(rule.action)
            for context, rule in zip(plan.contexts, plan.rules, strict=True)
        },
        "audit": audit["statement"] if is_audited else audit["refused"],
        "share": audit["share"]["estimate"] if is_audited else None,
        "flagged": audit["flagged"] if is_audited else 0,
        "suspects": [one["user"] for one in audit["accounts"][: audit["flagged"]]]
        if is_audited
        else [],
        "events": audit["log"]["events"] if is_audited else 0,
    }


def compared(now: dict[str, Any], before: Mapping[str, Any] | None, day: str) -> dict[str, Any]:
    """Return a report: the state of today, and what is new in it.

    >>> state = {"actions": {"lunch": "soup"}, "suspects": ["bot"]}
    >>> compared(state, {"day": "2026-01-01", "actions": {}, "suspects": []}, "2026-01-02")[
    ...     "new_suspects"
    ... ]
    ['bot']
    """
    old_actions = {} if before is None else before["actions"]
    old_suspects = set() if before is None else set(before["suspects"])
    return {
        "day": day,
        "since": None if before is None else before["day"],
        **now,
        "changed": [
            {"context": context, "from": old_actions[context], "to": action}
            for context, action in now["actions"].items()
            if old_actions.get(context, action) != action
        ],
        "new_suspects": [user for user in now["suspects"] if user not in old_suspects],
    }


def _told(webhook: str, found: Mapping[str, Any]) -> str:
    """Send a report without the names of accounts, and return what became of it."""
    body = {key: value for key, value in found.items() if not key.endswith("suspects")}
    body["new_suspects"] = len(found["new_suspects"])
    try:
        status = httpx.post(webhook, json=body, timeout=_WEBHOOK_SECONDS).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"not reached: {type(error).__name__}"
    return f"status {status}"
