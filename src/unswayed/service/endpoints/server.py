"""Routes of the server itself, of callers' keys, and of the keys that sign tokens."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool

import unswayed
from unswayed.service import keys
from unswayed.service.calls import Call, Reply
from unswayed.service.catalogue import campaigns, plan_of
from unswayed.service.database import Connection, StoreError
from unswayed.service.errors import Refusal
from unswayed.service.jobs import DONE, jobs_of
from unswayed.service.metrics import labelled
from unswayed.service.secret_file import retire, rotate


async def index(_: Call) -> dict[str, Any]:
    """Say what this is; pages for people take this place."""
    return {
        "service": "unswayed",
        "version": unswayed.__version__,
        "documentation": "/openapi.json",
    }


async def healthz(_: Call) -> dict[str, str]:
    """Say that the process is up."""
    return {"status": "ok"}


async def readyz(call: Call) -> dict[str, str]:
    """Say whether rewards can be taken in."""
    service = call.service
    if not service.writer.is_healthy or not service.watcher.is_connected:
        raise Refusal(503, "not_ready", "the store cannot be used now.")
    return {"status": "ready"}


async def metrics(call: Call) -> Reply:
    """Return the numbers for Prometheus."""
    call.runtime.refresh_metrics()
    try:
        of_store = await call.read(_store_numbers)
    except StoreError:  # numbers of the processes are there all the same
        of_store = {}
    text = await run_in_threadpool(call.runtime.metrics.text, of_store)
    return Reply(text.encode(), content_type=b"text/plain; version=0.0.4; charset=utf-8")


def _store_numbers(connection: Connection) -> dict[str, float]:
    """Return the gauges that all processes share."""
    found: dict[str, float] = {}
    for one in campaigns(connection):
        labels = {"campaign": one.name}
        plan, _ = plan_of(connection, one.name, one.plan_version)
        listed = jobs_of(connection, one.name)
        done = next((job for job in listed if job.state == DONE), None)
        found[labelled("unswayed_epoch", labels)] = float(plan.epoch)
        n_open = sum(job.is_open for job in listed)
        found[labelled("unswayed_learning_running", labels)] = float(n_open)
        if done is not None:
            took = (done.alive_ms - done.created_ms) / 1000.0
            found[labelled("unswayed_learning_seconds", labels)] = took
            ended = labelled("unswayed_learning_success_timestamp_seconds", labels)
            found[ended] = done.alive_ms / 1000.0
    return found


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to make."""

    role: Literal["decide", "reward", "admin"]


class NewGlobalKey(NewKey, frozen=True, forbid_unknown_fields=True):
    """A key to make for any campaign, or with ``*`` for all."""

    campaign: str = keys.EVERY_CAMPAIGN


async def list_keys(call: Call) -> dict[str, Any]:
    """Return the keys of a campaign, or of all; never what they are."""
    found = await call.read(keys.all_keys)
    return {
        "keys": [
            {"id": key.id, "campaign": key.campaign, "role": key.role, "created_ms": key.created_ms}
            for key in found.values()
            if call.campaign in (key.campaign, keys.EVERY_CAMPAIGN)
        ]
    }


async def make_key(call: Call) -> dict[str, Any]:
    """Make a key, which is shown once."""
    name = getattr(call.body, "campaign", call.campaign)
    return {"key": await call.change(lambda c: keys.make_key(c, name, call.body.role))}


async def remove_key(call: Call) -> dict[str, Any]:
    """Remove a key."""
    key_id = call.path["key"]
    await call.change(lambda c: keys.remove_key(c, call.campaign, key_id))
    return {"removed": key_id}


async def list_signing_keys(call: Call) -> dict[str, Any]:
    """Return the ids of the signing keys, the newest last."""
    return {"signing_keys": list(call.service.watcher.signer.key_ids)}


async def rotate_signing_key(call: Call) -> dict[str, Any]:
    """Sign with a new key from now on; tokens of the old ones stay good."""
    await call.change(rotate)
    return await list_signing_keys(call)


async def retire_signing_key(call: Call) -> dict[str, Any]:
    """Refuse tokens of an old key from now on."""
    secrets = call.service.watcher.secrets
    await call.change(lambda c: retire(c, secrets, call.path["key"]))
    return await list_signing_keys(call)
