"""Deciding, activating and rewarding: the semantics of the service, without HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from unswayed.errors import InputError
from unswayed.service.database import Database, StoreError
from unswayed.service.deciding import (
    Cell,
    Decided,
    DecideRequest,
    DecideResponse,
    PlainRequest,
    Serving,
    counted,
    response_json,
)
from unswayed.service.errors import Refusal, bad_request, conflict, store_unavailable
from unswayed.service.forgetting import pseudonym
from unswayed.service.rewarding import (
    NewAsked,
    write_activations,
    write_asked,
    write_rewards,
)
from unswayed.service.settings import ServerSettings, check_label
from unswayed.service.state import Watcher
from unswayed.service.tokens import Record, decode_record
from unswayed.service.writing import (
    MOST_WAITING,
    Counted,
    CountKey,
    KeptReward,
    NewActivation,
    NewReward,
    Write,
    Writer,
)


class RewardRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reward for the decision of a token.

    Parameters
    ----------
    reward_id
        Tells several rewards of one decision apart where they are summed or the largest counts.
    """

    token: str
    reward: float
    reward_id: str = ""


class RewardResponse(msgspec.Struct, frozen=True, gc=False):
    """What was taken in; a repetition gets the same response."""

    id: str
    reward: float
    reward_id: str
    received_ms: int


class ActivateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Says that the decision of a token was shown."""

    token: str


class ActivateResponse(msgspec.Struct, frozen=True, gc=False):
    """When the decision was activated first."""

    id: str
    received_ms: int


@dataclass(frozen=True, slots=True)
class Service:
    """One process of the service: what it knows, and the thread that writes for it."""

    database: Database
    watcher: Watcher
    writer: Writer
    server: ServerSettings

    def stop(self) -> None:
        """Write what waits, and end the threads."""
        self.watcher.stop()
        self.writer.stop()

    async def decide(
        self, campaign: str, asked: Sequence[DecideRequest | Refusal]
    ) -> tuple[list[bytes | Refusal], dict[CountKey, Counted]]:
        """Decide, and record the decisions; return the responses as JSON, and what was new.

        Nothing waits for the store, except where an idempotency key promises the same response.
        """
        serving = self.watcher.state.campaign(campaign)
        serving.check_open()
        self._check_recording()
        now = serving.now()
        found = serving.decided(asked, now)
        if any(not isinstance(one, Refusal) and one.idempotency_key for one in asked):
            return await self._decide_once(serving, asked, found)
        good = [one for one in found if not isinstance(one, Refusal)]
        counts = counted([cell for _, _, cell in good])
        payloads = [payload for _, payload, _ in good]
        tokens = self.watcher.signer.tokens(payloads)
        responses: list[bytes | Refusal] = [*map(response_json, good, tokens)]
        self.writer.record(campaign, now, payloads, counts)
        for row, one in enumerate(found):
            if isinstance(one, Refusal):
                responses.insert(row, one)
        return responses, counts

    def decide_one(self, campaign: str, asked: DecideRequest) -> tuple[bytes, CountKey]:
        """Do as ``decide`` does with one request without an idempotency key, in less time."""
        serving = self.watcher.state.campaign(campaign)
        serving.check_open()
        self._check_recording()
        now = serving.now()
        decided = serving.decided_one(asked, now)
        _, payload, cell = decided
        response = response_json(decided, self.watcher.signer.token(payload))
        self.writer.record_one(campaign, now, payload, cell.key, is_match=cell.is_match)
        return response, cell.key

    def decide_at_once(
        self, campaign: str, asked: Sequence[PlainRequest]
    ) -> tuple[bytes, dict[CountKey, Counted]] | None:
        """Do as ``decide`` does with a batch of plain requests, in less time.

        The responses are one JSON array; None if it takes ``decide``.
        """
        serving = self.watcher.state.campaign(campaign)
        serving.check_open()
        self._check_recording()
        now = serving.now()
        found = serving.decided_at_once(asked, now)
        if found is None:
            return None
        counts = counted(found.cells)
        responses = found.responses_json(self.watcher.signer.tokens(found.payloads))
        self.writer.record(campaign, now, found.payloads, counts)
        return responses, counts

    async def _decide_once(
        self,
        serving: Serving,
        asked: Sequence[DecideRequest | Refusal],
        found: Sequence[Decided | Refusal],
    ) -> tuple[list[bytes | Refusal], dict[CountKey, Counted]]:
        """Decide under idempotency keys: the first decision under a key is the only one."""
        rows = []
        for request, one in zip(asked, found, strict=True):
            if not isinstance(one, Refusal) and not isinstance(request, Refusal):
                # Decisions without a key in the same request get one that nobody else can have.
                key = request.idempotency_key or f"\x01{one[0].hex()}"
                if request.idempotency_key:
                    _check_name("idempotency_key", key)
                time_ms = int.from_bytes(one[0][:6], "big")
                rows.append(NewAsked(serving.name, key, time_ms, one[1]))
        kept = iter(await self._written(write_asked, rows))
        responses: list[bytes | Refusal] = []
        new: list[Cell] = []
        signer = self.watcher.signer
        for request, one in zip(asked, found, strict=True):
            if isinstance(one, Refusal) or isinstance(request, Refusal):
                assert isinstance(one, Refusal)
                responses.append(one)
                continue
            payload = next(kept)
            if payload == one[1]:
                new.append(one[2])
                responses.append(response_json(one, signer.token(payload)))
                continue
            first, own = decode_record(payload), decode_record(one[1])
            if _asked_for(first) != _asked_for(own):
                responses.append(
                    conflict(
                        "this idempotency key was used for another user, context or list of "
                        "actions; use a new key.",
                        "idempotency_conflict",
                    )
                )
            else:
                ranked = serving.ranked_again(request, first.action)
                responses.append(_response(first, signer.token(payload), ranked))
        return responses, counted(new)

    async def reward(
        self, campaign: str, asked: Sequence[RewardRequest | Refusal]
    ) -> tuple[list[RewardResponse | Refusal], int]:
        """Take in rewards; each response is given after its reward is on the disk.

        The number is that of the rewards that were new.
        """
        serving = self.watcher.state.campaign(campaign)
        received = serving.now()
        checked = [
            one if isinstance(one, Refusal) else self._new_reward(serving, one, received)
            for one in asked
        ]
        kept = await self._written(
            write_rewards, [row for row in checked if isinstance(row, NewReward)]
        )
        left = iter(kept)
        return [
            row if isinstance(row, Refusal) else _reward_response(serving, row, next(left))
            for row in checked
        ], sum(one is not None and one.is_new for one in kept)

    def _new_reward(
        self, serving: Serving, request: RewardRequest, received: int
    ) -> NewReward | Refusal:
        settings = serving.settings
        try:
            record, payload = self._opened(serving, request.token)
            value = settings.check_reward(request.reward)
            # Where the first counts there is one reward, however it is called.
            name = "" if settings.aggregation == "first" else request.reward_id
            if name:
                _check_name("reward_id", name)
        except Refusal as refusal:
            return refusal
        except InputError as error:
            return Refusal(422, "bad_reward", str(error))
        is_late = received > record.time_ms + 1000.0 * settings.reward_window
        key = CountKey(serving.name, record.context, record.mode)
        return NewReward(serving.name, record.id, name, value, received, payload, is_late, key)

    async def activate(
        self, campaign: str, asked: Sequence[ActivateRequest]
    ) -> list[ActivateResponse | Refusal]:
        """Take in that decisions were shown; each response is given when that is on the disk."""
        serving = self.watcher.state.campaign(campaign)
        received = serving.now()
        checked: list[NewActivation | Refusal] = []
        for request in asked:
            try:
                record, payload = self._opened(serving, request.token)
            except Refusal as refusal:
                checked.append(refusal)
                continue
            is_late = received > record.time_ms + 1000.0 * serving.settings.reward_window
            checked.append(NewActivation(serving.name, record.id, received, payload, is_late))
        rows = [row for row in checked if isinstance(row, NewActivation)]
        kept = iter(await self._written(write_activations, rows))
        responses: list[ActivateResponse | Refusal] = []
        for row in checked:
            if isinstance(row, Refusal):
                responses.append(row)
            else:
                activated = next(kept)
                responses.append(
                    _too_late(serving)
                    if activated is None
                    else ActivateResponse(row.decision.hex(), activated)
                )
        return responses

    def _opened(self, serving: Serving, token: str) -> tuple[Record, bytes]:
        """Return the decision of a token, or refuse one of another campaign."""
        record, payload = self.watcher.signer_for(token).opened(token)
        # A campaign that was deleted and made again is another one.
        if record.campaign != serving.name or record.time_ms < serving.created_ms:
            raise Refusal(
                403, "other_campaign", f"the token is not of this campaign {serving.name!r}."
            )
        if serving.forgotten:
            secret = self.watcher.secrets.assignment
            until = serving.forgotten.get(pseudonym(secret, serving.name, record.user), 0)
            if record.time_ms < until:
                raise Refusal(410, "forgotten", "what was recorded of this user was deleted.")
        return record, payload

    def _check_recording(self) -> None:
        """Refuse to decide while decisions cannot be recorded, unless that is wanted."""
        writer = self.writer
        if self.server.decide_without_store:
            return
        if not writer.is_healthy or writer.n_waiting >= MOST_WAITING:
            raise store_unavailable()

    async def _written(self, write: Write, rows: Sequence[Any]) -> Sequence[Any]:
        """Write rows durably, or refuse with 503."""
        if not rows:
            return ()
        try:
            return await self.writer.written(write, rows)
        except StoreError as error:
            raise store_unavailable() from error


def _asked_for(record: Record) -> tuple[str, str, bytes]:
    # Actions are only ever added, so the same list differs in zeros at its end at most.
    return record.user, record.context, record.eligible.rstrip(b"\0")


def _response(record: Record, token: bytes, ranked: list[str] | None) -> bytes:
    return msgspec.json.encode(
        DecideResponse(
            record.id.hex(),
            record.action,
            record.propensity,
            record.mode,
            record.plan,
            token.decode(),
            msgspec.UNSET if ranked is None else ranked,
        )
    )


def _reward_response(
    serving: Serving, row: NewReward, kept: KeptReward | None
) -> RewardResponse | Refusal:
    if kept is None:
        return _too_late(serving)
    if kept.value != row.value:
        return conflict(
            f"this decision has the reward {kept.value:g} already; it counts once.",
            "reward_conflict",
        )
    return RewardResponse(row.decision.hex(), kept.value, row.reward_id, kept.received_ms)


def _too_late(serving: Serving) -> Refusal:
    return Refusal(
        410,
        "window_closed",
        f"the decision is older than the reward window of {serving.settings.reward_window:g} s.",
    )


def _check_name(name: str, value: str) -> None:
    try:
        check_label(name, value)
    except InputError as error:
        raise bad_request(str(error)) from None
