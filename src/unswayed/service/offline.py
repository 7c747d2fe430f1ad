"""Background work in separate processes: learning, exports, reports and audits.

``python -m unswayed.service.offline TASK`` reads its input as JSON from standard input.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unswayed.arrays import IntArray
from unswayed.audit.auditing import audit_log
from unswayed.errors import InputError
from unswayed.estimators import mean_intervals
from unswayed.estimators.trimming import binomial_upper_quantiles, trimmed_mean
from unswayed.events import Columns
from unswayed.learners.epochs import ALARM_WEIGHT
from unswayed.learners.explaining import decision_rows
from unswayed.learners.features.encoding import LEVEL_USERS, MOST_LEVELS
from unswayed.learners.features.shape import NO_LEAF
from unswayed.learners.from_log import LearnedLog, learn_log
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.policy import Policy
from unswayed.policy.documents import json_number
from unswayed.policy.partition import Partition
from unswayed.policy.policy import read_codes
from unswayed.service import catalogue, jobs, records
from unswayed.service.database import Connection, Database, StoreError, opened
from unswayed.service.deciding import OTHER_LEVEL
from unswayed.service.errors import Refusal
from unswayed.service.planning import Progress, contexts_of, schedule_of
from unswayed.service.settings import Settings
from unswayed.service.writing import Counts, write_counts

_NICENESS = 10  # Ours: niceness of background processes


def learn_campaign(
    connection: Connection,
    name: str,
    on_step: Callable[[str], None] = lambda _: None,
    *,
    known: str | None = None,
) -> tuple[LearnedLog, Progress, Counts]:
    """Learn from a campaign's records, in the same way as ``unswayed learn`` from a log.

    Also return the campaign's progress, and the counts of decisions known only from their rewards.
    ``known`` is a file of reviewed accounts, for the default method.
    """
    there = catalogue.campaign(connection, name)
    settings = there.settings
    on_step("exporting")
    restored: Counts = Counter()
    batches = records.export_batches(connection, name, restored=restored)
    events, plays, n_silent = learnable(batches, settings)
    age = 0.0
    if len(plays):
        age = float(np.minimum(plays, settings.max_interactions_per_user or plays.max()).mean())
    shaping = _shaping(connection, there, age, len(plays))
    events = with_common_levels(settings, events, shaping.get("partition"))
    reward_range = settings.reward_range
    if reward_range is not None and len(events):  # older rewards may lie outside a new range
        ends = pc.min_max(events["reward"]).as_py()
        reward_range = min(reward_range[0], ends["min"]), max(reward_range[1], ends["max"])
    learned = learn_log(
        events,
        alpha=settings.alpha,
        method=settings.method,
        columns=Columns(),
        max_interactions_per_user=settings.max_interactions_per_user,
        reward_range=reward_range,
        known=known if settings.method == DEFAULT_METHOD else None,
        # A recently added action may not have been played yet.
        allow_unplayed=True,
        on_step=on_step,
        **shaping,
    )
    events = in_leaves(events, settings, learned.policy)
    # The console shows the plain mean over all users next to the estimate.
    means: dict[str, dict[str, float]] = {}
    for row in events.group_by(["context", "action"]).aggregate([("reward", "mean")]).to_pylist():
        means.setdefault(row["context"], {})[row["action"]] = row["reward_mean"]
    source = {**learned.policy.source, "plain_means": means}
    learned = replace(learned, policy=replace(learned.policy, source=source))
    removed = 1.0 - float(learned.user_weights[learned.interactions > 0].mean())
    progress = Progress(age, len(plays), removed > ALARM_WEIGHT, n_silent / len(plays))
    return learned, progress, restored


def _shaping(
    connection: Connection, there: catalogue.Campaign, age: float, n_users: int
) -> dict[str, Any]:
    """Return the options for learning from features: within an epoch, its partition is kept."""
    features = there.settings.features
    if not features:
        return {}
    served = catalogue.policy_of(connection, there.name, there.policy_version)
    plan, _ = catalogue.plan_of(connection, there.name, there.plan_version)
    if served is not None and age < schedule_of(plan, n_users).end(plan.epoch):
        return {"partition": served.partition}
    trusted = [name for name, feature in features.items() if feature.trusted]
    return {"features": list(features), "trusted": trusted}


def with_common_levels(
    settings: Settings, events: pa.Table, partition: Partition | None = None
) -> pa.Table:
    """Return recorded events in which rare levels of categories are ``OTHER_LEVEL``.

    For a new partition, levels are rare if fewer than ``LEVEL_USERS`` users have them, or if they
    are not among the ``MOST_LEVELS`` most common: otherwise accounts could create any number of
    leaves.
    """
    known = {} if partition is None else {one.name: one.levels for one in partition.features}
    for name, feature in settings.features.items():
        levels = known.get(name)
        if feature.type == "number" or (levels is not None and OTHER_LEVEL not in levels):
            continue
        column = events[name]
        kept = pa.array(_common(events["user"], column) if levels is None else levels, pa.string())
        is_kept = pc.or_(pc.is_in(column, kept), pc.is_null(column))
        folded = pc.if_else(is_kept, column, OTHER_LEVEL)
        events = events.set_column(events.schema.get_field_index(name), name, folded)
    return events


def _common(users: pa.ChunkedArray, levels: pa.ChunkedArray) -> list[str]:
    """Return the levels that enough users have, the most common first."""
    pairs = pa.table({"user": users, "level": levels}).group_by(["user", "level"]).aggregate([])
    counts = pairs.group_by("level").aggregate([("user", "count")]).to_pylist()
    enough = [row for row in counts if row["level"] and row["user_count"] >= LEVEL_USERS]
    enough.sort(key=lambda row: (-row["user_count"], row["level"]))
    return [row["level"] for row in enough[:MOST_LEVELS]]


def in_leaves(events: pa.Table, settings: Settings, policy: Policy | None) -> pa.Table:
    """Return events whose contexts are leaves of the policy's partition, if there are features."""
    if not settings.features or not len(events):
        return events
    codes = np.zeros(len(events), np.int64)
    if policy is not None:
        codes = read_codes(policy, with_common_levels(settings, events, policy.partition))[1]
    contexts = pa.array(np.array([*contexts_of(settings, policy), NO_LEAF])[codes])
    return events.set_column(events.schema.get_field_index("context"), "context", contexts)


