"""One process of the service: its view of the store, decisions and rewards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unswayed.errors import InputError
from unswayed.policy import Decider
from unswayed.service import catalogue, jobs, keys, writing
from unswayed.service.catalogue import now_ms
from unswayed.service.database import Connection, Database, Row, StoreError
from unswayed.service.deciding import DecideRequest, Serving, check_name
from unswayed.service.errors import Refusal, each, store_unavailable
from unswayed.service.metrics import Metrics, process_numbers
from unswayed.service.records import delete_old, forgotten_of, pseudonym
from unswayed.service.settings import ServerSettings
from unswayed.service.tokens import (
    Record,
    Secrets,
    Signer,
    decode_record,
    encode_record,
    signing_keys,
)
from unswayed.service.writing import Report

POLL_SECONDS = 0.25  # Ours: seconds between checks for changes in the store, which are fast
_CHORE_SECONDS = 1.0  # Ours: seconds between updates of metrics, and between checks for due work
_DELETE_SECONDS = 60.0  # Ours: seconds between deletions of old decisions, each of which is synced

_OTHER_REQUEST = (
    "this idempotency key was used for another user, context or list of actions; use a new key."
)

logger = logging.getLogger("unswayed.service")


@dataclass(frozen=True, slots=True)
class State:
    """A consistent snapshot of the campaigns, their plans, and the keys.

    ``had_keys`` is True once a key was created: from then on nobody has access without one.
    """

    change: int = -1
    campaigns: Mapping[str, Serving] = field(default_factory=dict)
    keys: Mapping[str, keys.Key] = field(default_factory=dict)
    had_keys: bool = False

    def campaign(self, name: str) -> Serving:
        """Return a campaign; reject an unknown name."""
        try:
            return self.campaigns[name]
        except KeyError:
            raise catalogue.unknown_campaign(name) from None


class Watcher:
    """Keeps the state and the signing keys of a process up to date.

    ``state`` is replaced as a whole, so that every request sees a consistent snapshot.
    """

    def __init__(self, database: Database, secrets: Secrets) -> None:
        self._database = database
        self.secrets = secrets
        self.signer: Signer
        self.state = State()
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Load changes from the store; raise ``StoreError`` if it cannot be read."""
        with self._lock:
            try:
                is_new = self._connection is None
                if self._connection is None:
                    self._connection = self._database.connect()
                self._connection.check_file()
                change = int(self._connection.meta("change") or 0)
                # A restored backup, for example, is another file but may have the same number.
                if is_new or change != self.state.change:
                    self.state = self._loaded(self._connection, change)
            except StoreError:
                self._disconnect()
                raise

    @property
    def is_connected(self) -> bool:
        """Whether the last read of the store succeeded."""
        return self._connection is not None

    async def find_keys(self, tokens: Iterable[str]) -> None:
        """Load changes if a token has an unknown signing key, which another host may have made."""
        known = self.signer.keys
        if self.is_connected and any(token.partition(".")[0] not in known for token in tokens):
            # Not in the event loop: a hanging store must not block other requests.
            with contextlib.suppress(StoreError):
                await asyncio.get_running_loop().run_in_executor(None, self.refresh)

    def close(self) -> None:
        """Close the connection as soon as it is not in use."""
        if self._lock.acquire(timeout=5):
            self._disconnect()
            self._lock.release()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _loaded(self, connection: Connection, change: int) -> State:
        found: dict[str, Serving] = {}
        for campaign in catalogue.campaigns(connection):
            old = self.state.campaigns.get(campaign.name)
            if old is not None and (old.created_ms, old.plan_version) == (
                campaign.created_ms,
                campaign.plan_version,
            ):
                decider = old.decider  # keeps its cache of users' digests
                policy = old.ranking.policy
            else:
                plan, _ = catalogue.plan_of(connection, campaign.name, campaign.plan_version)
                decider = Decider(plan, self.secrets.assignment)
                decider.decide("", plan.contexts[0])  # compiles before the first request
                policy = catalogue.policy_of(connection, campaign.name, campaign.policy_version)
            forgotten = forgotten_of(connection, campaign.name)
            found[campaign.name] = Serving.of(campaign, decider, policy, forgotten)
        self.signer = Signer(signing_keys(connection, self.secrets))
        return State(change, found, keys.all_keys(connection), keys.had_keys(connection))


class RewardRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reward for the decision of a token.

    Parameters
    ----------
    reward_id
        Distinguishes several rewards of one decision, if their sum or maximum counts.
    """

    token: str
    reward: float
    reward_id: str = ""


class RewardResponse(msgspec.Struct, frozen=True, gc=False):
    """The recorded reward; a repeated request gets the same response."""

    id: str
    reward: float
    reward_id: str
    received_ms: int


class ActivateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report that the decision of a token was shown."""

    token: str


class ActivateResponse(msgspec.Struct, frozen=True, gc=False):
    """The time at which the decision was first activated."""

    id: str
    received_ms: int


class Service:
    """The state of one worker process.

    ``metrics_folder`` is shared by the processes of a server, ``is_public`` tells whether other
    machines can reach it, and ``configured`` are the campaigns of the configuration file.
    """

    def __init__(
        self,
        database: Database,
        secrets: Secrets,
        metrics_folder: Path,
        server: ServerSettings,
        *,
        is_public: bool = False,
        configured: frozenset[str] = frozenset(),
    ) -> None:
        self.database = database
        self.watcher = Watcher(database, secrets)
        self.writer = writing.Writer(database)
        self.server = server
        self.metrics = Metrics(metrics_folder)
        self.rates = keys.Rates(server.requests_per_second)
        self.is_public = is_public
        self.configured = configured
        self.unfinished_bytes = 0
        #: The last hour in which each campaign's daily report was claimed.
        self._claimed: dict[str, int] = {}
        self._next_deletion = 0.0
        #: Running audits that the console started, by campaign.
        self.audits: dict[str, asyncio.Task[dict[str, Any]]] = {}

    def request(self, campaign: str) -> dict[str, Any]:
        """Return the input of background processes for a campaign."""
        return {"store": self.database.url, "campaign": campaign, "known": self.server.known}

    def start(self, task: str, campaign: str, **more: str) -> None:
        """Start background work for a campaign in a separate process."""
        jobs.start(task, **self.request(campaign), **more)

    async def run_tasks(self) -> None:
        """Run the periodic tasks until cancelled, each in a thread."""
        tasks = (
            (POLL_SECONDS, self.watcher.refresh),
            (_CHORE_SECONDS, self.save_metrics),
            (_CHORE_SECONDS, self._start_what_is_due),
            (_CHORE_SECONDS, self._delete_what_is_old),
        )
        await asyncio.gather(*(_repeated(work, seconds) for seconds, work in tasks))

    def _start_what_is_due(self) -> None:
        """Start learning jobs and daily reports that are due and that no other process started."""
        for serving in list(self.watcher.state.campaigns.values()):
            if serving.state != catalogue.ACTIVE:
                continue
            every = serving.settings.learn_every
            if every:
                with self.database.connected() as connection:
                    is_due = now_ms() >= jobs.last_job_ms(connection, serving) + 1000.0 * every
                    if is_due:
                        with connection.transaction():
                            job, is_new = jobs.add_job(connection, serving.name)
                if is_due and is_new:
                    self.start("learn", serving.name, job=job.id)
            hour = now_ms() // jobs.CLAIM_MS
            if serving.settings.daily_report and self._claimed.get(serving.name) != hour:
                with self.database.connected() as connection, connection.transaction():
                    is_mine = jobs.claim(connection, serving.name)
                self._claimed[serving.name] = hour
                if is_mine:
                    self.start("daily", serving.name)

    def _delete_what_is_old(self) -> None:
        """Delete decisions older than ``retention``, a limited number in each round."""
        if time.monotonic() < self._next_deletion:
            return
        is_done = [
            delete_old(self.database, serving.name, serving.settings.forgotten_before(now_ms()))
            for serving in list(self.watcher.state.campaigns.values())
            if serving.settings.retention
        ]
        if all(is_done):
            self._next_deletion = time.monotonic() + _DELETE_SECONDS

    def stop(self) -> None:
        """Write everything that is queued, and end the threads."""
        self.watcher.close()
        self.writer.stop()
        self.save_metrics()

    @property
    def needs_keys(self) -> bool:
        """Whether callers need a key: beyond loopback, or once any key was created."""
        return self.is_public or self.watcher.state.had_keys

    def save_metrics(self) -> None:
        """Update the metrics that are not counted event by event, and share all metrics."""
        writer = self.writer
        self.metrics.numbers.update(
            unswayed_store_commits_total=float(writer.n_commits),
            unswayed_store_commit_seconds_total=writer.commit_seconds,
            unswayed_decisions_dropped_total=float(writer.n_dropped),
            unswayed_workers=1.0,
            unswayed_store_healthy=float(writer.is_healthy),
            unswayed_decisions_waiting=float(writer.n_waiting),
            unswayed_writes_waiting=float(len(writer.requests)),
            **process_numbers(),
        )
        self.metrics.save()

    def _open(self, campaign: str) -> Serving:
        """Return an active campaign; raise if its decisions could not be recorded."""
        serving = self.watcher.state.campaign(campaign)
        if serving.state != catalogue.ACTIVE:
            text = f"campaign {campaign!r} is archived; restore it to decide."
            raise Refusal(409, "archived", text)
        writer = self.writer
        is_recording = writer.is_healthy and writer.n_waiting < writing.MOST_WAITING
        if not is_recording and not self.server.decide_without_store:
            raise store_unavailable()
        return serving

    async def decide(
        self, campaign: str, asked: Sequence[DecideRequest | Refusal]
    ) -> list[bytes | Refusal]:
        """Make and record decisions; return the responses as JSON.

        Only requests with idempotency keys wait for the store, because repetitions must get the
        first decision of their key.
        """
        serving = self._open(campaign)
        now = serving.now()
        decided = each(asked, lambda request: (request, serving.decided(request, now)))
        made = [one for one in decided if not isinstance(one, Refusal)]
        first = new = [record for _, record in made]
        payloads = [encode_record(record) for record in new]
        is_keyed = any(request.idempotency_key for request, _ in made)
        if is_keyed:
            rows = [
                # A request without a key gets a unique one.
                (campaign, request.idempotency_key or f"\x01{record.id.hex()}", now, payload)
                for (request, record), payload in zip(made, payloads, strict=True)
            ]
            payloads = list(await self._written(writing.write_asked, rows))
            first = [decode_record(payload) for payload in payloads]
            new = [own for own, found in zip(new, first, strict=True) if own.id == found.id]
        kept = zip(first, payloads, strict=True)
        sign = self.watcher.signer.token

        def response(one: tuple[DecideRequest, Record]) -> bytes:
            (request, own), (found, payload) = one, next(kept)
            if found is not own and _asked_for(found) != _asked_for(own):
                raise Refusal(409, "idempotency_conflict", _OTHER_REQUEST)
            return serving.response(found, request, sign(payload))

        responses = each(decided, response)
        counts = writing.counted(new)
        if not is_keyed:
            self.writer.record(campaign, now, payloads, counts)
        for (key, what), n in counts.items():
            if what == "decisions":
                self.metrics.count("unswayed_decisions_total", n, campaign=campaign, mode=key.mode)
        return responses

    async def reward(
        self, campaign: str, asked: Sequence[RewardRequest | Refusal]
    ) -> list[RewardResponse | Refusal]:
        """Record rewards; each response is sent after its reward is on disk."""
        await self.watcher.find_keys([one.token for one in asked if isinstance(one, RewardRequest)])
        serving = self.watcher.state.campaign(campaign)
        received = serving.now()
        checked = each(asked, lambda one: self._new_reward(serving, one, received))
        reports = [one for one in checked if isinstance(one, Report)]
        kept = await self._written(writing.write_rewards, reports)
        n_new = sum(is_new for _, is_new in kept)
        self.metrics.count("unswayed_rewards_total", n_new, campaign=campaign)
        rows = iter(kept)
        return each(checked, lambda report: _reward_response(serving, report, next(rows)[0]))

    def _new_reward(self, serving: Serving, request: RewardRequest, received: int) -> Report:
        report = self._report(serving, request.token, received)
        settings = serving.settings
        try:
            value = settings.check_reward(request.reward)
        except InputError as error:
            raise Refusal(422, "bad_reward", str(error)) from None
        # If only the first reward counts, its id has no meaning.
        name = "" if settings.aggregation == "first" else request.reward_id
        if name:
            check_name("reward_id", name)
        return report._replace(reward_id=name, value=value)

    async def activate(self, campaign: str, request: ActivateRequest) -> ActivateResponse:
        """Record that a decision was shown; the response is sent after that is on disk."""
        await self.watcher.find_keys([request.token])
        serving = self.watcher.state.campaign(campaign)
        report = self._report(serving, request.token, serving.now())
        ((row, _),) = await self._written(writing.write_activations, [report])
        if row is None:
            raise _too_late(serving)
        return ActivateResponse(report.record.id.hex(), row[2])

    def _report(self, serving: Serving, token: str, received: int) -> Report:
        """Return a report on the decision of a token; reject tokens of other campaigns."""
        record, payload = self.watcher.signer.opened(token)
        # Tokens of a deleted campaign are invalid in a new one of the same name.
        if record.campaign != serving.name or record.time_ms < serving.created_ms:
            text = f"the token does not belong to this campaign {serving.name!r}."
            raise Refusal(403, "other_campaign", text)
        if serving.forgotten:
            secret = self.watcher.secrets.assignment
            until = serving.forgotten.get(pseudonym(secret, serving.name, record.user), 0)
            if record.time_ms < until:
                raise Refusal(410, "forgotten", "the records of this user were deleted.")
        is_late = received > record.time_ms + 1000.0 * serving.settings.reward_window
        return Report(record, payload, received, is_late)

    async def _written(self, write: writing.Write, rows: Sequence[Any]) -> Sequence[Any]:
        """Write rows durably, or raise a ``Refusal`` with status 503."""
        if not rows:
            return ()
        try:
            return await self.writer.written(write, rows)
        except StoreError as error:
            raise store_unavailable() from error


