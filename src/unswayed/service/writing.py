"""Group commit: one thread writes what all requests of this process wait for, then responds.

Requests put what is to be written into a queue. The thread takes all that waits, writes it in one
transaction, commits, and only then responds: whatever was acknowledged is on the disk. While a
commit is synced the next group gathers, so a busy store syncs once for many requests.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from unswayed.service.database import Connection, Database, StoreError

#: Ours: decisions that wait to be recorded, about 200 bytes each; beyond that see ``Writer``.
MOST_WAITING = 200_000

#: Ours: decisions in one row of the store.
_CHUNK = 10_000

#: Decisions in one row of the store are no more than these milliseconds apart.
LONGEST_CHUNK_MS = 60_000

#: Ours: requests in one transaction; a group this large takes some milliseconds.
_GROUP = 512

#: Ours: how long decisions may wait for others, and how often a broken store is tried.
_FLUSH_SECONDS = 0.25

#: Ours: how long a request may wait for others to share its commit, which takes about as long.
_GATHER_SECONDS = 0.001
_RETRY_SECONDS = 0.25


class CountKey(NamedTuple):
    """What decisions are counted by."""

    campaign: str
    context: str
    mode: str


class NewReward(NamedTuple):
    """A reward to be written; ``is_late`` ones are only compared with what is there."""

    campaign: str
    decision: bytes
    reward_id: str
    value: float
    received_ms: int
    record: bytes
    is_late: bool
    key: CountKey


class KeptReward(NamedTuple):
    """What the store has of a reward; ``is_new``: since this request."""

    value: float
    received_ms: int
    is_new: bool = False


class NewActivation(NamedTuple):
    """An activation to be written."""

    campaign: str
    decision: bytes
    received_ms: int
    record: bytes
    is_late: bool


class Recorded(NamedTuple):
    """Decisions of one moment that wait to be recorded, or are being."""

    campaign: str
    time_ms: int
    payloads: Sequence[bytes]


@dataclass(slots=True)
class Counted:
    """Numbers of decisions, rewards, and shadow decisions that the plan would have made alike."""

    decisions: int = 0
    rewards: int = 0
    matches: int = 0


#: Writes rows of many requests at once, and returns a result for each row.
Write = Callable[[Connection, list[Any], dict[CountKey, Counted]], Sequence[Any]]


@dataclass(slots=True)
class _Request:
    """Rows to write durably, and who waits for them."""

    write: Write
    rows: Sequence[Any]
    respond: Callable[[Sequence[Any]], None]
    fail: Callable[[BaseException], None]
    loop: asyncio.AbstractEventLoop
    results: Sequence[Any] = ()


class Writer:
    """The thread that writes.

    Decisions are recorded soon, and nobody waits for it: a token carries its whole decision, so
    the reward of a decision that was lost in a crash brings it back. Rewards, activations and
    decisions with an idempotency key are acknowledged after the commit.

    Attributes
    ----------
    is_healthy
        Whether the last transaction was committed.
    n_dropped
        Decisions that were returned and never recorded, because the store was away too long.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._name = secrets.token_hex(4)
        self._condition = threading.Condition()
        self._arriving: list[_Request] = []
        self._requests: deque[_Request] = deque()
        self._decisions: deque[Recorded] = deque()
        self._n_waiting = 0
        self._counts: dict[CountKey, Counted] = {}
        self._n_last = 0
        self._is_stopping = False
        self._connection: Connection | None = None
        self.is_healthy = True
        self.n_dropped = 0
        self.n_commits = 0
        self.commit_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """How many decisions wait to be recorded."""
        return self._n_waiting

    @property
    def n_requests(self) -> int:
        """How many requests wait for their commit."""
        return len(self._requests)

    def record(
        self,
        campaign: str,
        time_ms: int,
        payloads: Sequence[bytes],
        counts: dict[CountKey, Counted],
    ) -> None:
        """Record decisions that were made at one moment, soon."""
        if not payloads:
            return
        with self._condition:
            self._decisions.append(Recorded(campaign, time_ms, payloads))
            self._n_waiting += len(payloads)
            _add_counts(self._counts, counts)
            self._drop_oldest()

    def record_one(
        self, campaign: str, time_ms: int, payload: bytes, key: CountKey, *, is_match: bool
    ) -> None:
        """Do as ``record`` does with one decision, in less time."""
        with self._condition:
            self._decisions.append(Recorded(campaign, time_ms, (payload,)))
            self._n_waiting += 1
            n = self._counts.get(key)
            if n is None:
                n = self._counts[key] = Counted()
            n.decisions += 1
            n.matches += is_match
            if self._n_waiting > MOST_WAITING:
                self._drop_oldest()

    async def written(self, write: Write, rows: Sequence[Any]) -> Sequence[Any]:
        """Write rows in the next transaction, and return their results after the commit."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[Any]] = loop.create_future()

        def respond(results: Sequence[Any]) -> None:
            if not future.done():
                future.set_result(results)

        def fail(error: BaseException) -> None:
            if not future.done():
                future.set_exception(error)

        self._arriving.append(_Request(write, rows, respond, fail, loop))
        if len(self._arriving) == 1:
            # All that arrives in this round of the loop is handed over together, with one wake-up.
            loop.call_soon(self._hand_over)
        return await future

    def stop(self) -> None:
        """Write what waits, and end the thread."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()
        self._thread.join(timeout=10)

    def _drop_oldest(self) -> None:
        while self._n_waiting > MOST_WAITING:
            self._n_waiting -= len(lost := self._decisions.popleft().payloads)
            self.n_dropped += len(lost)

    def _hand_over(self) -> None:
        arrived, self._arriving = self._arriving, []
        with self._condition:
            self._requests.extend(arrived)
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                is_idle = not self._requests and self._n_waiting < _CHUNK
                if (is_idle or not self.is_healthy) and not self._is_stopping:
                    self._condition.wait(_FLUSH_SECONDS if self.is_healthy else _RETRY_SECONDS)
                self._wait_for_others()
                requests = [
                    self._requests.popleft() for _ in range(min(len(self._requests), _GROUP))
                ]
                decisions = self._next_decisions()
                counts, self._counts = self._counts, {}
                is_last = self._is_stopping and not requests
            if requests or decisions or counts or not self.is_healthy:
                self._write_group(requests, decisions, counts)
            if is_last and (not self._decisions or not self.is_healthy):
                if self._connection is not None:
                    self._connection.close()
                return

    def _wait_for_others(self) -> None:
        """Wait a moment for as many requests as came last time; under the lock.

        Callers that got their responses together come back one by one. The first to come would
        be written alone, and all others wait for that.
        """
        end = time.monotonic() + _GATHER_SECONDS
        while 0 < len(self._requests) < self._n_last and not self._is_stopping:
            left = end - time.monotonic()
            if left <= 0:
                break
            self._condition.wait(left)
        self._n_last = min(len(self._requests), _GROUP)

    def _next_decisions(self) -> list[Recorded]:
        """Take the oldest decisions that wait, about a row of the store full; under the lock."""
        taken: list[Recorded] = []
        n_taken = 0
        while self._decisions and n_taken < _CHUNK:
            taken.append(self._decisions.popleft())
            n_taken += len(taken[-1].payloads)
        self._n_waiting -= n_taken
        return taken

    def _write_group(
        self,
        requests: list[_Request],
        decisions: list[Recorded],
        counts: dict[CountKey, Counted],
    ) -> None:
        own: dict[CountKey, Counted] = {}
        _add_counts(own, counts)
        start = time.perf_counter()
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            with self._connection.transaction():
                for write, alike in _by_write(requests).items():
                    results = write(self._connection, [x for one in alike for x in one.rows], own)
                    given = iter(results)
                    for request in alike:
                        request.results = list(islice(given, len(request.rows)))
                write_chunks(self._connection, decisions)
                _write_counts(self._connection, self._name, own)
        except Exception as error:  # whatever it is, nobody may be left waiting
            if self.is_healthy:
                logger.warning("the store cannot be written: %s", error)
            self.is_healthy = False
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            with self._condition:
                _add_counts(self._counts, counts)
                self._decisions.extendleft(reversed(decisions))
                self._n_waiting += sum(len(one.payloads) for one in decisions)
            failure = error if isinstance(error, StoreError) else StoreError(repr(error))
            _respond(requests, lambda request: request.fail(failure))
        else:
            self.is_healthy = True
            self.n_commits += 1
            self.commit_seconds += time.perf_counter() - start
            _respond(requests, lambda request: request.respond(request.results))


