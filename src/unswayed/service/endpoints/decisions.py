"""Routes of decisions and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from unswayed.service.calls import Call, Reply
from unswayed.service.deciding import DecideRequest, PlainRequest
from unswayed.service.errors import Refusal
from unswayed.service.service import (
    ActivateRequest,
    ActivateResponse,
    RewardRequest,
    RewardResponse,
)
from unswayed.service.writing import Counted, CountKey


class DecideBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many decisions in one request."""

    decisions: list[DecideRequest]


class PlainBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many decisions about which there is nothing else to say."""

    decisions: list[PlainRequest]


class RewardBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many rewards in one request."""

    rewards: list[RewardRequest]


async def decide(call: Call) -> Reply:
    """Make one decision."""
    if not call.body.idempotency_key:
        found, key = call.service.decide_one(call.campaign, call.body)
        call.runtime.metrics.count("unswayed_decisions_total", campaign=key.campaign, mode=key.mode)
        return Reply(found)
    (response,), counts = await call.service.decide(call.campaign, (call.body,))
    if isinstance(response, Refusal):
        raise response
    _count_decisions(call, counts)
    return Reply(response)


async def decide_batch(call: Call) -> Reply:
    """Make many decisions; each has its own error."""
    asked = _checked_batch(call, call.body.decisions)
    if isinstance(call.body, PlainBatch):
        found = call.service.decide_at_once(call.campaign, asked)
        if found is not None:
            _count_decisions(call, found[1])
            return Reply(b'{"decisions":' + found[0] + b"}")
        asked = [DecideRequest(one.user, one.context) for one in asked]
    responses, counts = await call.service.decide(call.campaign, asked)
    _count_decisions(call, counts)
    rows = [row.body() if isinstance(row, Refusal) else row for row in responses]
    return Reply(b'{"decisions":[' + b",".join(rows) + b"]}")


def _count_decisions(call: Call, counts: dict[CountKey, Counted]) -> None:
    for key, n in counts.items():
        call.runtime.metrics.count(
            "unswayed_decisions_total", n.decisions, campaign=key.campaign, mode=key.mode
        )


async def activate(call: Call) -> ActivateResponse:
    """Take in that a decision was shown."""
    (response,) = await call.service.activate(call.campaign, (call.body,))
    if isinstance(response, Refusal):
        raise response
    return response


#: A transparent dot.
_DOT = bytes.fromhex(
    "47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"
)


async def shown(call: Call) -> Reply:
    """Take in that a decision was shown, from the page that shows it: an image to load."""
    token = call.query.get("token", "")
    (response,) = await call.service.activate(call.campaign, (ActivateRequest(token),))
    if isinstance(response, Refusal):
        raise response
    return Reply(_DOT, content_type=b"image/gif", headers=((b"cache-control", b"no-store"),))


async def reward(call: Call) -> RewardResponse:
    """Take in one reward."""
    (response,), n_new = await call.service.reward(call.campaign, (call.body,))
    if isinstance(response, Refusal):
        raise response
    call.runtime.metrics.count("unswayed_rewards_total", n_new, campaign=call.campaign)
    return response


async def reward_batch(call: Call) -> dict[str, Any]:
    """Take in many rewards, each with its own error."""
    asked = _checked_batch(call, call.body.rewards)
    responses, n_new = await call.service.reward(call.campaign, asked)
    call.runtime.metrics.count("unswayed_rewards_total", n_new, campaign=call.campaign)
    return {"rewards": _each(responses)}


def _checked_batch(call: Call, rows: list[Any]) -> list[Any]:
    most = call.service.server.max_batch
    if not 1 <= len(rows) <= most:
        raise Refusal(413, "too_large", f"a batch has between 1 and {most:,} rows.")
    return rows


def _each(responses: Sequence[Any]) -> list[Any]:
    return [
        {"error": {"code": response.code, "message": response.message}}
        if isinstance(response, Refusal)
        else response
        for response in responses
    ]
