"""Routes that look at a campaign: status, report, audit, export, single decisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from unswayed.service.calls import Call, Reply, Streamed
from unswayed.service.daily import report_of, reports_of
from unswayed.service.database import Connection
from unswayed.service.errors import Refusal, bad_request
from unswayed.service.forgetting import delete_user, refuse_tokens
from unswayed.service.history import assignments, explain, recent_decisions
from unswayed.service.jobs import offline_command
from unswayed.service.settings import check_label
from unswayed.service.status import status as status_of

_PIECE = 1 << 16

#: Ours: processes look for changes four times a second, and write what waits as often.
_SETTLED_SECONDS = 1.0


async def status(call: Call) -> dict[str, Any]:
    """Return the status of a campaign."""
    return await call.read(lambda c: status_of(c, call.campaign))


async def report(call: Call) -> Reply:
    """Return the report of a campaign, computed in a separate process."""
    return Reply(await _worked_out(call, "report", _numbers(call, policy="a version such as 3")))


async def list_reports(call: Call) -> dict[str, Any]:
    """Return the daily reports, the newest first."""
    return {"reports": await call.read(lambda c: reports_of(c, call.campaign))}


async def show_report(call: Call) -> dict[str, Any]:
    """Return the report of a day."""
    return await call.read(lambda c: report_of(c, call.campaign, call.path["day"]))


async def audit(call: Call) -> dict[str, Any]:
    """Return the audit of a campaign, computed in a separate process."""
    found: dict[str, Any] = json.loads(await _worked_out(call, "audit"))
    if "refused" in found:
        raise Refusal(422, "nothing_to_audit", found["refused"])
    return found


def _numbers(call: Call, **meanings: str) -> dict[str, int]:
    """Return those of some query parameters that are given, all of them numbers."""
    found = {}
    for name, meaning in meanings.items():
        text = call.query.get(name)
        if text is not None:
            if not text.isascii() or not text.isdigit() or len(text) > 14:
                raise bad_request(f"{name} is {meaning}.")
            found[name] = int(text)
    return found


async def _worked_out(call: Call, task: str, more: dict[str, int] | None = None) -> bytes:
    """Return the output of a separate process."""
    call.service.watcher.state.campaign(call.campaign)
    parts: list[bytes] = []

    async def keep(data: bytes) -> None:
        parts.append(data)

    await _offline(call, task, more or {}, keep)
    return b"".join(parts)


async def export(call: Call) -> Streamed:
    """Stream the learnable decisions as Parquet."""
    call.service.watcher.state.campaign(call.campaign)
    since = "milliseconds since 1970"
    between: dict[str, Any] = {**_numbers(call, since_ms=since, until_ms=since)}
    if call.query.get("pseudonyms", "false") not in ("true", "false"):
        raise bad_request("pseudonyms is true or false.")
    if call.query.get("pseudonyms") == "true":
        between["secret"] = call.service.watcher.secrets.assignment.hex()

    async def produce(piece: Callable[[bytes], Awaitable[None]]) -> None:
        await _offline(call, "export", between, piece)

    return Streamed(produce, b"application/vnd.apache.parquet", f"{call.campaign}.parquet")


async def forget_user(call: Call) -> dict[str, Any]:
    """Delete all that was recorded of a user, and refuse the tokens that are out."""
    user = check_label("user", call.query.get("user", ""))
    database, secret = call.service.database, call.service.watcher.secrets.assignment
    await call.change(lambda c: refuse_tokens(c, call.campaign, user, secret))
    # Until all processes know that, and have written what waits.
    await asyncio.sleep(_SETTLED_SECONDS)
    deleted = await run_in_threadpool(delete_user, database, call.campaign, user)
    return {"user": user, "deleted": deleted}


async def explain_decision(call: Call) -> dict[str, Any]:
    """Return what was decided, under which plan and policy, and why."""
    secret = call.service.watcher.secrets.assignment
    return await call.read(lambda c: explain(c, call.campaign, call.path["decision"], secret))


async def list_decisions(call: Call) -> dict[str, Any]:
    """Return the latest decisions; for one user also the current actions."""
    user = call.query.get("user")

    def look(connection: Connection) -> dict[str, Any]:
        found = recent_decisions(connection, call.campaign, user)
        if user is None:
            return found
        secret = call.service.watcher.secrets.assignment
        return {
            "user": user,
            "now": assignments(connection, call.campaign, user, secret),
            **found,
        }

    if user is not None:
        check_label("user", user)
    return await call.read(look)


async def _offline(
    call: Call,
    task: str,
    between: dict[str, Any],
    piece: Callable[[bytes], Awaitable[None]],
) -> None:
    """Pass on the output of a separate process; 503 if it fails before anything is sent."""
    process = await asyncio.create_subprocess_exec(
        *offline_command(task),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"store": call.runtime.store_url, "campaign": call.campaign, "between": between}
    try:
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        while data := await process.stdout.read(_PIECE):
            await piece(data)
        if await process.wait():
            raise Refusal(503, "unavailable", f"the {task} failed; try again.")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
