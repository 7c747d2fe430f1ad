"""The report of a campaign: rewards by arm, uplift, and an audit of its records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.audit.auditing import audit_log
from unswayed.errors import InputError
from unswayed.estimators.contaminated_means import mean_intervals
from unswayed.estimators.trimming import binomial_upper_quantiles, trimmed_mean
from unswayed.events import Columns
from unswayed.policy.documents import json_number
from unswayed.service.catalogue import Campaign, policy_of
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.database import Connection
from unswayed.service.export import SCHEMA, export_batches
from unswayed.service.learner import write_learnable
from unswayed.storage import temporary_folder

#: Every interval holds with this probability, the two arms' together.
CONFIDENCE = 0.95

#: The share that is allowed for when it is to be found from the data, and nothing was learned yet.
_UNKNOWN_ALPHA = 0.1

_ARMS = ("control", "exploit", "explore")


def report(connection: Connection, name: str, *, policy: int | None = None) -> dict[str, Any]:
    """Return the rewards of each arm under a policy, and the uplift.

    A user counts once, with the mean of its rewards. Intervals hold even if a share alpha of the
    users lies.

    Parameters
    ----------
    policy
        Version of the policy; the one that is served by default.
    """
    campaign = campaign_of(connection, name)
    version = campaign.policy_version if policy is None else policy
    rows = connection.execute(
        "SELECT version, created_ms FROM plans WHERE campaign = ? AND policy = ?", (name, version)
    )
    plans = {int(row[0]) for row in rows}
    since_ms = min((int(row[1]) for row in rows), default=None)
    alpha = _alpha(connection, campaign)
    columns = ["user", "mode", "reward", "plan", "action", "planned_action"]
    table = pa.Table.from_batches(export_batches(connection, name), SCHEMA).select(columns)
    of_policy = np.isin(table["plan"].to_numpy(), list(plans))
    table = table.filter(pa.array(of_policy))
    arms = {mode: _arm(table, mode, alpha) for mode in _ARMS}
    matches = _matches(table)
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
        "shadow": matches,
    }


def _note(campaign: Campaign, version: int, since_ms: int | None, decisions: int) -> str:
    """Return what the numbers are about, or why there are none."""
    if since_ms is None:
        return f"policy {version} was never served."
    since = f"{datetime.fromtimestamp(since_ms / 1000.0, UTC):%Y-%m-%d %H:%M} UTC"
    about = f"decisions under policy {version}, first served {since}"
    if decisions:
        return f"{about}."
    before = f"; ?policy={version - 1} reports on the one before" if version else ""
    return (
        f"no {about}, has a closed reward window ({campaign.settings.reward_window:g} s) "
        f"yet{before}."
    )


def _alpha(connection: Connection, campaign: Campaign) -> float:
    if campaign.settings.alpha != "auto":
        return campaign.settings.alpha
    policy = policy_of(connection, campaign.name, campaign.policy_version)
    return _UNKNOWN_ALPHA if policy is None else policy.alpha


def _arm(table: pa.Table, mode: str, alpha: float) -> dict[str, Any]:
    """Return the means of an arm over its users, plain and robust."""
    chosen = table.filter(pa.compute.equal(table["mode"], mode))
    means = chosen.group_by("user").aggregate([("reward", "mean")])["reward_mean"].to_numpy()
    arm: dict[str, Any] = {"users": len(means), "decisions": chosen.num_rows}
    if not len(means):
        return {**arm, "mean": None, "plain_mean": None, "low": None, "high": None}
    failure = (1.0 - CONFIDENCE) / 2
    n_bad = binomial_upper_quantiles(np.array([len(means)]), alpha, failure / 2)
    ends = mean_intervals(
        means,
        np.zeros(len(means), np.int64),
        1,
        n_bad=n_bad,
        failure_probability=failure / 2,
    )
    return {
        **arm,
        "mean": trimmed_mean(means, alpha=alpha).estimate,
        "plain_mean": float(means.mean()),
        "low": json_number(ends.low[0]),
        "high": json_number(ends.high[0]),
    }


def _uplift(arm: dict[str, Any], control: dict[str, Any]) -> dict[str, Any]:
    """Return the uplift of an arm over the control group, with an interval."""

    def minus(one: str, other: str) -> float | None:
        if arm[one] is None or control[other] is None:
            return None
        return float(arm[one] - control[other])

    return {
        "estimate": minus("mean", "mean"),
        "plain_estimate": minus("plain_mean", "plain_mean"),
        "low": minus("low", "high"),
        "high": minus("high", "low"),
    }


def _matches(table: pa.Table) -> dict[str, Any]:
    shadow = table.filter(pa.compute.equal(table["mode"], "shadow"))
    n = shadow.num_rows
    alike = pa.compute.sum(pa.compute.equal(shadow["action"], shadow["planned_action"])).as_py()
    return {"decisions": n, "match_rate": None if not n else (alike or 0) / n}


NOTHING_YET = "there is nothing to audit yet: no explored decision has a closed reward window."


def audit_campaign(connection: Connection, name: str) -> dict[str, Any]:
    """Return the audit as plain values, or ``{"refused": why}`` if there is too little to audit."""
    settings = campaign_of(connection, name).settings
    with temporary_folder() as folder:
        path = folder / "events.parquet"
        write_learnable(export_batches(connection, name), path)
        if not pq.read_metadata(path).num_rows:
            return {"refused": NOTHING_YET}
        try:
            audited = audit_log(
                path,
                alpha=settings.alpha,
                regime="server",
                method=settings.method,
                columns=Columns(),
            )
        except InputError as error:
            return {"refused": str(error)}
    return audited.audit.to_json()
