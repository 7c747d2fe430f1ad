"""Decisions of one campaign under its current plan, as records that are signed and logged.

A caller may name the actions to choose from, such as those in stock. What is due is drawn as
always, without regard to the list. If it is on the list it is played, and otherwise its substitute:
the best action on the list by the policy that is served. So

    P(a | list) = p(a) + [a is the substitute] · sum of p(b) over b that are not on the list,

with p(a) the propensity without a list. Learning uses explored decisions only, and a substitute is
none. In each request an action on the list is explored with the same probability as without a
list, so cell means stay unbiased for the requests in which the action could be played; and whoever
influences a list can take decisions of its own accounts out of learning, but never move them to
another action.
"""

from __future__ import annotations

import math
import os
from binascii import hexlify
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, islice, repeat
from typing import Annotated

import msgspec
import numpy as np

from unswayed.errors import InputError
from unswayed.events import UNKNOWN
from unswayed.policy import Decider, EpochPlan, Policy, Ruling
from unswayed.service.catalogue import ACTIVE, Campaign, now_ms
from unswayed.service.errors import Refusal, bad_request
from unswayed.service.settings import check_label
from unswayed.service.tokens import encode_record
from unswayed.service.writing import Counted, CountKey

#: Bytes of an id: six of the time, then random ones.
_ID_BYTES, _RANDOM_BYTES = 16, 10

#: Ours: ids whose random bytes are drawn in one system call.
_IDS_AT_ONCE = 256

SHADOW, SUBSTITUTE = "shadow", "substitute"

#: Ours: lists are part of the token, a bit for each action.
MOST_ACTIONS = 8_000

#: Characters take at most four bytes, and labels may have 256.
_SURELY_SHORT = 64


class PlainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A row of a batch in the common case: a short user name and a context only."""

    user: Annotated[str, msgspec.Meta(min_length=1, max_length=_SURELY_SHORT)]
    context: str


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
    actions
        Actions to choose from, such as those in stock; all if left out.
    top
        How many actions to rank in the response; the first one is the decision.
    """

    user: str | int
    context: str | int
    idempotency_key: str = ""
    is_deferred: bool | None = None
    action: str | int | None = None
    propensity: float | None = None
    actions: list[str | int] | None = None
    top: Annotated[int, msgspec.Meta(ge=1)] | None = None


