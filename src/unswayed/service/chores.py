"""What a worker process does now and then: metrics, learnings that are due, old decisions."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from unswayed.service.calls import Runtime
from unswayed.service.catalogue import ACTIVE, NOTHING_LEARNED, now_ms
from unswayed.service.database import StoreError
from unswayed.service.errors import Refusal
from unswayed.service.jobs import add_job, jobs_of, start_learner, start_warming
from unswayed.service.retention import delete_old

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