async def _repeated(work: Callable[[], None], seconds: float) -> None:
    last = ""
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(work)
        except (StoreError, Refusal):
            continue  # the store is unavailable, or a campaign was deleted meanwhile
        except Exception as error:  # an exception that escapes would end the task for good
            if repr(error) != last:  # the same error is logged once
                logger.exception("a periodic task failed")
            last = repr(error)
        else:
            last = ""


def _asked_for(record: Record) -> tuple[object, ...]:
    # Actions can only be added, so the bits of equal lists differ at most in trailing zeros. Equal
    # attributes may belong to another leaf by now, so contexts are not compared.
    eligible = record.eligible.rstrip(b"\0")
    return record.user, record.attributes or record.context, eligible


def _reward_response(serving: Serving, report: Report, row: Row | None) -> RewardResponse:
    if row is None:
        raise _too_late(serving)
    _, decision, reward_id, value, received_ms, _ = row
    if value != report.value:
        text = f"this decision has the reward {value:g} already; it counts once."
        raise Refusal(409, "reward_conflict", text)
    return RewardResponse(decision.hex(), value, reward_id, received_ms)


def _too_late(serving: Serving) -> Refusal:
    seconds = serving.settings.reward_window
    text = f"the decision is older than the reward window of {seconds:g} s."
    return Refusal(410, "window_closed", text)
