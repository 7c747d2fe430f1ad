"""Decisions that were made: the latest ones with their rewards, and why one was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from unswayed.policy import Decider
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.catalogue import plan_of, policy_of
from unswayed.service.database import Connection
from unswayed.service.deciding import SHADOW, play_of
from unswayed.service.eligible import Ranking, from_bits
from unswayed.service.errors import bad_request, not_found
from unswayed.service.export import aggregated, find_record
from unswayed.service.tokens import Record

#: Ours: decisions that are listed, and those that are looked through for a user.
MOST_LISTED = 50
_MOST_READ = 200_000

#: Ours: rows of the store that are read at once.
_ROWS = 200

_records = msgspec.msgpack.Decoder(list[Record])


def recent_decisions(connection: Connection, name: str, user: str | None) -> dict[str, Any]:
    """Return the latest decisions, the newest first; of one user, if one is named.

    ``n_read`` says how many were looked through: a user who was not asked for long is not found.
    """
    settings = campaign_of(connection, name).settings
    found: list[Record] = []
    n_read = 0
    for record in _newest_first(connection, name):
        n_read += 1
        if user is None or record.user == user:
            found.append(record)
        if len(found) == MOST_LISTED or n_read == _MOST_READ:
            break
    rewards = _rewards(connection, name, [record.id for record in found])
    return {
        "n_read": n_read,
        "decisions": [
            {
                "decision": record.id.hex(),
                "time_ms": record.time_ms,
                "user": record.user,
                "context": record.context,
                "action": record.action,
                "propensity": record.propensity,
                "mode": record.mode,
                "plan": record.plan,
                "reward": aggregated(rewards[record.id], settings)
                if record.id in rewards
                else None,
            }
            for record in found
        ],
    }


def assignments(connection: Connection, name: str, user: str, secret: bytes) -> dict[str, Any]:
    """Return what a user gets in each context now; no action where it is drawn at every play."""
    plan, _ = plan_of(connection, name, campaign_of(connection, name).plan_version)
    decider = Decider(plan, secret)
    found = {}
    for context in plan.contexts.texts:
        ruling, rule = decider.decide(user, context), plan.rule(context)
        is_drawn = ruling.mode == "explore" and not rule.is_sticky
        found[context] = {
            "mode": str(ruling.mode),
            "action": None if is_drawn else str(ruling.action),
        }
    return found


def _newest_first(connection: Connection, name: str) -> Iterator[Record]:
    """Yield decisions by falling time of the rows that hold them."""
    offset = 0
    while True:
        rows = connection.execute(
            "SELECT records FROM decisions WHERE campaign = ? ORDER BY first_ms DESC "
            "LIMIT ? OFFSET ?",
            (name, _ROWS, offset),
        )
        for (records,) in rows:
            yield from sorted(_records.decode(records), key=lambda one: one.id, reverse=True)
        if len(rows) < _ROWS:
            return
        offset += _ROWS


def _rewards(
    connection: Connection, name: str, ids: list[bytes]
) -> dict[bytes, list[tuple[int, float]]]:
    found: dict[bytes, list[tuple[int, float]]] = {}
    for id_ in ids:
        for received_ms, value in connection.execute(
            "SELECT received_ms, value FROM rewards WHERE campaign = ? AND decision = ?",
            (name, id_),
        ):
            found.setdefault(id_, []).append((received_ms, value))
    return found


_WHY = {
    "explore": "the user is among the {share:.0%} who explore, and {draw} of {n} actions evenly.",
    "exploit": "the user does not explore, and gets what the policy plays in this context.",
    "control": "the user is among the {control:.0%} who are held back, and gets the baseline.",
    "substitute": "what was due is not among the actions that the caller named; of these the user "
    "gets the best by the policy.",
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
    eligible = from_bits(record.eligible, plan) if record.eligible else None
    if eligible is not None:
        ruling = Ranking(plan, policy).ruling(ruling, record.context, frozenset(eligible))
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
        "eligible": eligible,
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
