"""Why a decision was made: the plan, the policy and the draws, computed again from the secret."""

from __future__ import annotations

from typing import Any

from unswayed.policy import Decider
from unswayed.service.catalogue import plan_of, policy_of
from unswayed.service.database import Connection
from unswayed.service.deciding import SHADOW, play_of
from unswayed.service.errors import bad_request, not_found
from unswayed.service.export import find_record

_WHY = {
    "explore": "the user is among the {share:.0%} who explore, and {draw} of {n} actions evenly.",
    "exploit": "the user does not explore, and gets what the policy plays in this context.",
    "control": "the user is among the {control:.0%} who are held back, and gets the baseline.",
}


def explain(connection: Connection, name: str, decision: str, secret: bytes) -> dict[str, Any]:
    """Return who was asked what, under which plan and policy, and why.

    The decision is computed again from the secret and the plan; ``is_reproduced`` says that it came
    out as it was recorded.
    """
    try:
        id_ = bytes.fromhex(decision)
    except ValueError:
        id_ = b""
    if len(id_) != 16:
        raise bad_request("a decision's id is 32 hexadecimal digits.")
    record = find_record(connection, name, id_)
    if record is None:
        raise not_found(f"campaign {name!r} has no decision {decision[:80]!r}.", "unknown_decision")
    plan, policy_version = plan_of(connection, name, record.plan)
    rule = plan.rule(record.context)
    ruling = Decider(plan, secret).decide(record.user, record.context, play_of(id_))
    policy = policy_of(connection, name, policy_version)
    is_shadow = record.mode == SHADOW
    planned = record.planned_action if is_shadow else record.action
    rewards = connection.execute(
        "SELECT reward_id, value, received_ms FROM rewards WHERE campaign = ? AND decision = ?",
        (name, id_),
    )
    why = _WHY[ruling.mode].format(
        share=rule.explorer_share,
        control=plan.control_share,
        n=len(rule.surviving),
        draw="keeps one" if rule.is_sticky else "draws one at every play",
    )
    if is_shadow:
        why = f"shadow mode: the caller's own action was returned. The plan would have: {why}"
    return {
        "decision": decision,
        "time_ms": record.time_ms,
        "user": record.user,
        "context": record.context,
        "action": record.action,
        "propensity": record.propensity,
        "mode": record.mode,
        "is_deferred": record.is_deferred,
        "planned_action": planned,
        "why": why,
        "is_reproduced": ruling.action == planned
        and (is_shadow or (ruling.mode == record.mode and ruling.propensity == record.propensity)),
        "plan": {
            "version": record.plan,
            "epoch": plan.epoch,
            "policy_action": rule.action,
            "surviving": list(rule.surviving),
            "explorer_share": rule.explorer_share,
            "is_sticky": rule.is_sticky,
            "control_share": plan.control_share,
            "baseline": rule.baseline,
        },
        "policy": {
            "version": policy_version,
            "method": None if policy is None else policy.method,
            "cells": None
            if policy is None
            else policy.to_json()["mean_rewards"].get(record.context),
        },
        "rewards": [
            {"reward_id": row[0], "reward": row[1], "received_ms": row[2]} for row in rewards
        ],
    }