class DecideResponse(msgspec.Struct, frozen=True, gc=False):
    """The response; ``token`` goes with the reward, and ``mode`` is the reason.

    ``ranked`` has the decision first, and then suggestions that nothing is learned from.
    """

    id: str
    action: str
    propensity: float
    mode: str
    plan: int
    token: str
    ranked: list[str] | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The actions ranked by the served policy, in each context.

    ``plan`` is what is served, and its action comes first in every context; ``policy`` is None
    before anything was learned.
    """

    plan: EpochPlan
    policy: Policy | None
    _ranked: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def ranked(self, context: str) -> tuple[str, ...]:
        """Return all actions, best first; actions without an estimate come last."""
        found = self._ranked.get(context)
        if found is not None:
            return found
        actions = [str(action) for action in self.plan.actions]
        policy = self.policy
        row = UNKNOWN if policy is None else policy.context_labels.code(context)
        if policy is not None and row != UNKNOWN:
            codes = policy.action_labels.codes(self.plan.actions)
            means = np.where(codes == UNKNOWN, np.nan, policy.mean_rewards[row, codes])
            is_out = np.zeros(len(codes), np.bool_)
            if policy.is_excluded is not None:
                is_out = policy.is_excluded[row, codes] & (codes != UNKNOWN)
            order = np.lexsort((-np.nan_to_num(means, nan=-np.inf), is_out))
            actions = [actions[code] for code in order]
        first = str(self.plan.rule(context).action)
        found = self._ranked[context] = (first, *(one for one in actions if one != first))
        return found

    def best(
        self, first: str, context: str, eligible: frozenset[str] | None, number: int
    ) -> list[str]:
        """Return ``number`` actions: the decided one, then the best others."""
        others = (
            one
            for one in self.ranked(context)
            if one != first and (eligible is None or one in eligible)
        )
        return [first, *islice(others, min(number, len(self.plan.actions)) - 1)]

    def ruling(self, due: Ruling, context: str, eligible: frozenset[str]) -> Ruling:
        """Return the ruling among eligible actions, with its exact propensity."""
        substitute = next(one for one in self.ranked(context) if one in eligible)
        is_due = due.action in eligible
        action = str(due.action) if is_due else substitute
        # The propensities of all actions that can be due.
        rule, held = self.plan.rule(context), self.plan.control_share
        due_with: dict[str, float] = {}
        shares = [(name, rule.explorer_share / len(rule.surviving)) for name in rule.surviving]
        for name, share in (*shares, (rule.action, 1.0 - rule.explorer_share)):
            due_with[str(name)] = due_with.get(str(name), 0.0) + (1.0 - held) * share
        if rule.baseline is not None:
            due_with[str(rule.baseline)] = due_with.get(str(rule.baseline), 0.0) + held
        propensity = due_with.get(action, 0.0)
        if action == substitute:
            propensity += sum(p for other, p in due_with.items() if other not in eligible)
        return due._replace(
            mode=due.mode if is_due else SUBSTITUTE,  # type: ignore[arg-type]  # one more mode
            action=action,
            propensity=min(propensity, 1.0),
            mode_propensity=due.mode_propensity if is_due else 1.0,
        )


def checked_list(names: Sequence[str | int], actions: Sequence[str]) -> frozenset[str]:
    """Return the actions that a caller names, or refuse the list."""
    if len(actions) > MOST_ACTIONS:
        raise Refusal(
            422,
            "too_many_actions",
            f"'actions' is for campaigns of up to {MOST_ACTIONS:,} actions.",
        )
    eligible = frozenset(map(str, names))
    if not eligible:
        raise Refusal(422, "no_action", "'actions' is empty; name at least one, or leave it out.")
    unknown = eligible.difference(actions)
    if unknown:
        raise Refusal(
            422, "unknown_action", f"there is no action {min(unknown)[:80]!r}; add it first."
        )
    return eligible


def as_bits(eligible: frozenset[str], plan: EpochPlan) -> bytes:
    """Return a list as a bit for each action of a plan."""
    is_on = np.array([str(action) in eligible for action in plan.actions], np.bool_)
    return np.packbits(is_on, bitorder="little").tobytes()


def from_bits(bits: bytes, plan: EpochPlan) -> list[str]:
    """Return the list that ``as_bits`` made.

    >>> plan = EpochPlan.start("shop", ["lunch"], ["soup", "curry", "cola"])
    >>> from_bits(as_bits(frozenset({"cola", "soup"}), plan), plan)
    ['soup', 'cola']
    """
    is_on = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return [str(name) for name, on in zip(plan.actions, is_on, strict=False) if on]


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """The encoded parts that equal decisions share.

    A decision is (campaign, id, user, …) and its response {id, …, token}; only id, user and token
    differ between decisions of one context that came out alike, and the rest is encoded once.
    """

    key: CountKey
    is_match: bool
    record: bytes
    response: bytes


#: A decision: its id, its encoded record, and the parts it shares with others.
Decided = tuple[bytes, bytes, Cell]


def response_json(decided: Decided, token: bytes) -> bytes:
    """Return a response as JSON, a ``DecideResponse``."""
    id_, _, cell = decided
    return b'{"id":"' + hexlify(id_) + cell.response + token + b'"}'


@dataclass(frozen=True, slots=True, eq=False)
class DecidedBatch:
    """Many decisions, column by column."""

    ids: bytes
    payloads: list[bytes]
    cells: list[Cell]

    def responses_json(self, tokens: Sequence[bytes]) -> bytes:
        """Return the responses as a JSON array: what ``response_json`` does, a piece at a time."""
        ids = np.frombuffer(hexlify(self.ids), f"V{2 * _ID_BYTES}").tolist()
        responses = [cell.response for cell in self.cells]
        rows = zip(repeat(b'"},{"id":"'), ids, responses, tokens, strict=False)
        return b"[" + b"".join(chain.from_iterable(rows))[3:] + b'"}]'


def counted(cells: Sequence[Cell]) -> dict[CountKey, Counted]:
    """Return the numbers of decisions by context and mode."""
    counts: dict[CountKey, Counted] = {}
    for cell, number in Counter(cells).items():
        n = counts.setdefault(cell.key, Counted())
        n.decisions += number
        n.matches += number * cell.is_match
    return counts


#: How an array of nine, eleven or twelve begins in MessagePack, and 16 bytes.
_ARRAYS = (b"\x99", b"\x9b")
_ARRAY_OF_TWELVE = b"\x9c"
_SIXTEEN_BYTES = b"\xc4\x10"


_drawn: list[bytes] = []
os.register_at_fork(after_in_child=_drawn.clear)  # ids that two processes drew would be equal


def _drawn_bytes() -> bytes:
    """Return the random bytes of an id; the system draws for many ids at once."""
    try:
        return _drawn.pop()
    except IndexError:
        data = os.urandom(_RANDOM_BYTES * _IDS_AT_ONCE)
        _drawn.extend(data[n : n + _RANDOM_BYTES] for n in range(0, len(data), _RANDOM_BYTES))
        return _drawn.pop()


@dataclass(frozen=True, slots=True, eq=False)
class Serving(Campaign):
    """A campaign as a process serves it; a decision is a pure function of this and the request.

    ``start`` is how every record of the campaign begins.
    """

    contexts: frozenset[str]
    decider: Decider
    start: bytes
    ranking: Ranking
    forgotten: Mapping[str, int]
    cells: dict[tuple[int, bool], Cell] = field(default_factory=dict)
    plain_cells: dict[int, Cell] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        campaign: Campaign,
        decider: Decider,
        policy: Policy | None = None,
        forgotten: Mapping[str, int] | None = None,
    ) -> Serving:
        """Build the serving state of a campaign from its plan, its policy and its deleted users."""
        array = _ARRAYS[campaign.settings.mode == SHADOW]
        return cls(
            **{one.name: getattr(campaign, one.name) for one in fields(Campaign)},
            contexts=frozenset(campaign.settings.contexts),
            decider=decider,
            start=array + encode_record(campaign.name) + _SIXTEEN_BYTES,
            ranking=Ranking(decider.plan, policy),
            forgotten=forgotten or {},
        )

    def now(self) -> int:
        """Return the time of a decision, never before the campaign was created."""
        return max(now_ms(), self.created_ms)

    def check_open(self) -> None:
        """Refuse decisions of an archived campaign."""
        if self.state != ACTIVE:
            raise Refusal(
                409, "archived", f"campaign {self.name!r} is archived; restore it to decide."
            )

    def decided(
        self, asked: Sequence[DecideRequest | Refusal], time_ms: int
    ) -> list[Decided | Refusal]:
        """Return a decision for each request, or the refusal of one that cannot be decided."""
        found: list[Decided | Refusal] = []
        for request in asked:
            try:
                found.append(
                    request if isinstance(request, Refusal) else self.decided_one(request, time_ms)
                )
            except Refusal as refusal:
                found.append(refusal)
        return found

    def decided_one(self, request: DecideRequest, time_ms: int) -> Decided:
        """Return the decision for a request, or refuse it."""
        id_ = time_ms.to_bytes(6, "big") + _drawn_bytes()
        user, context = str(request.user), str(request.context)
        if not 0 < len(user) <= _SURELY_SHORT or not user.isprintable():
            check_name("user", user)
        if context not in self.contexts:
            raise unknown_context(self.name, context, self.contexts)
        ruling = self.decider.decide(user, context, play_of(id_))
        is_deferred = request.is_deferred
        if is_deferred is None:
            is_deferred = self.settings.is_deferred
        if request.actions is not None or request.top is not None:
            return self._chosen(request, ruling, id_, is_deferred)
        cell = self.cells.get((id(ruling), is_deferred))
        if cell is None or request.action is not None or request.propensity is not None:
            own = self._own(request)
            cell = self._cell(ruling, context, is_deferred, own)
            if own is None:
                # The decider has one ruling for each context and way it can come out, and keeps it.
                self.cells[id(ruling), is_deferred] = cell
        return id_, self.start + id_ + encode_record(user) + cell.record, cell

    def _chosen(
        self, request: DecideRequest, ruling: Ruling, id_: bytes, is_deferred: bool
    ) -> Decided:
        """Return a decision among the actions of the request, or one that is ranked."""
        context, bits, eligible = str(request.context), b"", None
        if request.actions is not None:
            eligible = checked_list(request.actions, self.settings.actions)
            bits = as_bits(eligible, self.decider.plan)
            ruling = self.ranking.ruling(ruling, context, eligible)
        own = self._own(request)
        action = str(ruling.action) if own is None else own[0]
        if eligible is not None and action not in eligible:
            raise bad_request("'action' is not among 'actions'; give what was shown.")
        ranked = None
        if request.top is not None:
            ranked = self.ranking.best(action, context, eligible, request.top)
        cell = self._cell(ruling, context, is_deferred, own, ranked)
        planned = b"" if own is not None else encode_record("") + encode_record(0.0)
        user = encode_record(str(request.user))
        head = _ARRAY_OF_TWELVE + self.start[1:] + id_ + user
        return id_, head + cell.record + planned + encode_record(bits), cell

    def ranked_again(self, request: DecideRequest, action: str) -> list[str] | None:
        """Return the ranking for a decision that was made before, if it is asked for."""
        if request.top is None:
            return None
        eligible = None if request.actions is None else frozenset(map(str, request.actions))
        return self.ranking.best(action, str(request.context), eligible, request.top)

    def decided_at_once(self, asked: Sequence[PlainRequest], time_ms: int) -> DecidedBatch | None:
        """Decide a batch of common requests quickly; None if a row needs ``decided``."""
        users = [request.user for request in asked]
        if self.settings.mode == SHADOW or "\0" in "".join(users):
            return None
        n, start = len(users), self.start
        heads = np.empty((n, len(start) + _ID_BYTES), np.uint8)
        heads[:, : len(start)] = np.frombuffer(start, np.uint8)
        ids = heads[:, len(start) :]
        ids[:, :-_RANDOM_BYTES] = np.frombuffer(time_ms.to_bytes(6, "big"), np.uint8)
        ids[:, -_RANDOM_BYTES:] = np.frombuffer(os.urandom(_RANDOM_BYTES * n), np.uint8).reshape(
            n, _RANDOM_BYTES
        )
        id_bytes = ids.tobytes()
        plays = (np.frombuffer(id_bytes, ">u8")[1::2] >> np.uint64(2)).astype(np.int64)
        try:
            places = self.decider.places(users, [request.context for request in asked], plays)
        except KeyError:
            return None
        known, plan, ruled = self.plain_cells, self.decider.plan, self.decider.ruled
        for place in set(places) - known.keys():
            context = str(plan.contexts[place * len(plan.contexts) // len(ruled)])
            known[place] = self._cell(ruled[place], context, self.settings.is_deferred)
        cells = [known[place] for place in places]
        heading = heads.view(f"V{heads.shape[1]}").ravel().tolist()
        payloads = [
            head + encode_record(user) + cell.record
            for head, user, cell in zip(heading, users, cells, strict=True)
        ]
        return DecidedBatch(id_bytes, payloads, cells)

    def _cell(
        self,
        ruling: Ruling,
        context: str,
        is_deferred: bool,
        own: tuple[str, float] | None = None,
        ranked: list[str] | None = None,
    ) -> Cell:
        """Return the cell of a ruling; ``own`` is the caller's action and propensity in shadow."""
        action, propensity = (ruling.action, ruling.propensity) if own is None else own
        mode = str(ruling.mode) if own is None else SHADOW
        rest: tuple[object, ...] = (
            context,
            action,
            propensity,
            mode,
            self.plan_version,
            is_deferred,
        )
        if own is not None:
            rest += (ruling.action, ruling.propensity)
        response: dict[str, object] = {
            "action": action,
            "propensity": propensity,
            "mode": mode,
            "plan": self.plan_version,
        }
        if ranked is not None:
            response["ranked"] = ranked
        return Cell(
            CountKey(self.name, context, mode),
            own is not None and action == ruling.action,
            b"".join(map(encode_record, rest)),
            b'",' + msgspec.json.encode(response)[1:-1] + b',"token":"',
        )

    def _own(self, request: DecideRequest) -> tuple[str, float] | None:
        """Return the caller's own action and its propensity in shadow mode, else None."""
        if self.settings.mode != SHADOW:
            if request.action is not None or request.propensity is not None:
                raise bad_request("'action' and 'propensity' are for shadow mode; leave them out.")
            return None
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


def check_name(kind: str, text: str) -> None:
    """Refuse a name that is too long or not valid text."""
    try:
        check_label(kind, text)
    except InputError as error:
        raise bad_request(str(error)) from None


def play_of(id_: bytes) -> int:
    """Return the number of the play that an id stands for: 62 of its random bits.

    Plays only have to differ, so that draws that change from play to play are independent; no
    server has to count them.
    """
    return int.from_bytes(id_[-8:], "big") >> 2


_SOME_CONTEXTS = 5


def unknown_context(campaign: str, context: str, known: Collection[str]) -> Refusal:
    """Return the refusal of a context that was not declared."""
    some = ", ".join(repr(name[:80]) for name in islice(known, _SOME_CONTEXTS))
    more = ", …" if len(known) > _SOME_CONTEXTS else ""
    return Refusal(
        422,
        "unknown_context",
        f"campaign {campaign!r} has no context {context[:80]!r}; it has {some}{more}. Add it "
        "first, or correct it.",
    )
