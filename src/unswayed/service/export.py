"""Decisions with their rewards as a table: what is learned from, and what anybody can check.

Decisions lie in the store in the order of time, many to a row; rewards lie beside them under the
decision's id, which begins with the time. Both are read in slices of time, so that no more than a
slice is in memory, and joined there. The reward of a decision that was lost in a crash carries the
decision, and is found in its slice all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.policy import EpochPlan
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.catalogue import now_ms, plan_of
from unswayed.service.database import Connection
from unswayed.service.eligible import from_bits
from unswayed.service.forgetting import pseudonym
from unswayed.service.settings import Settings
from unswayed.service.tokens import Record, decode_record
from unswayed.service.writing import LONGEST_CHUNK_MS

#: Ours: decisions in a slice.
SLICE = 50_000

#: Ours: milliseconds after the window's end in which a reward that came in time may be written.
GRACE_MS = 1_000

#: Ids of six bytes of time end here.
_LAST_MS = 2**48 - 1

SCHEMA = pa.schema(
    [
        ("decision", pa.string()),
        ("time_ms", pa.int64()),
        ("user", pa.string()),
        ("context", pa.string()),
        ("action", pa.string()),
        ("reward", pa.float64()),
        ("propensity", pa.float64()),
        ("mode", pa.string()),
        ("mode_propensity", pa.float64()),
        ("n_rewards", pa.int64()),
        ("plan", pa.int64()),
        ("planned_action", pa.string()),
        ("planned_propensity", pa.float64()),
        ("eligible", pa.list_(pa.string())),
    ]
)
"""The columns of an export.

``propensity`` is over the secret, whatever the mode; ``mode_propensity`` given the mode. In shadow
mode both are the caller's, and null where it gave none. ``n_rewards`` is 0 where the default reward
stands. ``eligible`` are the actions that the caller named, null if it named none.
"""

_records = msgspec.msgpack.Decoder(list[Record])


@dataclass(frozen=True, slots=True)
class _Slice:
    """Decisions made from ``first_ms`` up to before ``end_ms``."""

    first_ms: int
    end_ms: int


def learnable_before(settings: Settings, now: int) -> int:
    """Return the time before which decisions can be learned from: their windows are closed."""
    return int(now - 1000.0 * settings.reward_window - GRACE_MS)


def export_batches(
    connection: Connection,
    name: str,
    *,
    since_ms: int = 0,
    until_ms: int | None = None,
    on_restored: Callable[[Record], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the learnable decisions of a campaign, in slices of time.

    Parameters
    ----------
    since_ms, until_ms
        Decisions made from one and before the other; by default all whose windows are closed.
    on_restored
        Called with each decision that is known from its reward or activation alone.
    """
    campaign = campaign_of(connection, name)
    settings = campaign.settings
    closed = learnable_before(settings, now_ms())
    end = closed if until_ms is None else min(until_ms, closed)
    plans: dict[int, EpochPlan] = {}
    # What is older belongs to a campaign of this name that was deleted, or is being deleted.
    first = max(since_ms, campaign.created_ms, settings.forgotten_before(now_ms()))
    for piece in _slices(connection, name, first, min(end, _LAST_MS)):
        rows = [
            _row(connection, record, settings, rewards, plans)
            for record, rewards in _joined(connection, name, piece, on_restored)
        ]
        if rows:
            columns = list(zip(*rows, strict=True))
            yield pa.record_batch(
                [
                    pa.array(column, field.type)
                    for column, field in zip(columns, SCHEMA, strict=True)
                ],
                schema=SCHEMA,
            )


def export_to(
    connection: Connection,
    name: str,
    sink: BinaryIO,
    *,
    since_ms: int = 0,
    until_ms: int | None = None,
    secret: str | None = None,
) -> None:
    """Write the learnable decisions of a campaign as Parquet, slice by slice.

    Parameters
    ----------
    secret
        Given, in hexadecimal digits, if users are to have pseudonyms.
    """
    place = SCHEMA.get_field_index("user")
    with pq.ParquetWriter(sink, SCHEMA) as writer:
        for batch in export_batches(connection, name, since_ms=since_ms, until_ms=until_ms):
            if secret is not None:
                key = bytes.fromhex(secret)
                names = [pseudonym(key, name, user) for user in batch["user"].to_pylist()]
                batch = batch.set_column(place, "user", pa.array(names, pa.string()))
            writer.write_batch(batch)


