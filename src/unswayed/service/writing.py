"""Group commit: one thread writes for all requests of this process, then responds.

Requests put their rows into a queue. The thread takes all queued rows, writes them in one
transaction, commits, and only then responds: whatever was acknowledged is on disk. While a commit
is synced the next group gathers, so a busy store syncs once for many requests.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from unswayed.service.database import Connection, Database, Row, StoreError
from unswayed.service.tokens import Record, decode_record, encode_records

logger = logging.getLogger("unswayed.service")

MOST_WAITING = 200_000  # Ours: maximum number of unrecorded decisions, about 200 bytes each
_CHUNK = 10_000  # Ours: decisions in one row of the store
LONGEST_CHUNK_MS = 60_000  # Longest time between decisions in one row of the store
_GROUP = 512  # Ours: requests in one transaction; a group this large takes some milliseconds
# Ours: seconds between writes of decisions, and between retries while the store is unavailable
_FLUSH_SECONDS = 0.25
# Ours: seconds to wait for more requests before a commit, about as long as the commit takes
_GATHER_SECONDS = 0.001


class CountKey(NamedTuple):
    """Decisions are counted by campaign, context and mode."""

    campaign: str
    context: str
    mode: str

    @classmethod
    def of(cls, record: Record) -> CountKey:
        """Return the key of a decision."""
        return cls(record.campaign, record.context, record.mode)


class Report(NamedTuple):
    """A reward or activation to be written; a late one is only compared with what is stored.

    ``payload`` is the encoded decision.
    """

    record: Record
    payload: bytes
    received_ms: int
    is_late: bool
    reward_id: str = ""
    value: float = 0.0


class Recorded(NamedTuple):
    """Encoded decisions made at the same time, which wait to be recorded."""

    campaign: str
    time_ms: int
    payloads: Sequence[bytes]


#: Counts of "decisions", of "rewards", and of "matches": shadow decisions that match the plan.
Counts = Counter[tuple[CountKey, str]]


def counted(records: Iterable[Record]) -> Counts:
    """Count decisions, and shadow matches, by context and mode."""
    counts: Counts = Counter()
    for record in records:
        counts[CountKey.of(record), "decisions"] += 1
        counts[CountKey.of(record), "matches"] += record.action == record.planned_action
    return counts


#: Writes rows of many requests at once, and returns a result for each row.
Write = Callable[[Connection, list[Any], Counts], Sequence[Any]]


@dataclass(slots=True)
class _Request:
    """Rows to write durably, and the future of their results."""

    write: Write
    rows: Sequence[Any]
    future: asyncio.Future[Sequence[Any]]
    results: Sequence[Any] = ()


class Writer:
    """The thread that writes to the store.

    Decisions are recorded asynchronously: a token carries its whole decision, so the reward of a
    decision that was lost in a crash restores it. Rewards, activations and decisions with an
    idempotency key are acknowledged after the commit.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._name = secrets.token_hex(4)
        self._condition = threading.Condition()
        self._arriving: list[_Request] = []
        self.requests: deque[_Request] = deque()
        self._decisions: deque[Recorded] = deque()
        self.n_waiting = 0
        self._counts: Counts = Counter()
        self._n_last = 0
        self._is_stopping = False
        self._connection: Connection | None = None
        self.is_healthy = False  # whether the last transaction was committed
        # decisions that were never recorded because the store was unavailable for too long
        self.n_dropped = 0
        self.n_commits = 0
        self.commit_seconds = 0.0
        self._write_group([], [], Counter())
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def record(
        self, campaign: str, time_ms: int, payloads: Sequence[bytes], counts: Counts
    ) -> None:
        """Queue decisions that were made at the same time."""
        if not payloads:
            return
        with self._condition:
            self._decisions.append(Recorded(campaign, time_ms, payloads))
            self.n_waiting += len(payloads)
            self._counts.update(counts)
            while self.n_waiting > MOST_WAITING:
                lost = self._decisions.popleft().payloads
                self.n_waiting -= len(lost)
                self.n_dropped += len(lost)

    async def written(self, write: Write, rows: Sequence[Any]) -> Sequence[Any]:
        """Write rows in the next transaction, and return their results after the commit."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[Any]] = loop.create_future()
        self._arriving.append(_Request(write, rows, future))
        if len(self._arriving) == 1:
            # One wake-up hands over all requests of a loop iteration.
            loop.call_soon(self._hand_over)
        return await future

    def stop(self) -> None:
        """Write everything that is queued, and end the thread."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()
        self._thread.join(timeout=10)

    def _hand_over(self) -> None:
        arrived, self._arriving = self._arriving, []
        with self._condition:
            self.requests.extend(arrived)
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                is_idle = not self.requests and self.n_waiting < _CHUNK
                if (is_idle or not self.is_healthy) and not self._is_stopping:
                    self._condition.wait(_FLUSH_SECONDS)
                self._wait_for_others()
                requests = [self.requests.popleft() for _ in range(min(len(self.requests), _GROUP))]
                decisions: list[Recorded] = []  # the oldest ones, for one row of the store
                n_taken = 0
                while self._decisions and n_taken < _CHUNK:
                    decisions.append(self._decisions.popleft())
                    n_taken += len(decisions[-1].payloads)
                self.n_waiting -= n_taken
                counts, self._counts = self._counts, Counter()
                is_last = self._is_stopping and not requests
            if requests or decisions or counts or not self.is_healthy:
                self._write_group(requests, decisions, counts)
            if is_last and (not self._decisions or not self.is_healthy):
                if self._connection is not None:
                    self._connection.close()
                return

    def _wait_for_others(self) -> None:
        """Wait briefly for as many requests as last time; the caller holds the lock.

        Clients that got their responses together send their next requests one after another.
        Without the wait, the first would be committed alone while all others wait.
        """
        end = time.monotonic() + _GATHER_SECONDS
        while 0 < len(self.requests) < self._n_last and not self._is_stopping:
            left = end - time.monotonic()
            if left <= 0:
                break
            self._condition.wait(left)
        self._n_last = min(len(self.requests), _GROUP)

    def _write_group(
        self, requests: list[_Request], decisions: list[Recorded], counts: Counts
    ) -> None:
        own = counts.copy()
        start = time.perf_counter()
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            with self._connection.transaction():
                if not self.is_healthy:  # an empty transaction succeeds on a read-only file
                    self._connection.execute("UPDATE meta SET value = value WHERE name = 'schema'")
                # Rows written by the same function are grouped into one statement.
                for write in dict.fromkeys(request.write for request in requests):
                    alike = [request for request in requests if request.write is write]
                    rows = [row for request in alike for row in request.rows]
                    given = iter(write(self._connection, rows, own))
                    for request in alike:
                        request.results = list(islice(given, len(request.rows)))
                write_chunks(self._connection, decisions)
                write_counts(self._connection, self._name, own)
        except Exception as error:  # no request may be left waiting
            if self.is_healthy:
                logger.warning("%s", error)
            self.is_healthy = False
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            with self._condition:
                self._counts.update(counts)
                self._decisions.extendleft(reversed(decisions))
                self.n_waiting += sum(len(one.payloads) for one in decisions)
            failure = error if isinstance(error, StoreError) else StoreError(repr(error))
            _respond(requests, failure)
        else:
            self.is_healthy = True
            self.n_commits += 1
            self.commit_seconds += time.perf_counter() - start
            _respond(requests)


