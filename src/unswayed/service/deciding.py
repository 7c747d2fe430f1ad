"""Decisions of one campaign under its current plan, as records that are signed and logged."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from unswayed.errors import InputError
from unswayed.policy import Decider
from unswayed.service.catalogue import ACTIVE, Campaign
from unswayed.service.errors import Refusal, bad_request
from unswayed.service.settings import Settings, check_label
from unswayed.service.tokens import Record

#: Random bytes of an id, after six of the time.
_RANDOM_BYTES = 10

SHADOW = "shadow"


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

    def records(self, asked: Sequence[DecideRequest], time_ms: int) -> list[Record | Refusal]:
        """Return a decision for each request, or the refusal of one that cannot be decided."""
        stamp = time_ms.to_bytes(6, "big")
        drawn = os.urandom(_RANDOM_BYTES * len(asked))
        records: list[Record | Refusal] = []
        for number, request in enumerate(asked):
            start = number * _RANDOM_BYTES
            try:
                records.append(self._record(request, stamp + drawn[start : start + _RANDOM_BYTES]))
            except Refusal as refusal:
                records.append(refusal)
        return records

    def _record(self, request: DecideRequest, id_: bytes) -> Record:
        user, context = str(request.user), str(request.context)
        settings = self.settings
        if not 0 < len(user) <= _SURELY_SHORT or not user.isprintable():
            _check_user(user)
        if context not in self.contexts:
            raise unknown_context(self.name, context)
        ruling = self.decider.decide(user, context, play_of(id_))
        is_deferred = request.is_deferred
        if is_deferred is None:
            is_deferred = settings.is_deferred
        if settings.mode == SHADOW:
            action, propensity = self._own_action(request)
            return Record(
                self.name,
                id_,
                user,
                context,
                action,
                propensity,
                SHADOW,
                self.plan_version,
                is_deferred,
                str(ruling.action),
                ruling.propensity,
            )
        if request.action is not None or request.propensity is not None:
            raise bad_request("'action' and 'propensity' are for shadow mode; leave them out.")
        return Record(
            self.name,
            id_,
            user,
            context,
            ruling.action,  # type: ignore[arg-type]  # labels of the service are strings
            ruling.propensity,
            ruling.mode,
            self.plan_version,
            is_deferred,
        )

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
        return action, propensity


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
