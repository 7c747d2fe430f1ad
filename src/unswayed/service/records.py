"""Recorded decisions: exports, listings, explanations, deletion.

Decisions are stored in order of time, many per row; rewards are stored separately under the
decision's id, which begins with the time. Both are read and joined one time slice at a time, which
bounds memory. A decision that was lost in a crash is restored from its reward, which contains it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.learners.features.shape import NO_LEAF
from unswayed.policy import Decider, EpochPlan
from unswayed.service.catalogue import bump, now_ms, plan_of, policy_of
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.database import Connection, Database
from unswayed.service.deciding import SHADOW, Ranking, from_bits, leaf_of, play_of
from unswayed.service.errors import Refusal, bad_request
from unswayed.service.planning import partition_of
from unswayed.service.settings import SCHEMA, Settings
from unswayed.service.tokens import (
    Record,
    decode_record,
    decode_records,
    encode_record,
    encode_records,
)
from unswayed.service.writing import LONGEST_CHUNK_MS, CountKey, Counts

SLICE = 50_000  # Ours: decisions in a slice
# Ours: milliseconds after the window for writing rewards that were received within it
GRACE_MS = 1_000
_LAST_MS = 2**48 - 1  # The largest time that fits six bytes
_BETWEEN = "WHERE campaign = ? AND first_ms > ? AND first_ms < ?"


def schema_of(settings: Settings) -> pa.Schema:
    """Return the columns of a campaign's export."""
    if not settings.features:
        return SCHEMA
    types = {"number": pa.float64(), "category": pa.string()}
    features = [(name, types[feature.type]) for name, feature in settings.features.items()]
    return pa.schema([*SCHEMA, *features, ("partition", pa.string())])


