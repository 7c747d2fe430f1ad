"""Routes of the server itself."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool

import unswayed
from unswayed.service.calls import Call, Reply
from unswayed.service.errors import Refusal


async def index(_: Call) -> dict[str, Any]:
    """Say what this is; pages for people take this place."""
    return {
        "service": "unswayed",
        "version": unswayed.__version__,
        "documentation": "/openapi.json",
    }


async def healthz(_: Call) -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


async def readyz(call: Call) -> dict[str, str]:
    """Say whether rewards can be taken in."""
    service = call.service
    if not service.writer.is_healthy or not service.watcher.is_connected:
        raise Refusal(503, "not_ready", "the store cannot be used now.")
    return {"status": "ready"}


async def metrics(call: Call) -> Reply:
    """Return the numbers for Prometheus."""
    refresh_gauges(call)
    text = await run_in_threadpool(call.runtime.metrics.text)
    return Reply(text.encode(), content_type=b"text/plain; version=0.0.4; charset=utf-8")


def refresh_gauges(call: Call) -> None:
    """Look up what is not counted as it happens."""
    writer, found = call.service.writer, call.runtime.metrics
    found.gauges["unswayed_store_healthy"] = float(writer.is_healthy)
    found.gauges["unswayed_decisions_waiting"] = float(writer.n_waiting)
    found.counts["unswayed_store_commits_total"] = float(writer.n_commits)
    found.counts["unswayed_decisions_dropped_total"] = float(writer.n_dropped)