def learnable(
    batches: Iterable[pa.RecordBatch], settings: Settings
) -> tuple[pa.Table, IntArray, int]:
    """Return the events to learn from, the decisions of each user, and the number of silent users.

    Only explorers are learned from: a random share of the users, who draw uniformly from the
    surviving actions, as the theory requires. Other users play the policy, which tells nothing
    about other actions. Shadow events are used if their propensity is known.

    Propensities are returned if there are shadow events or features. With features they differ
    between leaves, which the next partition may merge.
    """
    kept, users = [], []
    for batch in batches:
        is_drawn = pc.equal(batch["mode"], "explore")
        is_shadow = pc.and_(
            pc.equal(batch["mode"], "shadow"), pc.is_valid(batch["mode_propensity"])
        )
        kept.append(batch.filter(pc.or_(is_drawn, is_shadow)))
        users.append(
            pa.table({"user": batch["user"], "n_rewards": batch["n_rewards"]})
            .group_by("user")
            .aggregate([("n_rewards", "count"), ("n_rewards", "sum")])
        )
    table = pa.Table.from_batches(kept, records.schema_of(settings))
    names = ["user", "context", "action", "reward", *settings.features]
    if settings.features or "shadow" in table["mode"].unique().to_pylist():
        place = table.schema.get_field_index("propensity")
        table = table.set_column(place, "propensity", table["mode_propensity"])
        names.append("propensity")
    table = table.select(names)
    if not users:
        return table, np.zeros(0, np.int64), 0
    sums = [("n_rewards_count", "sum"), ("n_rewards_sum", "sum")]
    by_user = pa.concat_tables(users).group_by("user").aggregate(sums)
    plays: IntArray = by_user["n_rewards_count_sum"].to_numpy()
    return table, plays, int((by_user["n_rewards_sum_sum"].to_numpy() == 0).sum())


_SILENT = 0.5  # Ours: minimum share of silent accounts for a note; rare rewards cause silence, too


def silence_note(share: float, settings: Settings) -> str:
    """Return a note on users who never report a reward, such as crawlers."""
    note = f"{share:.0%} of the accounts never reported a reward"
    if settings.is_deferred:
        return f"{note}, though their decisions were shown."
    return (
        f"{note} and count with the default; if crawlers or prefetching are among them, set "
        "is_deferred and report what was shown."
    )


def work_on(database: Database, name: str, job_id: str, *, known: str | None = None) -> None:
    """Work on a job: wait for other learners, learn, and publish in one transaction."""
    stopping = threading.Event()

    def tell() -> None:
        while not stopping.wait(jobs.HEARTBEAT_SECONDS):
            with suppress(StoreError), database.connected() as found, found.transaction():
                jobs.update_job(found, job_id)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        _learn_and_publish(database, name, job_id, known)
    except (InputError, Refusal) as error:
        with database.connected() as connection, connection.transaction():
            jobs.update_job(connection, job_id, state=jobs.FAILED, result={"error": str(error)})
    finally:
        stopping.set()
        teller.join()