def _slices(connection: Connection, name: str, first_ms: int, end_ms: int) -> Iterator[_Slice]:
    """Yield slices that cover all times between, with about ``SLICE`` decisions in each."""
    if end_ms <= first_ms:
        return
    rows = connection.execute(
        "SELECT first_ms, n FROM decisions WHERE campaign = ? AND first_ms > ? AND first_ms < ? "
        "ORDER BY first_ms",
        (name, first_ms - LONGEST_CHUNK_MS, end_ms),
    )
    start, n_decisions = first_ms, 0
    for chunk_ms, n in rows:
        if n_decisions >= SLICE and chunk_ms > start:
            yield _Slice(start, chunk_ms)
            start, n_decisions = chunk_ms, 0
        n_decisions += n
    yield _Slice(start, end_ms)


def _joined(
    connection: Connection, name: str, piece: _Slice, on_restored: Callable[[Record], None]
) -> Iterator[tuple[Record, list[tuple[int, float]]]]:
    """Yield the decisions of a slice that count, in order, with (time, value) of their rewards."""
    ids = (piece.first_ms.to_bytes(6, "big"), piece.end_ms.to_bytes(6, "big"))
    decisions: dict[bytes, Record] = {}
    for (records,) in connection.execute(
        "SELECT records FROM decisions WHERE campaign = ? AND first_ms > ? AND first_ms < ?",
        (name, piece.first_ms - LONGEST_CHUNK_MS, piece.end_ms),
    ):
        for record in _records.decode(records):
            if piece.first_ms <= record.time_ms < piece.end_ms:
                decisions[record.id] = record
    n_recorded = len(decisions)
    rewards: dict[bytes, list[tuple[int, float]]] = {}
    shown: set[bytes] = set()
    for decision, value, received_ms, record in connection.execute(
        "SELECT decision, value, received_ms, record FROM rewards "
        "WHERE campaign = ? AND decision >= ? AND decision < ?",
        (name, *ids),
    ):
        rewards.setdefault(bytes(decision), []).append((received_ms, value))
        decisions.setdefault(bytes(decision), decode_record(bytes(record)))
    for decision, record in connection.execute(
        "SELECT decision, record FROM activations "
        "WHERE campaign = ? AND decision >= ? AND decision < ?",
        (name, *ids),
    ):
        shown.add(bytes(decision))
        decisions.setdefault(bytes(decision), decode_record(bytes(record)))
    for record in islice(decisions.values(), n_recorded, None):
        on_restored(record)
    for id_ in sorted(decisions):
        record = decisions[id_]
        given = rewards.get(id_, [])
        # A reward says that the decision was shown; nothing else does if it is deferred.
        if given or not record.is_deferred or id_ in shown:
            yield record, given


def _row(
    connection: Connection,
    record: Record,
    settings: Settings,
    rewards: list[tuple[int, float]],
    plans: dict[int, EpochPlan],
) -> tuple[object, ...]:
    if record.plan not in plans and (record.eligible or record.mode == "explore"):
        plans[record.plan], _ = plan_of(connection, record.campaign, record.plan)
    own = record.propensity or None if record.mode == "shadow" else record.propensity
    given_mode = own
    if record.mode == "explore":
        given_mode = 1.0 / len(plans[record.plan].rule(record.context).surviving)
    elif record.mode != "shadow":
        given_mode = 1.0
    return (
        record.id.hex(),
        record.time_ms,
        record.user,
        record.context,
        record.action,
        aggregated(rewards, settings),
        own,
        record.mode,
        given_mode,
        len(rewards),
        record.plan,
        record.planned_action or None,
        record.planned_propensity or None,
        from_bits(record.eligible, plans[record.plan]) if record.eligible else None,
    )


def aggregated(rewards: list[tuple[int, float]], settings: Settings) -> float:
    """Return the one reward of a decision, of (time, value) pairs; the default without any."""
    if not rewards:
        return settings.default_reward
    match settings.aggregation:
        case "first":
            return min(rewards)[1]
        case "sum":
            # A decision counts for no more than its range, however many rewards it gets.
            total = sum(value for _, value in rewards)
            return min(max(total, settings.lowest_reward), settings.highest_reward)
        case "max":
            return max(value for _, value in rewards)


def find_record(connection: Connection, name: str, id_: bytes) -> Record | None:
    """Return a decision by its id; rows of the store that can hold it are few."""
    for table in ("rewards", "activations"):
        found = connection.rows_of(table, ("campaign", "decision"), ("record",), [(name, id_)])
        if found[0] is not None:
            return decode_record(bytes(found[0][0]))
    ms = int.from_bytes(id_[:6], "big")
    for (records,) in connection.execute(
        "SELECT records FROM decisions WHERE campaign = ? AND first_ms > ? AND first_ms <= ? "
        "AND last_ms >= ?",
        (name, ms - LONGEST_CHUNK_MS, ms, ms),
    ):
        for record in _records.decode(records):
            if record.id == id_:
                return record
    return None
