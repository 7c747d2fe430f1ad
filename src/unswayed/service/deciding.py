"""Decisions of one campaign under its current plan, as records that are signed and logged."""

from __future__ import annotations

import math
import os
from binascii import hexlify
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from unswayed.errors import InputError
from unswayed.policy import Decider, Ruling
from unswayed.service.catalogue import ACTIVE, Campaign
from unswayed.service.errors import Refusal, bad_request
from unswayed.service.settings import Settings, check_label

#: Random bytes of an id, after six of the time.
_RANDOM_BYTES = 10

SHADOW = "shadow"

#: Ours: from so many decisions on, arrays cost less than they save.
_MANY = 8


class DecideRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a caller asks: an action for a user in a context.

    Parameters
    ----------
    idempotency_key
        The same key again gets the first decision again.
    is_deferred
        Whether this decision counts only once it is activated; the campaign's setting if left out.
    action, propensity
        In shadow mode the caller's own action, and with what probability it was chosen if known.
    """

    user: str | int
    context: str | int
    idempotency_key: str = ""
    is_deferred: bool | None = None
    action: str | int | None = None
    propensity: float | None = None


class DecideAnswer(msgspec.Struct, frozen=True, gc=False):
    """What is answered; ``token`` goes with the reward."""

    id: str
    action: str
    propensity: float
    mode: str
    plan: int
    token: str


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """All that decisions alike share, ready to be put together.

    A decision is (campaign, id, user, …) and its answer {id, …, token}; only id, user and token
    differ between decisions of one context that came out alike, and the rest is encoded once.
    """

    context: str
    mode: str
    is_match: bool
    record: bytes
    answer: bytes
    ruling: Ruling

    @classmethod
    def of(
        cls,
        ruling: Ruling,
        context: str,
        *,
        plan: int,
        is_deferred: bool,
        own: tuple[str, float] | None = None,
    ) -> Cell:
        """Return the cell of a ruling; ``own`` is the caller's action and propensity in shadow."""
        action, propensity = (ruling.action, ruling.propensity) if own is None else own
        mode = str(ruling.mode) if own is None else SHADOW
        rest: tuple[object, ...] = (context, action, propensity, mode, plan, is_deferred)
        if own is not None:
            rest += (ruling.action, ruling.propensity)
        answer = {"action": action, "propensity": propensity, "mode": mode, "plan": plan}
        return cls(
            context,
            mode,
            own is not None and action == ruling.action,
            b"".join(map(_encode, rest)),
            b'",' + msgspec.json.encode(answer)[1:-1] + b',"token":"',
            ruling,
        )


#: A decision: its id, what is signed and logged of it, and what it shares with others.
Decided = tuple[bytes, bytes, Cell]


def answered(decided: Sequence[Decided], tokens: Sequence[bytes]) -> list[bytes]:
    """Return the answers as JSON, a ``DecideAnswer`` each."""
    return [
        b'{"id":"' + hexlify(id_) + cell.answer + token + b'"}'
        for (id_, _, cell), token in zip(decided, tokens, strict=True)
    ]


_encode = msgspec.msgpack.Encoder().encode

#: How an array of nine or eleven begins in MessagePack, and 16 bytes.
_ARRAYS = (b"\x99", b"\x9b")
_SIXTEEN_BYTES = b"\xc4\x10"


