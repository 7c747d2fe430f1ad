"""Rewards and activations: what is written, and what repetitions get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unswayed.service.database import Connection
from unswayed.service.tokens import decode_record
from unswayed.service.writing import (
    Counted,
    CountKey,
    KeptReward,
    NewActivation,
    NewReward,
    Recorded,
    write_chunks,
)


class NewAsked(NamedTuple):
    """A decision under an idempotency key."""

    campaign: str
    key: str
    time_ms: int
    record: bytes


_REWARD_COLUMNS = ("campaign", "decision", "reward_id", "value", "received_ms", "record")
_REWARD_KEYS = ("campaign", "decision", "reward_id")
_ACTIVATION_COLUMNS = ("campaign", "decision", "received_ms", "record")
_ACTIVATION_KEYS = ("campaign", "decision")


def write_rewards(
    connection: Connection, rows: list[NewReward], counts: dict[CountKey, Counted]
) -> Sequence[KeptReward | None]:
    """Write rewards that are new, and return what the store has of each; None if nothing.

    A late reward is not written: what came in time before it is returned, if anything did.
    """
    timely = [row for row in rows if not row.is_late]
    inserted = iter(connection.insert_new("rewards", _REWARD_COLUMNS, [row[:6] for row in timely]))
    is_new = [not row.is_late and next(inserted) for row in rows]
    old = [row for row, new in zip(rows, is_new, strict=True) if not new]
    found = iter(
        connection.rows_of(
            "rewards", _REWARD_KEYS, ("value", "received_ms"), [row[:3] for row in old]
        )
    )
    kept: list[KeptReward | None] = []
    for row, new in zip(rows, is_new, strict=True):
        if new:
            n = counts.get(row.key)
            if n is None:
                n = counts[row.key] = Counted()
            n.rewards += 1
            kept.append(KeptReward(row.value, row.received_ms, is_new=True))
        else:
            there = next(found)
            kept.append(None if there is None else KeptReward(*there))
    return kept


def write_activations(
    connection: Connection, rows: list[NewActivation], _: dict[CountKey, Counted]
) -> Sequence[int | None]:
    """Write activations that are new, and return when each decision was activated; None if late."""
    timely = [row for row in rows if not row.is_late]
    connection.insert_new("activations", _ACTIVATION_COLUMNS, [row[:4] for row in timely])
    found = connection.rows_of(
        "activations", _ACTIVATION_KEYS, ("received_ms",), [row[:2] for row in rows]
    )
    return [None if row is None else int(row[0]) for row in found]


def write_asked(
    connection: Connection, rows: list[NewAsked], counts: dict[CountKey, Counted]
) -> Sequence[bytes]:
    """Write decisions under an idempotency key, and return the first one under that key."""
    inserted = connection.insert_new("asked", NewAsked._fields, rows)
    decisions = []
    for row, new in zip(rows, inserted, strict=True):
        if new:
            record = decode_record(row.record)
            decisions.append(Recorded(row.campaign, row.time_ms, [row.record]))
            key = CountKey(record.campaign, record.context, record.mode)
            n = counts.setdefault(key, Counted())
            n.decisions += 1
            n.matches += record.action == record.planned_action
    write_chunks(connection, decisions)
    found = connection.rows_of("asked", ("campaign", "key"), ("record",), [r[:2] for r in rows])
    return [bytes(row[0]) for row in found if row is not None]
