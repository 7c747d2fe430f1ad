"""Pages of users and decisions: the latest decisions, what a user gets, and why one was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unswayed.service.console.markup import (
    MOST_ROWS,
    Html,
    campaign_link,
    moment,
    number,
    percent,
    policy_name,
    section,
    soft,
    table,
    tag,
    user_link,
)

_MODES = {
    "substitute": "substituted",
    "explore": "explores",
    "exploit": "gets the policy",
    "control": "control group",
    "shadow": "shadow",
}


def latest_decisions(name: str, recent: Mapping[str, Any]) -> Html:
    """Return the latest decisions as a table."""
    rows = recent["decisions"]
    if not rows:
        return tag("p", "None.", class_="soft")
    return table(
        "Latest decisions",
        ["user", "context", "action", "mode", "reward", "", "time (UTC)"],
        [
            [
                user_link(name, row["user"]),
                row["context"],
                row["action"],
                _MODES.get(row["mode"], row["mode"]),
                number(row["reward"]),
                campaign_link(name, f"/decisions/{row['decision']}", "why"),
                moment(row["time_ms"]),
            ]
            for row in rows[:20]
        ],
    )


def finder(name: str, asked: str) -> Html:
    """Return the form that finds a user or a decision."""
    return tag(
        "form",
        tag(
            "label",
            "A user, or the id of a decision",
            tag("input", name="user", value=asked, required=True, maxlength="256"),
        ),
        tag("button", "Find", class_="main"),
        method="get",
        action=f"/console/c/{name}/users",
        class_="line",
    )


def user_page(name: str, found: Mapping[str, Any]) -> list[Html]:
    """Return the page of a user."""
    return [
        finder(name, found["user"]),
        section(
            "Now",
            soft("The user's action in each context under the served plan."),
            table(
                "Now",
                ["context", "mode", "action"],
                [
                    [context, _MODES[one["mode"]], one["action"] or "drawn at every play"]
                    for context, one in list(found["now"].items())[:MOST_ROWS]
                ],
            ),
        ),
        section(
            "Latest decisions",
            latest_decisions(name, found),
            soft("Among the latest ", number(found["n_read"]), " decisions of the campaign."),
        ),
    ]


def decision_page(name: str, found: Mapping[str, Any]) -> list[Html]:
    """Return the page of a decision: what was decided, and why."""
    plan, policy = found["plan"], found["policy"]
    again = (
        "Recomputing it from the secret and the plan gives the same result."
        if found["is_reproduced"]
        else "Recomputing it from the secret and the plan gives a different result."
    )
    facts: list[tuple[str, object]] = [
        ("time (UTC)", moment(found["time_ms"])),
        ("user", user_link(name, found["user"])),
        ("context", found["context"]),
        ("action", found["action"]),
        ("mode", _MODES.get(found["mode"], found["mode"])),
        ("propensity", number(found["propensity"])),
        ("plan", f"{plan['version']}, epoch {plan['epoch']}"),
        ("action of the policy", plan["policy_action"]),
        ("baseline", plan["baseline"]),
        ("explorers", percent(plan["explorer_share"])),
        ("policy", policy_name(policy["version"])),
    ]
    cells = policy["cells"]
    rewards = found["rewards"]
    return [
        tag(
            "div",
            found["why"],
            class_="answer" if found["is_reproduced"] else "answer bad",
        ),
        soft(again),
        tag("dl", *(part for term, value in facts for part in (tag("dt", term), tag("dd", value)))),
        section(
            "Rewards",
            table(
                "Rewards",
                ["received (UTC)", "id", "reward"],
                [
                    [moment(one["received_ms"]), one["reward_id"] or "-", number(one["reward"])]
                    for one in rewards
                ],
            )
            if rewards
            else tag("p", "None yet.", class_="soft"),
        ),
        section(
            "The policy's estimates for this context",
            table(
                "Means",
                ["action", "robust mean", "low", "high", "plays"],
                [
                    [action, *(number(cell[key]) for key in ("mean", "low", "high", "n"))]
                    for action, cell in cells.items()
                ],
            )
            if cells
            else tag("p", "Nothing was learned yet.", class_="soft"),
        ),
    ]