@dataclass(frozen=True, slots=True, eq=False)
class Serving:
    """A campaign as a process serves it: what a decision is a pure function of."""

    name: str
    settings: Settings
    state: str
    plan_version: int
    policy_version: int
    created_ms: int
    contexts: frozenset[str]
    decider: Decider
    cells: dict[tuple[int, bool], Cell] = field(default_factory=dict)

    @classmethod
    def of(cls, campaign: Campaign, decider: Decider) -> Serving:
        """Return what serves a campaign by a plan."""
        return cls(
            campaign.name,
            campaign.settings,
            campaign.state,
            campaign.plan_version,
            campaign.policy_version,
            campaign.created_ms,
            frozenset(campaign.settings.contexts),
            decider,
        )

    def check_open(self) -> None:
        """Refuse decisions of an archived campaign."""
        if self.state != ACTIVE:
            raise Refusal(
                409, "archived", f"campaign {self.name!r} is archived; restore it to decide."
            )

    def decided(self, asked: Sequence[DecideRequest], time_ms: int) -> list[Decided | Refusal]:
        """Return a decision for each request, or the refusal of one that cannot be decided."""
        stamp = time_ms.to_bytes(6, "big")
        drawn = os.urandom(_RANDOM_BYTES * len(asked))
        ids = [stamp + drawn[n : n + _RANDOM_BYTES] for n in range(0, len(drawn), _RANDOM_BYTES)]
        if len(asked) >= _MANY and self._are_plain(asked):
            return self._decided_at_once(asked, ids)
        found: list[Decided | Refusal] = []
        for request, id_ in zip(asked, ids, strict=True):
            try:
                found.append(self._decided(request, id_))
            except Refusal as refusal:
                found.append(refusal)
        return found

    def _decided(self, request: DecideRequest, id_: bytes) -> Decided:
        user, context = str(request.user), str(request.context)
        if not 0 < len(user) <= _SURELY_SHORT or not user.isprintable():
            _check_user(user)
        if context not in self.contexts:
            raise unknown_context(self.name, context)
        ruling = self.decider.decide(user, context, play_of(id_))
        is_deferred = request.is_deferred
        if is_deferred is None:
            is_deferred = self.settings.is_deferred
        cell = self.cells.get((id(ruling), is_deferred))
        if cell is None or request.action is not None or request.propensity is not None:
            cell = self._new_cell(request, ruling, context, is_deferred)
        return id_, self._start + id_ + _encode(user) + cell.record, cell

    def _are_plain(self, asked: Sequence[DecideRequest]) -> bool:
        """Whether all requests name a short user and a known context, and nothing else."""
        users = [request.user for request in asked]
        return (
            self.settings.mode != SHADOW
            and all(type(user) is str and user.isprintable() for user in users)
            and 0 < min(map(len, users)) <= max(map(len, users)) <= _SURELY_SHORT  # type: ignore[arg-type]
            and self.contexts.issuperset([request.context for request in asked])
            and all(
                request.is_deferred is None
                and request.action is None
                and request.propensity is None
                for request in asked
            )
        )

    def _decided_at_once(
        self, asked: Sequence[DecideRequest], ids: list[bytes]
    ) -> list[Decided | Refusal]:
        """Do as ``_decided`` does, in a third of its time a decision."""
        users = [request.user for request in asked]
        contexts = [request.context for request in asked]
        plays = (np.frombuffer(b"".join([id_[-8:] for id_ in ids]), ">u8") >> 2).astype(np.int64)
        is_deferred, find = self.settings.is_deferred, self.cells.get
        cells = [
            find((id(ruling), is_deferred))
            or self._new_cell(request, ruling, str(request.context), is_deferred)
            for ruling, request in zip(
                self.decider.rulings(users, contexts, plays), asked, strict=True
            )
        ]
        start = self._start
        payloads = [
            start + id_ + _encode(user) + cell.record
            for id_, user, cell in zip(ids, users, cells, strict=True)
        ]
        return list(zip(ids, payloads, cells, strict=True))

    @property
    def _start(self) -> bytes:
        """How every record of this campaign begins."""
        return _ARRAYS[self.settings.mode == SHADOW] + _encode(self.name) + _SIXTEEN_BYTES

    def _new_cell(
        self, request: DecideRequest, ruling: Ruling, context: str, is_deferred: bool
    ) -> Cell:
        if self.settings.mode == SHADOW:
            own = self._own_action(request)
            return Cell.of(
                ruling, context, plan=self.plan_version, is_deferred=is_deferred, own=own
            )
        if request.action is not None or request.propensity is not None:
            raise bad_request("'action' and 'propensity' are for shadow mode; leave them out.")
        cell = Cell.of(ruling, context, plan=self.plan_version, is_deferred=is_deferred)
        # The decider has one ruling for each context and way it can come out, and keeps it.
        self.cells[id(ruling), is_deferred] = cell
        return cell

    def _own_action(self, request: DecideRequest) -> tuple[str, float]:
        if request.action is None:
            raise bad_request("in shadow mode 'action' is your own action; give it.")
        action = str(request.action)
        if action not in self.settings.actions:
            raise Refusal(
                422,
                "unknown_action",
                f"campaign {self.name!r} has no action {action[:80]!r}; add it first.",
            )
        propensity = 0.0 if request.propensity is None else request.propensity
        if not (math.isfinite(propensity) and 0.0 <= propensity <= 1.0):
            raise bad_request(f"propensity is {propensity}: it must lie in (0, 1].")
        return action, float(propensity)


#: Characters take at most four bytes, and labels may have 256.
_SURELY_SHORT = 64


def _check_user(user: str) -> None:
    try:
        check_label("user", user)
    except InputError as error:
        raise bad_request(str(error)) from None


def play_of(id_: bytes) -> int:
    """Return the number of the play that an id stands for: 62 of its random bits.

    Plays only have to differ, so that draws that change from play to play are independent; no
    server has to count them.
    """
    return int.from_bytes(id_[-8:], "big") >> 2


def unknown_context(campaign: str, context: str) -> Refusal:
    """Return the refusal of a context that was not declared."""
    return Refusal(
        422,
        "unknown_context",
        f"campaign {campaign!r} has no context {context[:80]!r}; add it first, or correct it.",
    )
