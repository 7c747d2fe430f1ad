"""What a worker process does now and then: metrics, learnings that are due, old decisions."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from unswayed.service.calls import Runtime
from unswayed.service.catalogue import ACTIVE, NOTHING_LEARNED, now_ms
from unswayed.service.database import Connection, Database, StoreError
from unswayed.service.errors import Refusal
from unswayed.service.jobs import add_job, jobs_of, start_learner, start_warming
from unswayed.service.writing import LONGEST_CHUNK_MS

#: Ours: how often metrics are left for other processes, and learning is looked after.
_CHORE_SECONDS = 1.0

#: Ours: how often old decisions are looked for.
_DELETE_SECONDS = 60.0

#: Ours: a server that is up for so long is there to stay, and somebody may want to learn.
_WARM_SECONDS = 10.0


async def do_chores(runtime: Runtime, *, warms: bool) -> None:
    """Do all of it until the task is cancelled; ``warms`` compiles what learning needs."""
    started = deleting = time.monotonic()
    while True:
        await asyncio.sleep(_CHORE_SECONDS)
        await asyncio.to_thread(runtime.metrics.save)
        with suppress(StoreError, Refusal):
            await asyncio.to_thread(learn_when_due, runtime)
        if time.monotonic() > deleting:
            with suppress(StoreError, Refusal):
                is_done = await asyncio.to_thread(delete_when_old, runtime)
                deleting = time.monotonic() + (_DELETE_SECONDS if is_done else 0.0)
        if warms and time.monotonic() > started + _WARM_SECONDS:
            warms = False
            await asyncio.to_thread(warm_if_first, runtime)


def learn_when_due(runtime: Runtime) -> None:
    """Start the learnings that campaigns ask for."""
    for serving in list(runtime.service.watcher.state.campaigns.values()):
        every = serving.settings.learn_every
        if not every or serving.state != ACTIVE:
            continue
        with runtime.service.database.connected() as connection:
            jobs = jobs_of(connection, serving.name)
            last = jobs[0].created_ms if jobs else serving.created_ms
            if now_ms() < last + 1000.0 * every:
                continue
            with connection.transaction():
                # Another worker may have been faster since.
                jobs = jobs_of(connection, serving.name)
                if jobs and now_ms() < jobs[0].created_ms + 1000.0 * every:
                    continue
                job, is_new = add_job(connection, serving.name)
        if is_new:
            start_learner(runtime.store_url, serving.name, job.id)


def delete_when_old(runtime: Runtime) -> bool:
    """Delete decisions that campaigns keep no longer; whether none is left."""
    done = [
        delete_old(
            runtime.service.database, serving.name, serving.settings.forgotten_before(now_ms())
        )
        for serving in list(runtime.service.watcher.state.campaigns.values())
        if serving.settings.retention
    ]
    return all(done)


def warm_if_first(runtime: Runtime) -> None:
    """Compile what the methods of campaigns need, unless something was learned here before."""
    campaigns = list(runtime.service.watcher.state.campaigns.values())
    if any(serving.policy_version != NOTHING_LEARNED for serving in campaigns):
        return
    for method in {serving.settings.method for serving in campaigns}:
        with suppress(FileExistsError):  # one of the workers does it
            (runtime.metrics.folder / f"{method}.warm").touch(exist_ok=False)
            start_warming(method)


#: Ours: what one transaction deletes, so that rewards never wait long for it.
_SLICE_MS = 10_000

#: Ours: how long the deleting may take at once.
_SECONDS = 0.2


def delete_old(database: Database, campaign: str, before_ms: int) -> bool:
    """Delete decisions made before a time, and all that came of them; whether none is left."""
    end = time.monotonic() + _SECONDS
    with database.connected() as connection:
        while (oldest := _oldest_ms(connection, campaign)) is not None and oldest < before_ms:
            if time.monotonic() > end:
                return False
            with connection.transaction():
                _delete_slice(connection, campaign, min(oldest + _SLICE_MS, before_ms))
    return True


def _oldest_ms(connection: Connection, campaign: str) -> int | None:
    """Return the time of the oldest decision that can be deleted."""
    found = []
    for column, table in (("first_ms", "decisions"), ("time_ms", "asked")):
        rows = connection.execute(
            f"SELECT {column} FROM {table} WHERE campaign = ? ORDER BY {column} LIMIT 1",
            (campaign,),
        )
        # A row of decisions goes when the last that may be in it does.
        more = LONGEST_CHUNK_MS if table == "decisions" else 0
        found += [int(row[0]) + more for row in rows]
    for table in ("rewards", "activations"):
        rows = connection.execute(
            f"SELECT decision FROM {table} WHERE campaign = ? ORDER BY decision LIMIT 1",
            (campaign,),
        )
        found += [int.from_bytes(bytes(row[0])[:6], "big") for row in rows]
    return min(found, default=None)


def _delete_slice(connection: Connection, campaign: str, until_ms: int) -> None:
    connection.execute(
        "DELETE FROM decisions WHERE campaign = ? AND first_ms < ?",
        (campaign, until_ms - LONGEST_CHUNK_MS),
    )
    connection.execute("DELETE FROM asked WHERE campaign = ? AND time_ms < ?", (campaign, until_ms))
    for table in ("rewards", "activations"):
        connection.execute(
            f"DELETE FROM {table} WHERE campaign = ? AND decision < ?",
            (campaign, until_ms.to_bytes(6, "big")),
        )