def _learn_and_publish(database: Database, name: str, job_id: str, known: str | None) -> None:
    def on_step(text: str) -> None:
        with database.connected() as connection, connection.transaction():
            jobs.update_job(connection, job_id, state=jobs.RUNNING, step=text)

    with database.learner_lock(), database.connected() as connection:
        log, progress, restored = learn_campaign(connection, name, on_step, known=known)
        on_step("publishing")
        with connection.transaction():
            settings = catalogue.campaign(connection, name).settings
            is_active = settings.activate_learned
            version = catalogue.add_policy(
                connection, name, log.policy, job=job_id, activate=is_active, progress=progress
            )
            # Count decisions that were lost in crashes and restored from their rewards.
            write_counts(connection, "restored", restored, is_total=True)
            notes = list(log.notes)
            if progress.silent_share >= _SILENT:
                notes.append(silence_note(progress.silent_share, settings))
            result = {
                "version": version,
                "is_active": is_active,
                "age": progress.age,
                "users": progress.n_users,
                "silent_share": progress.silent_share,
                "findings": log.summary.to_json(),
                "decisions": decision_rows(log.policy),
                "notes": notes,
            }
            # Update the job in the same transaction, so that a finished job has exactly one policy.
            jobs.update_job(connection, job_id, state=jobs.DONE, step="", result=result)


CONFIDENCE = 0.95  # Joint confidence level of the intervals of two arms
_UNKNOWN_ALPHA = 0.1  # Used for intervals if alpha is "auto" and nothing was learned yet

_ARMS = ("control", "exploit", "explore")


def report(connection: Connection, name: str, *, policy: int | None = None) -> dict[str, Any]:
    """Return the mean rewards of the arms under a policy, by default the served one; and uplifts.

    Each user counts once, with the mean of their rewards. The intervals allow for a share alpha of
    colluders.
    """
    campaign = catalogue.campaign(connection, name)
    version = campaign.policy_version if policy is None else policy
    rows = connection.select("plans", "version, created_ms", campaign=name, policy=version)
    plans = {int(row[0]) for row in rows}
    since_ms = min((int(row[1]) for row in rows), default=None)
    alpha = campaign.settings.alpha
    if alpha == "auto":
        served = catalogue.policy_of(connection, name, campaign.policy_version)
        alpha = _UNKNOWN_ALPHA if served is None else served.alpha
    batches = records.export_batches(connection, name)
    table = pa.Table.from_batches(batches, records.schema_of(campaign.settings))
    table = table.filter(np.isin(table["plan"].to_numpy(), list(plans)))
    arms = {mode: _arm(table, mode, alpha) for mode in _ARMS}
    shadow = table.filter(pc.equal(table["mode"], "shadow"))
    n_alike = pc.sum(pc.equal(shadow["action"], shadow["planned_action"])).as_py() or 0
    return {
        "campaign": name,
        "policy": version,
        "since_ms": since_ms,
        "note": _note(campaign, version, since_ms, table.num_rows),
        "mode": campaign.settings.mode,
        "alpha": alpha,
        "confidence": CONFIDENCE,
        "decisions": table.num_rows,
        "arms": arms,
        "uplift": {mode: _uplift(arms[mode], arms["control"]) for mode in _ARMS[1:]},
        "shadow": {
            "decisions": shadow.num_rows,
            "match_rate": n_alike / shadow.num_rows if shadow.num_rows else None,
        },
    }


def _note(campaign: catalogue.Campaign, version: int, since_ms: int | None, decisions: int) -> str:
    """Describe the data of a report, or explain why there is none."""
    if since_ms is None:
        return f"policy {version} was never served."
    since = f"{datetime.fromtimestamp(since_ms / 1000.0, UTC):%Y-%m-%d %H:%M} UTC"
    if decisions:
        return (
            f"decisions under policy {version}, first served {since}; intervals assume that means "
            "over users are near normal."
        )
    before = f"; ?policy={version - 1} reports on the one before" if version else ""
    return (
        f"policy {version}, first served {since}, has no decision yet whose reward window "
        f"({campaign.settings.reward_window:g} s) is closed{before}."
    )


def _arm(table: pa.Table, mode: str, alpha: float) -> dict[str, Any]:
    """Return the means of an arm over its users, plain and robust."""
    chosen = table.filter(pc.equal(table["mode"], mode))
    means = chosen.group_by("user").aggregate([("reward", "mean")])["reward_mean"].to_numpy()
    arm: dict[str, Any] = {"users": len(means), "decisions": chosen.num_rows}
    if not len(means):
        return {**arm, "mean": None, "plain_mean": None, "low": None, "high": None}
    failure = (1.0 - CONFIDENCE) / 4
    n_bad = binomial_upper_quantiles(np.array([len(means)]), alpha, failure)
    groups = np.zeros(len(means), np.int64)
    ends = mean_intervals(means, groups, 1, n_bad=n_bad, failure_probability=failure)
    return {
        **arm,
        "mean": trimmed_mean(means, alpha=alpha).estimate,
        "plain_mean": float(means.mean()),
        "low": json_number(ends.low[0]),
        "high": json_number(ends.high[0]),
    }