logger = logging.getLogger("unswayed.service")


def _by_write(requests: list[_Request]) -> dict[Write, list[_Request]]:
    """Return requests that are written by the same function together: one statement for all."""
    groups: dict[Write, list[_Request]] = {}
    for request in requests:
        groups.setdefault(request.write, []).append(request)
    return groups


def _respond(requests: list[_Request], give: Callable[[_Request], None]) -> None:
    """Respond with one call into each event loop: waking a loop costs a system call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
    for request in requests:
        by_loop.setdefault(request.loop, []).append(request)

    def give_all(waiting: list[_Request]) -> None:
        for request in waiting:
            give(request)

    for loop, waiting in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(give_all, waiting)


def write_chunks(connection: Connection, decisions: list[Recorded]) -> None:
    """Write decisions to the store, one row per campaign and short period."""
    chunks: dict[tuple[str, int], list[Recorded]] = {}
    for one in decisions:
        chunks.setdefault((one.campaign, one.time_ms // LONGEST_CHUNK_MS), []).append(one)
    for alike in chunks.values():
        _write_chunk(connection, alike)


def _write_chunk(connection: Connection, alike: Sequence[Recorded]) -> None:
    """Write decisions of one campaign into one row of the store: an array in MessagePack."""
    payloads = [payload for one in alike for payload in one.payloads]
    times = [one.time_ms for one in alike]
    records = b"\xdd" + len(payloads).to_bytes(4, "big") + b"".join(payloads)
    connection.execute(
        "INSERT INTO decisions (campaign, first_ms, last_ms, n, records) VALUES (?, ?, ?, ?, ?)",
        (alike[0].campaign, min(times), max(times), len(payloads), records),
    )


def _write_counts(connection: Connection, writer: str, counts: dict[CountKey, Counted]) -> None:
    if not counts:
        return
    # Every writer has rows of its own: no two processes wait for each other.
    rows = [(*key, writer, n.decisions, n.rewards, n.matches) for key, n in counts.items()]
    connection.execute(
        "INSERT INTO counts (campaign, context, mode, writer, decisions, rewards, matches) "
        f"VALUES {', '.join(['(?, ?, ?, ?, ?, ?, ?)'] * len(rows))} "
        "ON CONFLICT (campaign, context, mode, writer) DO UPDATE "
        "SET decisions = counts.decisions + excluded.decisions, rewards = counts.rewards + "
        "excluded.rewards, matches = counts.matches + excluded.matches",
        [value for row in rows for value in row],
    )


def count_restored(connection: Connection, found: Mapping[CountKey, int]) -> None:
    """Count decisions that were lost in a crash and brought back by their rewards.

    They are those of all times, and none is lost again: numbers only grow.
    """
    for key, number in found.items():
        connection.execute(
            "INSERT INTO counts (campaign, context, mode, writer, decisions, rewards, matches) "
            "VALUES (?, ?, ?, 'restored', ?, 0, 0) "
            "ON CONFLICT (campaign, context, mode, writer) DO UPDATE SET decisions = "
            "CASE WHEN excluded.decisions > counts.decisions THEN excluded.decisions "
            "ELSE counts.decisions END",
            (*key, number),
        )


def _add_counts(to: dict[CountKey, Counted], more: dict[CountKey, Counted]) -> None:
    for key, n in more.items():
        total = to.setdefault(key, Counted())
        total.decisions += n.decisions
        total.rewards += n.rewards
        total.matches += n.matches
