"""Routes of callers' keys and of the keys that sign tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool

from unswayed.service import keys
from unswayed.service.calls import Call
from unswayed.service.endpoints.transactions import change, read
from unswayed.service.secret_file import Secrets


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to make."""

    role: Literal["decide", "reward", "admin"]


class NewGlobalKey(NewKey, frozen=True, forbid_unknown_fields=True):
    """A key to make for any campaign, or with ``*`` for all."""

    campaign: str = keys.EVERY_CAMPAIGN


async def list_keys(call: Call) -> dict[str, Any]:
    """Return the keys of a campaign, or of all; never what they are."""
    found = await read(call, keys.all_keys)
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
    return {"key": await change(call, lambda c: keys.make_key(c, name, call.body.role))}


async def remove_key(call: Call) -> dict[str, Any]:
    """Remove a key."""
    key_id = call.path["key"]
    await change(call, lambda c: keys.remove_key(c, call.campaign, key_id))
    return {"removed": key_id}


async def list_signing_keys(call: Call) -> dict[str, Any]:
    """Return the ids of the signing keys, the newest last."""
    return {"signing_keys": list(call.service.watcher.signer.key_ids)}


async def rotate_signing_key(call: Call) -> dict[str, Any]:
    """Sign with a new key from now on; tokens of the old ones stay good."""
    return await _change_secrets(call, lambda secrets: secrets.rotated())


async def retire_signing_key(call: Call) -> dict[str, Any]:
    """Refuse tokens of an old key from now on."""
    return await _change_secrets(call, lambda secrets: secrets.without(call.path["key"]))


async def _change_secrets(call: Call, make: Callable[[Secrets], Secrets]) -> dict[str, Any]:
    path = Path(call.runtime.secret_path)

    def apply() -> None:
        make(Secrets.load(path)).save(path)
        call.service.watcher.refresh()

    await run_in_threadpool(apply)
    return await list_signing_keys(call)
