"""Background work and status of a campaign: learning jobs, daily reports, and exploration."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from unswayed.errors import InputError
from unswayed.limits.planner import plan_traffic
from unswayed.policy import EpochPlan
from unswayed.service import catalogue
from unswayed.service.catalogue import Campaign, now_ms
from unswayed.service.database import Connection
from unswayed.service.errors import Refusal
from unswayed.service.metrics import labelled
from unswayed.service.planning import schedule_of

QUEUED, RUNNING, DONE, FAILED, LOST = "queued", "running", "done", "failed", "lost"
OPEN = (QUEUED, RUNNING)

#: Ours: seconds between heartbeats of a learner, and milliseconds of silence after which it counts
#: as lost: more while it starts, which takes long on a busy machine.
HEARTBEAT_SECONDS = 1.0
_SILENCE_MS = {QUEUED: 120_000, RUNNING: 30_000}

KEPT_JOBS = 100  # Ours: maximum number of stored jobs per campaign; all policies are kept


@dataclass(frozen=True, slots=True)
class Job:
    """A job as stored; ``result`` is its outcome, or the reason for its failure."""

    id: str
    campaign: str
    state: str
    step: str
    created_ms: int
    alive_ms: int
    result: dict[str, Any]

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Job:
        """Return the job of a row of the store; jobs without recent heartbeats count as lost."""
        id_, campaign, state, step, created_ms, alive_ms, result = row
        # The sign does not matter: heartbeats lie in the future if the clock was set back.
        if state in OPEN and abs(now_ms() - alive_ms) > _SILENCE_MS[state]:
            state = LOST
        return cls(id_, campaign, state, step, created_ms, alive_ms, json.loads(result))


def jobs_of(
    connection: Connection, name: str, *, state: str | None = None, most: int = KEPT_JOBS
) -> list[Job]:
    """Return the jobs of a campaign, newest first, optionally only those recorded in a state."""
    equal = {"campaign": name} | ({} if state is None else {"state": state})
    more = f"ORDER BY created_ms DESC, id LIMIT {most}"
    return [Job.of(row) for row in connection.select("jobs", more=more, **equal)]


def last_job_ms(connection: Connection, campaign: Campaign) -> int:
    """Return the creation time of the last job, or else of the campaign, ignoring future times."""
    sql = "SELECT MAX(created_ms) FROM jobs WHERE campaign = ? AND created_ms <= ?"
    ((last,),) = connection.execute(sql, campaign.name, now_ms())
    return campaign.created_ms if last is None else int(last)


def job_of(connection: Connection, name: str, job_id: str) -> Job:
    """Return a job of a campaign."""
    rows = connection.select("jobs", campaign=name, id=job_id)
    if not rows:
        raise Refusal(404, "unknown_job", f"campaign {name!r} has no job {job_id[:80]!r}.")
    return Job.of(rows[0])


def add_job(connection: Connection, name: str) -> tuple[Job, bool]:
    """Return the campaign's open job, or a new one; and whether it is new."""
    catalogue.locked(connection, name)
    for job in jobs_of(connection, name):
        if job.state in OPEN:
            return job, False
    now = now_ms()
    row = (secrets.token_hex(8), name, QUEUED, "", now, now, "{}")
    connection.insert("jobs", [row])
    newest_first = f"ORDER BY created_ms DESC LIMIT {KEPT_JOBS}"
    kept = connection.select("jobs", "created_ms", newest_first, campaign=name)
    connection.execute("DELETE FROM jobs WHERE campaign = ? AND created_ms < ?", name, *kept[-1])
    return Job.of(row), True


def update_job(
    connection: Connection,
    job_id: str,
    *,
    state: str | None = None,
    step: str | None = None,
    result: dict[str, Any] | None = None,
) -> None:
    """Record a heartbeat of a job, and its new state."""
    text = None if result is None else json.dumps(result)
    sql = (
        "UPDATE jobs SET alive_ms = ?, state = COALESCE(?, state), step = COALESCE(?, step), "
        "result = COALESCE(?, result) WHERE id = ?"
    )
    connection.execute(sql, now_ms(), state, step, text, job_id)


