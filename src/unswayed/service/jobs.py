"""Learning jobs and daily reports, which run in processes of their own."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from unswayed.service.catalogue import Campaign, now_ms
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.database import COLUMNS, Connection
from unswayed.service.errors import Refusal

QUEUED, RUNNING, DONE, FAILED, LOST = "queued", "running", "done", "failed", "lost"
OPEN = (QUEUED, RUNNING)

#: Ours: seconds between heartbeats of a learner, and milliseconds without one until it is lost.
#: Starting the process takes longer on a busy machine.
HEARTBEAT_SECONDS = 1.0
_SILENCE_MS = {QUEUED: 120_000, RUNNING: 30_000}

#: Ours: jobs of a campaign that are kept; policies stay.
KEPT_JOBS = 100


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is in the store; ``result`` is what it found, or why it failed."""

    id: str
    campaign: str
    state: str
    step: str
    created_ms: int
    alive_ms: int
    result: dict[str, Any]

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Job:
        """Return the job of a row of the store; one that was silent for too long is lost."""
        id_, campaign, state, step, created_ms, alive_ms, result = row
        # A heartbeat of the future is one of before the clock was set back.
        if state in OPEN and abs(now_ms() - alive_ms) > _SILENCE_MS[state]:
            state = LOST
        return cls(id_, campaign, state, step, created_ms, alive_ms, json.loads(result))


def jobs_of(
    connection: Connection, name: str, *, state: str | None = None, most: int = KEPT_JOBS
) -> list[Job]:
    """Return the jobs of a campaign, the newest first; those with a recorded state if given."""
    where, values = ("", (name,)) if state is None else ("AND state = ?", (name, state))
    rows = connection.execute(
        f"SELECT {', '.join(COLUMNS['jobs'])} FROM jobs WHERE campaign = ? {where} "
        f"ORDER BY created_ms DESC, id LIMIT {most}",
        values,
    )
    return [Job.of(row) for row in rows]


def last_job_ms(connection: Connection, campaign: Campaign) -> int:
    """Return when the last job was created, or else the campaign; none of the future."""
    ((last,),) = connection.execute(
        "SELECT COALESCE(MAX(created_ms), ?) FROM jobs WHERE campaign = ? AND created_ms <= ?",
        (campaign.created_ms, campaign.name, now_ms()),
    )
    return int(last)


def job_of(connection: Connection, name: str, job_id: str) -> Job:
    """Return a job of a campaign."""
    rows = connection.execute(
        f"SELECT {', '.join(COLUMNS['jobs'])} FROM jobs WHERE campaign = ? AND id = ?",
        (name, job_id),
    )
    if not rows:
        raise Refusal(404, "unknown_job", f"campaign {name!r} has no job {job_id[:80]!r}.")
    return Job.of(rows[0])


def add_job(connection: Connection, name: str) -> tuple[Job, bool]:
    """Return the campaign's open job, or a new one; and whether it is new."""
    # Others who ask at this moment wait here until the transaction ends.
    connection.execute("UPDATE campaigns SET plan = plan WHERE name = ?", (name,))
    campaign_of(connection, name)
    for job in jobs_of(connection, name):
        if job.state in OPEN:
            return job, False
    now = now_ms()
    row = (secrets.token_hex(8), name, QUEUED, "", now, now, "{}")
    connection.insert("jobs", COLUMNS["jobs"], [row])
    connection.execute(
        "DELETE FROM jobs WHERE campaign = ? AND created_ms < (SELECT MIN(created_ms) FROM (SELECT "
        f"created_ms FROM jobs WHERE campaign = ? ORDER BY created_ms DESC LIMIT {KEPT_JOBS}) n)",
        (name, name),
    )
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
    connection.execute(
        "UPDATE jobs SET alive_ms = ?, state = COALESCE(?, state), step = COALESCE(?, step), "
        "result = COALESCE(?, result) WHERE id = ?",
        (now_ms(), state, step, text, job_id),
    )


def offline_command(task: str) -> list[str]:
    """Return the command that does a task in a process of its own; it reads JSON first."""
    return [sys.executable, "-m", "unswayed.service.offline", task]


def start(task: str, **request: str) -> subprocess.Popen[bytes]:
    """Start a task in a process of its own, which outlives this one."""
    process = subprocess.Popen(
        offline_command(task),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    # The address may hold a password: it goes through a pipe, not into the list of processes.
    with process.stdin as pipe:
        pipe.write(json.dumps(request).encode())
    threading.Thread(target=process.wait, daemon=True).start()  # so that no zombie is left
    return process


#: The report of a day that is being made.
_CLAIMED = "{}"


def today() -> str:
    """Return the day, in UTC."""
    return f"{datetime.fromtimestamp(now_ms() / 1000.0, UTC):%Y-%m-%d}"


def claim(connection: Connection, name: str) -> bool:
    """Claim today's report; return whether nobody did before."""
    campaign_of(connection, name)
    row = (name, today(), now_ms(), _CLAIMED)
    (is_new,) = connection.insert_new("reports", COLUMNS["reports"], [row])
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
        raise Refusal(404, "unknown_day", f"campaign {name!r} has no report of {day[:40]!r}.")
    return found