def export_batches(
    connection: Connection,
    name: str,
    *,
    since_ms: int = 0,
    until_ms: int | None = None,
    restored: Counts | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the decisions of a campaign whose reward windows are closed, in time slices.

    Decisions known only from their rewards or activations are counted in ``restored``.
    """
    campaign = campaign_of(connection, name)
    settings = campaign.settings
    closed = int(now_ms() - 1000.0 * settings.reward_window - GRACE_MS)
    end = closed if until_ms is None else min(until_ms, closed)
    plans: dict[int, EpochPlan] = {}
    schema = schema_of(settings)
    # Older rows belong to a deleted campaign with the same name.
    first = max(since_ms, campaign.created_ms, settings.forgotten_before(now_ms()))
    for start_ms, end_ms in _slices(connection, name, first, min(end, _LAST_MS)):
        rows = [
            _row(connection, record, settings, rewards, plans)
            for record, rewards in _joined(connection, name, start_ms, end_ms, restored)
        ]
        if rows:
            columns = zip(zip(*rows, strict=True), schema, strict=True)
            arrays = [pa.array(values, column.type) for values, column in columns]
            yield pa.record_batch(arrays, schema=schema)


def export_to(
    connection: Connection,
    name: str,
    sink: BinaryIO,
    *,
    since_ms: int = 0,
    until_ms: int | None = None,
    secret: str | None = None,
) -> None:
    """Write the decisions of a campaign whose reward windows are closed as Parquet.

    With a ``secret`` (hexadecimal), users are replaced by pseudonyms.
    """
    schema = schema_of(campaign_of(connection, name).settings)
    place = schema.get_field_index("user")
    with pq.ParquetWriter(sink, schema) as writer:
        for batch in export_batches(connection, name, since_ms=since_ms, until_ms=until_ms):
            if secret is not None:
                key = bytes.fromhex(secret)
                names = [pseudonym(key, name, user) for user in batch["user"].to_pylist()]
                batch = batch.set_column(place, "user", pa.array(names, pa.string()))
            writer.write_batch(batch)


def _slices(
    connection: Connection, name: str, first_ms: int, end_ms: int
) -> Iterator[tuple[int, int]]:
    """Yield time slices that cover an interval, with about ``SLICE`` decisions in each."""
    if end_ms <= first_ms:
        return
    start, n_decisions = first_ms, 0
    sql = f"SELECT first_ms, n FROM decisions {_BETWEEN} ORDER BY first_ms"
    for chunk_ms, n in connection.execute(sql, name, first_ms - LONGEST_CHUNK_MS, end_ms):
        if n_decisions >= SLICE and chunk_ms > start:
            yield start, chunk_ms
            start, n_decisions = chunk_ms, 0
        n_decisions += n
    yield start, end_ms


def _chunks(connection: Connection, name: str, first_ms: int, end_ms: int) -> Iterator[Record]:
    """Yield the recorded decisions with ``first_ms <= time < end_ms``."""
    sql = f"SELECT records FROM decisions {_BETWEEN}"
    for (records,) in connection.execute(sql, name, first_ms - LONGEST_CHUNK_MS, end_ms):
        for record in decode_records(records):
            if first_ms <= record.time_ms < end_ms:
                yield record


def _joined(
    connection: Connection, name: str, first_ms: int, end_ms: int, restored: Counts | None
) -> Iterator[tuple[Record, list[tuple[int, float]]]]:
    """Yield the decisions of a slice that count, in order of time, with their rewards.

    A reward is a pair (time, value).
    """
    ids = (first_ms.to_bytes(6, "big"), end_ms.to_bytes(6, "big"))
    decisions = {one.id: one for one in _chunks(connection, name, first_ms, end_ms)}
    n_recorded = len(decisions)
    rewards: dict[bytes, list[tuple[int, float]]] = {}
    shown: set[bytes] = set()
    between = "WHERE campaign = ? AND decision >= ? AND decision < ?"
    for decision, value, received_ms, record in connection.execute(
        f"SELECT decision, value, received_ms, record FROM rewards {between}", name, *ids
    ):
        rewards.setdefault(decision, []).append((received_ms, value))
        decisions.setdefault(decision, decode_record(record))
    for decision, record in connection.execute(
        f"SELECT decision, record FROM activations {between}", name, *ids
    ):
        shown.add(decision)
        decisions.setdefault(decision, decode_record(record))
    if restored is not None:
        lost = islice(decisions.values(), n_recorded, None)
        restored.update((CountKey.of(record), "decisions") for record in lost)
    for id_ in sorted(decisions):
        record = decisions[id_]
        given = rewards.get(id_, [])
        # A deferred decision with a reward must have been shown.
        if given or not record.is_deferred or id_ in shown:
            yield record, given


def _row(
    connection: Connection,
    record: Record,
    settings: Settings,
    rewards: list[tuple[int, float]],
    plans: dict[int, EpochPlan],
) -> tuple[object, ...]:
    if record.plan not in plans and (record.eligible or record.mode == "explore"):
        plans[record.plan], _ = plan_of(connection, record.campaign, record.plan)
    propensity: float | None = record.propensity
    given_mode: float | None = 1.0
    if record.mode == SHADOW:
        propensity = given_mode = record.propensity or None
    elif record.mode == "explore":
        given_mode = 1.0 / len(plans[record.plan].rule(record.context).surviving)
    features = [record.attributes.get(name) for name in settings.features]
    return (
        record.id.hex(),
        record.time_ms,
        record.user,
        record.context,
        record.action,
        aggregated(rewards, settings),
        propensity,
        record.mode,
        given_mode,
        len(rewards),
        record.plan,
        record.planned_action or None,
        record.planned_propensity or None,
        from_bits(record.eligible, plans[record.plan]) if record.eligible else None,
        *features,
        *([record.partition.hex() or None] if features else []),
    )


def aggregated(rewards: list[tuple[int, float]], settings: Settings) -> float:
    """Aggregate (time, value) rewards of one decision; without any, return the default reward."""
    if not rewards:
        return settings.default_reward
    match settings.aggregation:
        case "first":
            return min(rewards)[1]
        case "sum":
            # Each reward lies within the range, but their sum may not.
            total = sum(value for _, value in rewards)
            return min(max(total, settings.lowest_reward), settings.highest_reward)
        case "max":
            return max(value for _, value in rewards)


def find_record(connection: Connection, name: str, id_: bytes) -> Record | None:
    """Return the decision with an id, or None; its time limits the search to a few rows."""
    for table in ("rewards", "activations"):
        for (record,) in connection.select(table, "record", campaign=name, decision=id_):
            return decode_record(record)
    ms = int.from_bytes(id_[:6], "big")
    found_here = (one for one in _chunks(connection, name, ms, ms + 1) if one.id == id_)
    return next(found_here, None)


MOST_LISTED = 50  # Ours: maximum number of listed decisions
_MOST_READ = 200_000  # Ours: maximum number of decisions searched for a user


def recent_decisions(connection: Connection, name: str, user: str | None) -> dict[str, Any]:
    """Return the latest decisions, newest first, of all users or of one.

    ``n_read`` is the number of decisions that were searched; older ones are not found.
    """
    settings = campaign_of(connection, name).settings
    found: list[Record] = []
    n_read = 0
    sql = "SELECT records FROM decisions WHERE campaign = ? ORDER BY first_ms DESC"
    with connection.reading(), closing(connection.stream(sql, name)) as rows:
        newest_first = chain.from_iterable(
            sorted(decode_records(records), key=lambda one: one.id, reverse=True)
            for (records,) in rows
        )
        for record in islice(newest_first, _MOST_READ):
            n_read += 1
            if user is None or record.user == user:
                found.append(record)
            if len(found) == MOST_LISTED:
                break
    decisions = []
    columns = "received_ms, value"
    for record in found:
        rewards = connection.select("rewards", columns, campaign=name, decision=record.id)
        reward = aggregated(rewards, settings) if rewards else None
        decisions.append({**_shown(record), "plan": record.plan, "reward": reward})
    return {"n_read": n_read, "decisions": decisions}


def _shown(record: Record) -> dict[str, Any]:
    names = ("time_ms", "user", "context", "action", "propensity", "mode")
    found = {"decision": record.id.hex(), **{name: getattr(record, name) for name in names}}
    return {**found, "attributes": record.attributes} if record.partition else found


def assignments(connection: Connection, name: str, user: str, secret: bytes) -> dict[str, Any]:
    """Return the user's current mode and action in each context.

    The action is None where it is drawn at every play.
    """
    plan, _ = plan_of(connection, name, campaign_of(connection, name).plan_version)
    decider = Decider(plan, secret)
    found = {}
    for context in plan.contexts.texts:
        ruling = decider.decide(user, context)
        is_drawn = ruling.mode == "explore" and not plan.rule(context).is_sticky
        action = None if is_drawn else str(ruling.action)
        found[context] = {"mode": str(ruling.mode), "action": action}
    return found


_WHY = {
    "explore": "the user is among the {share:.0%} who explore, and {draw} of {n} equally likely "
    "actions.",
    "exploit": "the user does not explore, and gets what the policy plays in this context.",
    "control": "the user is in the control group of {control:.0%}, and gets the baseline.",
    "substitute": "the planned action is not among the actions that the caller listed; of these "
    "the user gets the one that the policy ranks best.",
}


def explain(connection: Connection, name: str, decision: str, secret: bytes) -> dict[str, Any]:
    """Explain a decision: user, action, plan, policy and reason.

    The decision is recomputed from the secret and the plan; ``is_reproduced`` tells whether the
    result equals the record.
    """
    try:
        id_ = bytes.fromhex(decision)
    except ValueError:
        id_ = b""
    if len(id_) != 16:
        raise bad_request("the id of a decision must be 32 hexadecimal digits.")
    record = find_record(connection, name, id_)
    if record is None:
        raise Refusal(
            404, "unknown_decision", f"campaign {name!r} has no decision {decision[:80]!r}."
        )
    plan, policy_version = plan_of(connection, name, record.plan)
    policy = policy_of(connection, name, policy_version)
    partition = partition_of(campaign_of(connection, name).settings, policy)
    leaf = record.context
    if record.partition and partition is not None:
        leaf = leaf_of(partition, record.attributes) or NO_LEAF
    rule = plan.rule(record.context)
    ruling = Decider(plan, secret).decide(record.user, record.context, play_of(id_))
    eligible = from_bits(record.eligible, plan) if record.eligible else None
    if eligible is not None:
        ruling = Ranking(plan, policy).ruling(ruling, record.context, frozenset(eligible))
    is_shadow = record.mode == SHADOW
    planned = record.planned_action if is_shadow else record.action
    columns = "reward_id, value, received_ms"
    rewards = connection.select("rewards", columns, campaign=name, decision=id_)
    why = _WHY[ruling.mode].format(
        share=rule.explorer_share,
        control=plan.control_share,
        n=len(rule.surviving),
        draw="keeps one" if rule.is_sticky else "draws one at every play",
    )
    if is_shadow:
        why = f"shadow mode: the caller's own action was returned. The plan would have: {why}"
    method = cells = None
    if policy is not None:
        method, cells = policy.method, policy.to_json()["mean_rewards"].get(record.context)
    return {
        **_shown(record),
        "is_deferred": record.is_deferred,
        "eligible": eligible,
        "planned_action": planned,
        "why": why,
        "is_reproduced": ruling.action == planned
        and leaf == record.context
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
        "policy": {"version": policy_version, "method": method, "cells": cells},
        "rewards": [
            dict(zip(("reward_id", "reward", "received_ms"), row, strict=True)) for row in rewards
        ],
    }


def pseudonym(secret: bytes, campaign: str, user: str) -> str:
    """Return a keyed pseudonym of a user.

    >>> pseudonym(bytes(16), "shop", "ann") == pseudonym(bytes(16), "other", "ann")
    False
    """
    return hashlib.blake2b(
        f"{campaign}\0{user}".encode(), key=secret, digest_size=16, person=b"unswayed-user"
    ).hexdigest()


def forgotten_of(connection: Connection, name: str) -> dict[str, int]:
    """Return, for the pseudonym of each deleted user, the time before which tokens are rejected."""
    return dict(connection.select("forgotten", "pseudonym, before_ms", campaign=name))


def refuse_tokens(connection: Connection, name: str, user: str, secret: bytes) -> None:
    """Refuse further rewards and activations of the decisions made for a user so far."""
    campaign_of(connection, name)
    row = (name, pseudonym(secret, name, user), now_ms() + 1)
    # Keep the later time, in case the clock was set back.
    more = (
        "ON CONFLICT (campaign, pseudonym) DO UPDATE SET before_ms = excluded.before_ms "
        "WHERE excluded.before_ms > forgotten.before_ms"
    )
    connection.insert("forgotten", [row], more)
    # Delete daily reports, too, because they may name the user.
    connection.execute("DELETE FROM reports WHERE campaign = ?", name)
    bump(connection)


def delete_user(database: Database, name: str, user: str) -> dict[str, int]:
    """Delete all records of a user, and return their numbers."""
    deleted = {"decisions": 0}
    with database.connected() as connection:
        order = "ORDER BY first_ms"
        times = connection.select("decisions", "DISTINCT first_ms", order, campaign=name)
        for (first_ms,) in times:
            with connection.transaction():
                deleted["decisions"] += _rewrite(connection, name, first_ms, user)
        for table in ("rewards", "activations"):
            deleted[table] = _delete_rows(connection, name, table, "decision", user)
        deleted["idempotency_keys"] = _delete_rows(connection, name, "asked", "key", user)
    return deleted


def _rewrite(connection: Connection, name: str, first_ms: int, user: str) -> int:
    """Remove a user's decisions from the rows with a start time; return their number."""
    n_deleted = 0
    where = "WHERE campaign = ? AND first_ms = ? AND records = ?"
    for (data,) in connection.select("decisions", "records", campaign=name, first_ms=first_ms):
        records = decode_records(data)
        kept = [encode_record(record) for record in records if record.user != user]
        if len(kept) == len(records):
            continue
        n_deleted += len(records) - len(kept)
        row = (name, first_ms, data)
        if kept:
            sql = f"UPDATE decisions SET records = ?, n = ? {where}"
            connection.execute(sql, encode_records(kept), len(kept), *row)
        else:
            connection.execute(f"DELETE FROM decisions {where}", *row)
    return n_deleted


def _delete_rows(connection: Connection, name: str, table: str, column: str, user: str) -> int:
    """Delete the rows of a table that belong to a user's decisions, one per transaction."""
    sql = f"SELECT {column}, record FROM {table} WHERE campaign = ?"
    with connection.reading():
        rows = connection.stream(sql, name)
        keys = [key for key, record in rows if decode_record(record).user == user]
    delete = f"DELETE FROM {table} WHERE campaign = ? AND {column} = ?"
    for key in set(keys):
        with connection.transaction():
            connection.execute(delete, name, key)
    return len(keys)


#: The column of each table that gives a row's age; ids of decisions begin with their time.
_TIMES = {
    "decisions": "first_ms",
    "asked": "time_ms",
    "rewards": "decision",
    "activations": "decision",
}

_SLICE_MS = 10_000  # Ours: time span deleted per transaction; a short one delays rewards less
_DELETE_SECONDS_AT_ONCE = 0.2  # Ours: seconds per round of deletion


def delete_old(database: Database, campaign: str, before_ms: int) -> bool:
    """Delete decisions made before a time, with their rewards; return whether none is left."""
    end = time.monotonic() + _DELETE_SECONDS_AT_ONCE
    with database.connected() as connection:
        for table, column in _TIMES.items():
            # Rows hold several decisions; delete one only if even its last decision is old enough.
            limit = before_ms - (LONGEST_CHUNK_MS if table == "decisions" else 0)
            first = f"ORDER BY {column} LIMIT 1"
            while rows := connection.select(table, column, first, campaign=campaign):
                is_id = column == "decision"
                oldest = int.from_bytes(rows[0][0][:6], "big") if is_id else rows[0][0]
                if oldest >= limit:
                    break
                if time.monotonic() > end:
                    return False
                until = min(oldest + _SLICE_MS, limit)
                delete = f"DELETE FROM {table} WHERE campaign = ? AND {column} < ?"
                with connection.transaction():
                    connection.execute(delete, campaign, until.to_bytes(6) if is_id else until)
    return True