def _respond(requests: list[_Request], failure: StoreError | None = None) -> None:
    """Resolve all futures in one call into the event loop, because waking it is expensive."""

    def give_all() -> None:
        for request in requests:
            if request.future.done():
                continue
            if failure is None:
                request.future.set_result(request.results)
            else:
                request.future.set_exception(failure)

    if requests and not (loop := requests[0].future.get_loop()).is_closed():
        loop.call_soon_threadsafe(give_all)


def write_chunks(connection: Connection, decisions: list[Recorded]) -> None:
    """Write decisions to the store, one row per campaign and short period."""
    chunks: dict[tuple[str, int], list[Recorded]] = {}
    for one in decisions:
        chunks.setdefault((one.campaign, one.time_ms // LONGEST_CHUNK_MS), []).append(one)
    rows = []
    for (campaign, _), alike in chunks.items():
        payloads = [payload for one in alike for payload in one.payloads]
        times = [one.time_ms for one in alike]
        rows.append((campaign, min(times), max(times), len(payloads), encode_records(payloads)))
    connection.insert("decisions", rows)


_SUM = "counts.{0} + excluded.{0}"
_LARGER = "CASE WHEN excluded.{0} > counts.{0} THEN excluded.{0} ELSE counts.{0} END"


def write_counts(
    connection: Connection, writer: str, counts: Counts, *, is_total: bool = False
) -> None:
    """Add to the counters of a writer; with ``is_total``, raise them to the given totals.

    Every writer has its own rows, so no two processes wait for each other.
    """
    names, change = ("decisions", "rewards", "matches"), _LARGER if is_total else _SUM
    changes = ", ".join(f"{name} = {change.format(name)}" for name in names)
    rows = [
        (*key, writer, *(counts[key, name] for name in names))
        for key in dict.fromkeys(key for key, _ in counts)
    ]
    more = f"ON CONFLICT (campaign, context, mode, writer) DO UPDATE SET {changes}"
    connection.insert("counts", rows, more)


def _first_rows(
    connection: Connection, table: str, rows: Sequence[Row], is_late: Sequence[bool]
) -> list[tuple[Row | None, bool]]:
    """Write rows whose key is new, unless they are late.

    Return for each row the stored row with its key, or None, and whether it is new.
    """
    timely = [row for row, late in zip(rows, is_late, strict=True) if not late]
    inserted = iter(connection.insert_new(table, timely))
    is_new = [not late and next(inserted) for late in is_late]
    old = [row for row, new in zip(rows, is_new, strict=True) if not new]
    there = iter(connection.same_keys(table, old))
    return [(row if new else next(there), new) for row, new in zip(rows, is_new, strict=True)]


def write_rewards(
    connection: Connection, reports: list[Report], counts: Counts
) -> list[tuple[Row | None, bool]]:
    """Write rewards; return for each the stored row, or None, and whether it is new."""
    rows = [
        (one.record.campaign, one.record.id, one.reward_id, one.value, one.received_ms, one.payload)
        for one in reports
    ]
    kept = _first_rows(connection, "rewards", rows, [one.is_late for one in reports])
    new = [one.record for one, (_, is_new) in zip(reports, kept, strict=True) if is_new]
    counts.update((CountKey.of(record), "rewards") for record in new)
    return kept


def write_activations(
    connection: Connection, reports: list[Report], _: Counts
) -> list[tuple[Row | None, bool]]:
    """Write activations; return for each the stored row, or None, and whether it is new."""
    rows = [(one.record.campaign, one.record.id, one.received_ms, one.payload) for one in reports]
    return _first_rows(connection, "activations", rows, [one.is_late for one in reports])


def write_asked(connection: Connection, rows: list[Row], counts: Counts) -> list[bytes]:
    """Write decisions with idempotency keys; return the first decision of each key."""
    kept = _first_rows(connection, "asked", rows, [False] * len(rows))
    new = [row for row, is_new in kept if row is not None and is_new]
    counts.update(counted(decode_record(payload) for *_, payload in new))
    write_chunks(connection, [Recorded(row[0], row[2], [row[3]]) for row in new])
    return [row[3] for row, _ in kept if row is not None]
