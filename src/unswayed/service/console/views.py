"""The contents of pages, made from the results of the service's own routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unswayed.learners.from_log import STEPS
from unswayed.service.console.decisions import latest_decisions
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
    tiles,
)
from unswayed.service.console.means import policy_map

#: A learning's steps, in order.
_STEPS = ("exporting", *STEPS, "publishing")


def overview(campaigns: Sequence[Mapping[str, Any]], live: Html) -> list[Html]:
    """Return the page of all campaigns; ``live`` is replaced as long as it is open."""
    if not campaigns:
        return [
            tag("p", "There is no campaign yet."),
            soft("Create one with POST /v1/campaigns, or in the file that --config names."),
        ]
    return [
        section(
            "Live",
            tag("div", id="plot", role="img", aria_label="Decisions and rewards a second"),
            soft("All campaigns, two seconds apart, since this page was opened."),
        ),
        section("Campaigns", _polled("/console/live", live, seconds=2)),
    ]


def live_totals(rows: Sequence[Mapping[str, Any]], at_ms: int) -> Html:
    """Return the campaigns with their totals of this moment."""
    return tag(
        "div",
        table(
            "Campaigns",
            ["campaign", "state", "mode", "policy", "decisions", "rewards", "explored"],
            [
                [
                    campaign_link(row["name"]),
                    row["state"],
                    row["mode"],
                    policy_name(row["policy"]),
                    number(row["decisions"]),
                    number(row["rewards"]),
                    number(row["explored"]),
                ]
                for row in rows
            ],
        ),
        id="totals",
        data_at=at_ms,
        data_decisions=sum(row["decisions"] for row in rows),
        data_rewards=sum(row["rewards"] for row in rows),
    )


def campaign(
    status: Mapping[str, Any], served: Mapping[str, Any], recent: Mapping[str, Any]
) -> list[Html]:
    """Return the page of a campaign."""
    name = status["campaign"]
    target = status["target"]
    shown = [
        (number(status["decisions"]), "decisions"),
        (number(status["rewards"]), "rewards"),
        (number(status["explored"]), "of them explored"),
        (policy_name(status["policy"]), f"is served, plan {status['plan']}"),
    ]
    if status["match_rate"] is not None:
        shown.append((percent(status["match_rate"]), "of the shadow decisions match"))
    return [
        tiles(shown),
        section("Mean rewards", *policy_map(served["policy"])),
        section("Exploration against plan", *_exploration(status, served["plan"], target)),
        section(
            "Latest decisions",
            _polled(f"/console/c/{name}/recent", latest_decisions(name, recent), seconds=3),
        ),
    ]


def _exploration(
    status: Mapping[str, Any], plan: Mapping[str, Any], target: Mapping[str, Any]
) -> list[Html]:
    if not status["contexts"]:
        return [
            tag("p", "No decisions yet."),
            soft("Request one with POST /v1/", status["campaign"], "/decide."),
        ]
    rows = []
    for context, modes in status["contexts"].items():
        decided = sum(one["decisions"] for one in modes.values())
        explored = modes.get("explore", {"decisions": 0})["decisions"]
        rule = plan["contexts"].get(context, plan["unknown"])
        # Those who are held back do not explore.
        planned = rule["explorer_share"] * (1.0 - plan["control_share"])
        rows.append((context, decided, explored, explored / max(decided, 1), planned))
    rows.sort(key=lambda row: -row[1])
    parts = [
        table(
            "Exploration",
            ["context", "decisions", "explored", "share", "planned"],
            [
                [context, number(decided), number(explored), percent(share), percent(planned)]
                for context, decided, explored, share, planned in rows[:MOST_ROWS]
            ],
        ),
    ]
    if target["needed"]:
        done = min(status["explored"] / target["needed"], 1.0)
        parts.append(
            tag(
                "p",
                "Target: a policy within ",
                number(target["suboptimality"]),
                " of the best takes the paper's method ",
                number(round(target["needed"])),
                " explored decisions; ",
                percent(done),
                " are done. ",
                tag("progress", value=f"{done:.4f}", max="1", aria_label="towards the target"),
                None if not target["seconds_left"] else f" About {_span(target['seconds_left'])}.",
            )
        )
    if target["note"]:
        parts.append(soft(target["note"]))
    return parts


def policies(name: str, versions: Sequence[Mapping[str, Any]], map_: Sequence[Html]) -> list[Html]:
    """Return the page of policy versions."""
    active = next(one["version"] for one in versions if one["is_active"])
    rows = []
    for one in reversed(versions):
        version = one["version"]
        if one["is_active"]:
            act: Html = tag("span", "served", class_="mark good")
        else:
            act = tag(
                "a",
                "Activate" if version > active else "Roll back",
                href=f"/console/c/{name}/policies/{version}/activate",
                class_="button",
                aria_label=f"{'Activate' if version > active else 'Roll back to'} {version}",
            )
        rows.append([policy_name(version), act, moment(one["created_ms"]), one["job"] or "-"])
    return [
        table("Versions", ["policy", "", "made (UTC)", "learning job"], rows),
        section(f"Mean rewards of policy {active}", *map_),
    ]


def confirmation(
    name: str, version: int, active: int, changes: Sequence[tuple[str, str, str]]
) -> list[Html]:
    """Return the question whether a version is to be served, with what it changes."""
    verb = "Activate" if version > active else "Roll back to"
    return [
        tag(
            "p",
            f"Serve policy {version} instead of {active}? Within a second it applies to all users "
            "who do not explore.",
        ),
        table("Changes", ["context", f"policy {active}", f"policy {version}"], changes)
        if changes
        else tag("p", "Both play the same in every context.", class_="soft"),
        tag(
            "form",
            tag("button", f"{verb} policy {version}", class_="main", autofocus=True),
            tag("a", "Cancel", href=f"/console/c/{name}/policies", class_="button"),
            method="post",
            action=f"/console/c/{name}/policies/{version}/activate",
            class_="line",
        ),
    ]


def jobs(name: str, found: Sequence[Mapping[str, Any]]) -> list[Html]:
    """Return the page of learning jobs."""
    return [
        tag(
            "p",
            "Learning reads all decisions whose reward windows are closed, in its own process.",
        ),
        tag(
            "form",
            tag("button", "Learn now", class_="main"),
            method="post",
            action=f"/console/c/{name}/learn",
            class_="line",
        ),
        _polled(f"/console/c/{name}/jobs/now", job_rows(found), seconds=1),
    ]


def job_rows(found: Sequence[Mapping[str, Any]]) -> Html:
    """Return the jobs as a table."""
    if not found:
        return tag("p", "Nothing was learned yet.", class_="soft")
    return table(
        "Learning",
        ["state", "result", "started (UTC)"],
        [
            [
                tag("span", _state(job["state"]), _progress(job)),
                _result(job),
                moment(job["created_ms"]),
            ]
            for job in found[:MOST_ROWS]
        ],
    )


def _state(state: str) -> Html:
    kind = {"done": "mark good", "failed": "mark bad", "lost": "mark bad"}.get(state, "mark")
    return tag("span", state, class_=kind)


def _progress(job: Mapping[str, Any]) -> Html | None:
    if job["state"] not in ("queued", "running"):
        return None
    step = job["step"]
    place = _STEPS.index(step) + 1 if step in _STEPS else 0
    bar = tag("progress", value=place, max=len(_STEPS) + 1, aria_label="progress")
    return tag("span", " ", bar, " ", step or "waits")


def _result(job: Mapping[str, Any]) -> object:
    result = job["result"]
    if "error" in result:
        return result["error"]
    if "version" not in result:
        return "-"
    found = result["findings"]
    return tag(
        "span",
        f"{policy_name(result['version'])} of ",
        number(found["n_events"]),
        " events by ",
        number(found["n_users"]),
        " users",
    )


def login(message: str) -> list[Html]:
    """Return the form that asks for a key."""
    return [
        tag("p", message, class_="answer bad", role="alert") if message else Html(""),
        tag("p", "Sign in with an admin's key. It is checked, not stored."),
        tag(
            "form",
            tag(
                "label",
                "Key",
                tag(
                    "input",
                    name="key",
                    type="password",
                    required=True,
                    autofocus=True,
                    autocomplete="off",
                ),
            ),
            tag("button", "Sign in", class_="main"),
            method="post",
            action="/console/login",
            class_="line",
        ),
    ]


def _polled(address: str, first: Html, *, seconds: int) -> Html:
    """Return a part of a page that is replaced every few seconds."""
    return tag("div", first, hx_get=address, hx_trigger=f"every {seconds}s", hx_swap="innerHTML")


def _span(seconds: float) -> str:
    for size, name in ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:,.0f} {name} left"
    return f"{seconds:,.0f} seconds left"
