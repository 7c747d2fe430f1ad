"""The status of a campaign: exploration, epochs, and progress towards the target."""

from __future__ import annotations

from typing import Any

import numpy as np

from unswayed.errors import InputError
from unswayed.limits.planner import plan_traffic
from unswayed.policy import EpochPlan
from unswayed.service.catalogue import Campaign, campaigns, now_ms, plan_of
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.database import Connection
from unswayed.service.jobs import DONE, OPEN, jobs_of
from unswayed.service.metrics import labelled
from unswayed.service.planning import schedule_of

#: Recent traffic that is extrapolated, in milliseconds.
_RATE_MS = 3_600_000

#: The chance of missing the target that is planned with; the default of ``unswayed plan``.
_FAILURE = 0.1


def counted(connection: Connection, name: str) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
    """Return decisions and rewards by context and mode, and over all of them."""
    rows = connection.execute(
        "SELECT context, mode, SUM(decisions), SUM(rewards), SUM(matches) FROM counts "
        "WHERE campaign = ? GROUP BY context, mode ORDER BY context, mode",
        (name,),
    )
    contexts: dict[str, dict[str, Any]] = {}
    totals = {"decisions": 0, "rewards": 0, "explored": 0, "shadow": 0, "matches": 0}
    for context, mode, decisions, rewards, matches in rows:
        decisions, rewards, matches = int(decisions), int(rewards), int(matches)
        contexts.setdefault(context, {})[mode] = {"decisions": decisions, "rewards": rewards}
        totals["decisions"] += decisions
        totals["rewards"] += rewards
        totals["explored"] += decisions * (mode == "explore")
        if mode == "shadow":
            totals["shadow"] += decisions
            totals["matches"] += matches
    return contexts, totals


def status(connection: Connection, name: str) -> dict[str, Any]:
    """Return the counts of a campaign, and how long its target takes at the traffic of today."""
    campaign = campaign_of(connection, name)
    contexts, totals = counted(connection, name)
    plan, _ = plan_of(connection, name, campaign.plan_version)
    epoch = {"number": plan.epoch, "is_alarmed": plan.is_alarmed}
    # How many users came since the last learning is known to the next one.
    age: dict[str, Any] = {"age": None, "ends_at_age": None, "as_of_ms": None}
    interactions: dict[str, Any] | None = None
    learned = next(iter(jobs_of(connection, name, state=DONE, most=1)), None)
    if learned is not None:
        found, findings = learned.result, learned.result["findings"]
        ends_at = float(schedule_of(plan, found["users"]).end(plan.epoch))
        age = {"age": found["age"], "ends_at_age": ends_at, "as_of_ms": learned.created_ms}
        interactions = {
            "users": findings["n_users"],
            "fewest": findings["fewest_interactions"],
            "median": findings["median_interactions"],
            "most": findings["most_interactions"],
            "silent_share": found.get("silent_share"),
            "as_of_ms": learned.created_ms,
        }
    n_users = None if interactions is None else interactions["users"]
    return {
        "campaign": name,
        "state": campaign.state,
        "mode": campaign.settings.mode,
        "plan": campaign.plan_version,
        "policy": campaign.policy_version,
        "decisions": totals["decisions"],
        "rewards": totals["rewards"],
        "explored": totals["explored"],
        "match_rate": totals["matches"] / totals["shadow"] if totals["shadow"] else None,
        "contexts": contexts,
        "interactions_per_user": interactions,
        "epoch": {**epoch, **age},
        "exploration": _exploration(plan, contexts),
        "target": _target(connection, campaign, plan, contexts, totals["explored"], n_users),
    }


def store_numbers(connection: Connection) -> dict[str, float]:
    """Return the gauges of all campaigns for Prometheus."""
    found: dict[str, float] = {}
    for one in campaigns(connection):
        labels = {"campaign": one.name}
        plan, _ = plan_of(connection, one.name, one.plan_version)
        begun = [job for state in OPEN for job in jobs_of(connection, one.name, state=state)]
        numbers = {
            "unswayed_epoch": float(plan.epoch),
            "unswayed_learning_running": float(sum(job.state in OPEN for job in begun)),
        }
        for done in jobs_of(connection, one.name, state=DONE, most=1):
            numbers["unswayed_learning_seconds"] = (done.alive_ms - done.created_ms) / 1000.0
            numbers["unswayed_learning_success_timestamp_seconds"] = done.alive_ms / 1000.0
        found |= {labelled(name, labels): number for name, number in numbers.items()}
    return found


def _exploration(plan: EpochPlan, contexts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return for each context what the plan explores, and what was explored."""
    nothing = {"decisions": 0, "rewards": 0}
    return {
        text: {
            "policy_action": rule.action,
            "surviving": len(rule.surviving),
            "explorer_share": (1.0 - plan.control_share) * rule.explorer_share,
            **contexts.get(text, {}).get("explore", nothing),
        }
        for text, rule in zip(plan.contexts.texts, plan.rules, strict=True)
    }


def _target(
    connection: Connection,
    campaign: Campaign,
    plan: EpochPlan,
    contexts: dict[str, dict[str, Any]],
    explored: int,
    n_users: int | None,
) -> dict[str, Any]:
    """Return the traffic that the target needs and the time left, or why it is unknown."""
    settings = campaign.settings
    # Leaves of former partitions are no contexts any more.
    contexts = {name: modes for name, modes in contexts.items() if name in plan.contexts}
    visits = np.array([sum(n["decisions"] for n in modes.values()) for modes in contexts.values()])
    target = {"suboptimality": settings.target, "needed": None, "seconds_left": None, "note": ""}
    if settings.alpha == "auto" or not visits.sum():
        return {**target, "note": "the plan needs a given alpha and some traffic."}
    try:
        traffic = plan_traffic(
            visits / visits.sum(),
            len(settings.actions),
            settings.alpha,
            settings.target,
            _FAILURE,
            n_users=n_users,
        )
    except InputError as error:
        return {**target, "note": str(error)}
    needed = traffic.methods[0].total_interactions
    ((recent,),) = connection.execute(
        "SELECT COALESCE(SUM(n), 0) FROM decisions WHERE campaign = ? AND first_ms > ?",
        (campaign.name, now_ms() - _RATE_MS),
    )
    age = min(max(now_ms() - campaign.created_ms, 1), _RATE_MS) / 1000.0
    shares = [plan.rule(context).explorer_share for context in contexts]
    exploring = (1.0 - plan.control_share) * float(np.average(shares, weights=visits))
    rate = float(recent) / age * exploring
    left = max(needed - explored, 0)
    return {
        **target,
        "needed": needed,
        "seconds_left": 0.0 if not left else left / rate if rate > 0 else None,
        "note": "what the paper's method needs against the worst attacks (`unswayed plan`), at the "
        "traffic of the last hour; the default learner often needs less, which is not calibrated.",
    }