def _uplift(arm: dict[str, Any], control: dict[str, Any]) -> dict[str, float | None]:
    """Return the uplift of an arm over the control group, with an interval."""
    sides = {
        "estimate": (arm["mean"], control["mean"]),
        "plain_estimate": (arm["plain_mean"], control["plain_mean"]),
        "low": (arm["low"], control["high"]),
        "high": (arm["high"], control["low"]),
    }
    return {
        name: None if one is None or other is None else float(one - other)
        for name, (one, other) in sides.items()
    }


NOTHING_YET = "there is nothing to audit yet: no explored decision has a closed reward window."


def audit_campaign(
    connection: Connection, name: str, *, known: str | None = None
) -> dict[str, Any]:
    """Return the audit as JSON values, or ``{"refused": reason}`` if there is too little data."""
    there = catalogue.campaign(connection, name)
    settings = there.settings
    events, _, _ = learnable(records.export_batches(connection, name), settings)
    events = in_leaves(
        events, settings, catalogue.policy_of(connection, name, there.policy_version)
    )
    if not len(events):
        return {"refused": NOTHING_YET}
    try:
        return audit_log(
            events, alpha=settings.alpha, regime="server", columns=Columns(), known=known
        ).to_json()
    except InputError as error:
        return {"refused": str(error)}


_WEBHOOK_SECONDS = 10.0  # Ours: timeout of a webhook


def make_report(connection: Connection, name: str, *, known: str | None = None) -> dict[str, Any]:
    """Make today's report, store it, and notify the webhook."""
    campaign = catalogue.campaign(connection, name)
    settings, day = campaign.settings, jobs.today()
    nothing: dict[str, Any] = {"day": None, "actions": {}, "suspects": []}
    old = next((one for one in jobs.reports_of(connection, name) if one["day"] < day), nothing)
    plan, _ = catalogue.plan_of(connection, name, campaign.plan_version)
    actions = {
        str(context): str(rule.action)
        for context, rule in zip(plan.contexts, plan.rules, strict=True)
    }
    audit = audit_campaign(connection, name, known=known)
    if "refused" in audit:
        audit |= {"statement": audit["refused"], "share": {"estimate": None}}
        audit |= {"flagged": 0, "accounts": [], "log": {"events": 0}}
    share = audit["share"]["estimate"]
    suspects = [one["user"] for one in audit["accounts"][: audit["flagged"]]]
    before = set(old["suspects"])
    found: dict[str, Any] = {
        "day": day,
        "since": old["day"],
        "campaign": name,
        "policy": campaign.policy_version,
        "epoch": plan.epoch,
        "actions": actions,
        "audit": audit["statement"],
        "share": share,
        "flagged": audit["flagged"],
        "suspects": suspects,
        "events": audit["log"]["events"],
        "changed": [
            {"context": context, "from": old["actions"][context], "to": action}
            for context, action in actions.items()
            if old["actions"].get(context, action) != action
        ],
        "new_suspects": [user for user in suspects if user not in before],
    }
    if settings.webhook and share is not None and share > settings.webhook_share:
        found["webhook"] = _told(settings.webhook, found)
    with connection.transaction():
        sql = "UPDATE reports SET report = ? WHERE campaign = ? AND day = ?"
        connection.execute(sql, json.dumps(found), name, day)
    return found


def _told(webhook: str, found: Mapping[str, Any]) -> str:
    """Post a report without account names to the webhook; return its status as text."""
    body = {key: value for key, value in found.items() if not key.endswith("suspects")}
    body["new_suspects"] = len(found["new_suspects"])
    try:
        status = httpx.post(webhook, json=body, timeout=_WEBHOOK_SECONDS).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"not reached: {type(error).__name__}"
    return f"status {status}"


def main() -> None:
    """Run the task named on the command line."""
    os.nice(_NICENESS)
    task, request = sys.argv[1], json.load(sys.stdin)
    database, name = opened(request["store"]), request["campaign"]
    known = request.get("known") or None
    try:
        if task == "learn":
            work_on(database, name, request["job"], known=known)
            return
        with database.connected() as connection:
            match task:
                case "export":
                    records.export_to(connection, name, sys.stdout.buffer, **request["between"])
                case "daily":
                    make_report(connection, name, known=known)
                case "audit":
                    found = audit_campaign(connection, name, known=known)
                    json.dump(found, sys.stdout, allow_nan=False)
                case "report":
                    found = report(connection, name, **request["between"])
                    json.dump(found, sys.stdout, allow_nan=False)
    except (InputError, Refusal) as error:
        sys.exit(f"{task} of campaign {name!r} failed: {error}")


if __name__ == "__main__":
    main()
