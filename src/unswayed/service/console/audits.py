"""Live audits: the latest of each campaign, refreshed while its page is open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unswayed.service import endpoints
from unswayed.service.calls import Call
from unswayed.service.catalogue import now_ms
from unswayed.service.errors import Refusal

LEAST_PAUSE = 60.0
"""Ours: seconds between the end of an audit and the next one, at least."""

AFTER_REFUSAL = 5.0
"""Ours: the same where there was too little to audit; a campaign has just begun."""

PAUSES = 10.0
"""Ours: and so many times as long as the last one took, so that audits take a tenth of a core."""


@dataclass
class Latest:
    """The latest audit of a campaign: how many there were, what it says, and when it was made.

    ``audit`` is None before the first one, and where there is too little to audit, as ``refused``
    says.
    """

    number: int = 0
    audit: Mapping[str, Any] | None = None
    refused: str = ""
    at_ms: int = 0
    next_at: float = 0.0
    task: asyncio.Task[None] | None = None


class LiveAudits:
    """The latest audits of one process of the service."""

    def __init__(self) -> None:
        self._latest: dict[str, Latest] = {}

    def look(self, call: Call) -> Latest:
        """Return the latest audit, and begin another one if it is time."""
        found = self._latest.setdefault(call.campaign, Latest())
        if found.task is None and time.monotonic() >= found.next_at:
            self._begin(call, found)
        return found

    async def now(self, call: Call) -> Latest:
        """Return an audit that begins now, or the one that has begun already."""
        found = self._latest.setdefault(call.campaign, Latest())
        await asyncio.shield(found.task or self._begin(call, found))
        return found

    def _begin(self, call: Call, found: Latest) -> asyncio.Task[None]:
        found.task = asyncio.create_task(_audit(call, found))
        return found.task


async def _audit(call: Call, found: Latest) -> None:
    start, pause = time.monotonic(), LEAST_PAUSE
    try:
        found.audit, found.refused = await endpoints.audit(call), ""
    except Refusal as refusal:
        found.audit, found.refused = None, refusal.message
        pause = AFTER_REFUSAL
    found.task = None
    found.number += 1
    found.at_ms = now_ms()
    end = time.monotonic()
    found.next_at = end + max(pause, PAUSES * (end - start))