def offline_command(task: str) -> list[str]:
    """Return the command of a background task, which reads its request as JSON from its input."""
    return [sys.executable, "-m", "unswayed.service.offline", task]


def start(task: str, **request: str) -> subprocess.Popen[bytes]:
    """Start a task in a separate process, which outlives this one."""
    process = subprocess.Popen(
        offline_command(task),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    # The store's address may contain a password. A pipe hides it from the list of processes.
    with process.stdin as pipe:
        pipe.write(json.dumps(request).encode())
    threading.Thread(target=process.wait, daemon=True).start()  # avoids zombies
    return process


_CLAIMED = "{}"  # State of a daily report that is in progress
CLAIM_MS = 3_600_000  # Ours: milliseconds after which a report in progress counts as failed


def today() -> str:
    """Return the current date in UTC."""
    return f"{datetime.fromtimestamp(now_ms() / 1000.0, UTC):%Y-%m-%d}"


def claim(connection: Connection, name: str) -> bool:
    """Claim today's report for this process; return False if it is made or being made already.

    A claim expires after ``CLAIM_MS``, in case its process was killed.
    """
    catalogue.campaign(connection, name)
    sql = "DELETE FROM reports WHERE campaign = ? AND report = ? AND created_ms < ?"
    connection.execute(sql, name, _CLAIMED, now_ms() - CLAIM_MS)
    row = (name, today(), now_ms(), _CLAIMED)
    (is_new,) = connection.insert_new("reports", [row])
    return is_new


def reports_of(connection: Connection, name: str) -> list[dict[str, Any]]:
    """Return the reports of a campaign, the newest first."""
    catalogue.campaign(connection, name)
    rows = connection.select("reports", "report", "ORDER BY day DESC", campaign=name)
    return [json.loads(report) for (report,) in rows if report != _CLAIMED]


def report_of(connection: Connection, name: str, day: str) -> dict[str, Any]:
    """Return the report of a day."""
    found = next((one for one in reports_of(connection, name) if one["day"] == day), None)
    if found is None:
        raise Refusal(404, "unknown_day", f"campaign {name!r} has no report of {day[:40]!r}.")
    return found


_RATE_MS = 3_600_000  # Milliseconds of recent traffic from which a rate is computed
_FAILURE = 0.1  # Planned probability of missing the target; the default of ``unswayed plan``


def counted(connection: Connection, name: str) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
    """Return the numbers of decisions and rewards by context and mode, and their totals."""
    sums = "context, mode, SUM(decisions), SUM(rewards), SUM(matches)"
    by_mode = "GROUP BY context, mode ORDER BY context, mode"
    rows = connection.select("counts", sums, by_mode, campaign=name)
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
    """Return a campaign's counts, and the time it needs for its target at the current traffic."""
    campaign = catalogue.campaign(connection, name)
    contexts, totals = counted(connection, name)
    plan, _ = catalogue.plan_of(connection, name, campaign.plan_version)
    epoch = {"number": plan.epoch, "is_alarmed": plan.is_alarmed}
    # Users are counted only when learning, so these numbers are as of the last job.
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
    for one in catalogue.campaigns(connection):
        labels = {"campaign": one.name}
        plan, _ = catalogue.plan_of(connection, one.name, one.plan_version)
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
    """Return the planned and the actual exploration of each context."""
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
    """Return the traffic that the target needs and the time left, or why these are unknown."""
    settings = campaign.settings
    # Leaves of earlier partitions are not contexts of the plan.
    contexts = {name: modes for name, modes in contexts.items() if name in plan.contexts}
    visits = np.array([sum(n["decisions"] for n in modes.values()) for modes in contexts.values()])
    target = {"suboptimality": settings.target, "needed": None, "seconds_left": None, "note": ""}
    if settings.alpha == "auto" or not visits.sum():
        return {**target, "note": "planning needs a number as alpha, and some traffic."}
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
    sql = "SELECT COALESCE(SUM(n), 0) FROM decisions WHERE campaign = ? AND first_ms > ?"
    ((recent,),) = connection.execute(sql, campaign.name, now_ms() - _RATE_MS)
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
        "traffic of the last hour; the default learner often needs less, but by an unknown factor.",
    }
