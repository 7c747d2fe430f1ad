"""Decisions of one campaign under its current plan, as records that are signed and logged.

A caller may list eligible actions, such as those in stock. If the planned action is not eligible,
its substitute is played: the best eligible action by the served policy. ``docs/service.md``,
"Eligible actions", explains why learning stays unbiased.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

import msgspec
import numpy as np

from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Labels
from unswayed.events.attributes import plain_text
from unswayed.learners.features.shape import NO_LEAF
from unswayed.policy import Decider, EpochPlan, Policy, Ruling
from unswayed.policy.partition import Partition
from unswayed.service.catalogue import Campaign, now_ms
from unswayed.service.errors import Refusal, bad_request, suggested
from unswayed.service.planning import partition_of
from unswayed.service.settings import FeatureSettings, Settings, check_label
from unswayed.service.tokens import Record

_RANDOM_BYTES = 10  # Random bytes of an id, after the six of its time
_IDS_AT_ONCE = 256  # Ours: number of ids whose random bytes are drawn in one system call

SHADOW, SUBSTITUTE = "shadow", "substitute"

# Ours: maximum number of actions if callers list eligible ones; each action is a bit of the token
MOST_ACTIONS = 8_000
_SURELY_SHORT = 64  # Labels of at most this many characters fit 256 bytes
OTHER_LEVEL = "(other)"  # Level that stands for rare or undeclared values of a category
MOST_BYTES = 1_024  # Ours: maximum bytes of a request's text attributes, which the token contains

Attributes = dict[str, str | float | None]


class DecideRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for an action for a user in a context.

    Parameters
    ----------
    attributes
        Values of the features, null if missing; replaces the context in a campaign with features.
    idempotency_key
        A repeated request with the same key gets the first decision.
    is_deferred
        Whether this decision counts only once it is activated. Default: the campaign's setting.
    action, propensity
        In shadow mode: the caller's own action, and the probability of choosing it, if known.
    actions
        Actions to choose from, such as those in stock. Default: all actions.
    top
        Number of actions to rank in the response; the first one is the decision.
    """

    user: str | int
    context: str | int = ""
    attributes: dict[str, str | float | bool | None] | None = None
    idempotency_key: str = ""
    is_deferred: bool | None = None
    action: str | int | None = None
    propensity: float | None = None
    actions: list[str | int] | None = None
    top: Annotated[int, msgspec.Meta(ge=1)] | None = None


class DecideResponse(msgspec.Struct, frozen=True, gc=False):
    """A decision; send its ``token`` with the reward. ``mode`` tells why the action was chosen.

    ``ranked`` lists the decision first, then further suggestions, which are not learned from. In a
    campaign with features, ``leaf`` is the rule that the attributes satisfy. If a value is unknown,
    ``leaf`` is null, ``is_known`` is false, and the action is the policy's default.
    """

    id: str
    action: str
    propensity: float
    mode: str
    plan: int
    token: str
    ranked: list[str] | msgspec.UnsetType = msgspec.UNSET
    leaf: str | msgspec.UnsetType | None = msgspec.UNSET
    is_known: bool | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The actions ranked by the served policy, in each context.

    ``plan`` is the served plan, and its action comes first in every context; ``policy`` is None
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

    def ruling(self, due: Ruling, context: str, eligible: frozenset[str]) -> Ruling:
        """Return the ruling restricted to eligible actions, with its exact propensity.

        P(a | list) = p(a) + [a is the substitute] · sum of p(b) over b that are not on the list.
        """
        substitute = next(one for one in self.ranked(context) if one in eligible)
        is_due = due.action in eligible
        action = str(due.action) if is_due else substitute
        # The probability of each action if all were eligible.
        rule, held = self.plan.rule(context), self.plan.control_share
        explored = (1.0 - held) * (rule.explorer_share / len(rule.surviving))
        due_with = dict.fromkeys(rule.surviving, explored)
        due_with[rule.action] += (1.0 - held) * (1.0 - rule.explorer_share)
        if rule.baseline is not None:
            due_with[rule.baseline] = due_with.get(rule.baseline, 0.0) + held
        propensity = due_with.get(action, 0.0)
        if action == substitute:
            propensity += sum(p for other, p in due_with.items() if other not in eligible)
        return due._replace(
            mode=due.mode if is_due else SUBSTITUTE,  # type: ignore[arg-type]  # no plan has it
            action=action,
            propensity=min(propensity, 1.0),
            mode_propensity=due.mode_propensity if is_due else 1.0,
        )


def checked_list(names: Sequence[str | int], actions: Labels) -> frozenset[str]:
    """Return a caller's eligible actions; reject an invalid list."""
    if len(actions) > MOST_ACTIONS:
        text = f"'actions' can be used in campaigns of up to {MOST_ACTIONS:,} actions."
        raise Refusal(422, "too_many_actions", text)
    eligible = frozenset(map(str, names))
    if not eligible:
        raise Refusal(422, "no_action", "'actions' is empty; name at least one, or leave it out.")
    if unknown := [name for name in eligible if name not in actions]:
        text = f"there is no action {min(unknown)[:80]!r}; add it first."
        raise Refusal(422, "unknown_action", text)
    return eligible


def as_bits(eligible: frozenset[str], plan: EpochPlan) -> bytes:
    """Encode eligible actions as one bit for each action of a plan."""
    is_on = np.zeros(len(plan.actions), np.bool_)
    is_on[plan.actions.codes(eligible)] = True
    return np.packbits(is_on, bitorder="little").tobytes()


def from_bits(bits: bytes, plan: EpochPlan) -> list[str]:
    """Decode the result of ``as_bits``.

    >>> plan = EpochPlan.start("shop", ["lunch"], ["soup", "curry", "cola"])
    >>> from_bits(as_bits(frozenset({"cola", "soup"}), plan), plan)
    ['soup', 'cola']
    """
    is_on = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return [str(name) for name, on in zip(plan.actions, is_on, strict=False) if on]


_drawn: list[bytes] = []
os.register_at_fork(after_in_child=_drawn.clear)  # otherwise processes would share ids


def _new_id(time_ms: int) -> bytes:
    """Return a new id of a decision; the random bytes of many are drawn in one system call."""
    if not _drawn:
        data = os.urandom(_RANDOM_BYTES * _IDS_AT_ONCE)
        _drawn.extend(data[n : n + _RANDOM_BYTES] for n in range(0, len(data), _RANDOM_BYTES))
    return time_ms.to_bytes(6, "big") + _drawn.pop()


class Serving(Campaign, frozen=True, eq=False):
    """A campaign with all that a process needs to decide.

    ``partition`` maps attributes to leaves if the campaign has features.
    """

    contexts: frozenset[str]
    decider: Decider
    ranking: Ranking
    forgotten: Mapping[str, int]
    partition: Partition | None

    @classmethod
    def of(
        cls,
        campaign: Campaign,
        decider: Decider,
        policy: Policy | None = None,
        forgotten: Mapping[str, int] | None = None,
    ) -> Serving:
        """Build the serving state of a campaign from its plan, its policy and its deleted users."""
        return cls(
            **msgspec.structs.asdict(campaign),
            contexts=frozenset(campaign.settings.contexts),
            decider=decider,
            ranking=Ranking(decider.plan, policy),
            forgotten=forgotten or {},
            partition=partition_of(campaign.settings, policy),
        )

    def now(self) -> int:
        """Return the current time, but never one before the campaign was created."""
        return max(now_ms(), self.created_ms)

    def decided(self, request: DecideRequest, time_ms: int) -> Record:
        """Return the decision for a request, or raise a ``Refusal``."""
        id_ = _new_id(time_ms)
        user = str(request.user)
        if not 0 < len(user) <= _SURELY_SHORT or not user.isprintable():
            check_name("user", user)
        if request.idempotency_key:
            check_name("idempotency_key", request.idempotency_key)
        attributes: Attributes = {}
        if self.partition is not None or request.attributes is not None:
            context, attributes = self._leaf_of(request)
        elif (context := str(request.context)) not in self.contexts:
            raise unknown_context(self.name, context, self.settings.contexts)
        ruling, eligible = self.decider.decide(user, context, play_of(id_)), None
        if request.actions is not None:
            eligible = checked_list(request.actions, self.decider.plan.actions)
            ruling = self.ranking.ruling(ruling, context, eligible)
        own = self._own(request)
        action, propensity = (str(ruling.action), ruling.propensity) if own is None else own
        if eligible is not None and action not in eligible:
            raise bad_request("'action' must be one of 'actions'; give the action that was shown.")
        is_deferred = request.is_deferred
        return Record(
            self.name,
            id_,
            user,
            context,
            action,
            propensity,
            str(ruling.mode) if own is None else SHADOW,
            self.plan_version,
            self.settings.is_deferred if is_deferred is None else is_deferred,
            "" if own is None else str(ruling.action),
            0.0 if own is None else ruling.propensity,
            b"" if eligible is None else as_bits(eligible, self.decider.plan),
            attributes,
            b"" if self.partition is None else bytes.fromhex(self.partition.hash),
        )

    def _leaf_of(self, request: DecideRequest) -> tuple[str, Attributes]:
        """Return the leaf of a request's attributes, and the attributes."""
        if self.partition is None:
            raise bad_request(
                f"campaign {self.name!r} has no features; give 'context' instead.", "bad_attributes"
            )
        if request.attributes is None or request.context:
            names = ", ".join(self.settings.features)
            raise bad_request(
                f"campaign {self.name!r} has features; give 'attributes' ({names}), not 'context'.",
                "bad_attributes",
            )
        attributes = read_attributes(self.settings, request.attributes)
        leaf = leaf_of(self.partition, attributes)
        return NO_LEAF if leaf is None else leaf, attributes

    def response(self, record: Record, request: DecideRequest, token: bytes) -> bytes:
        """Return the response as JSON; a repeated request may get an earlier decision."""
        ranked: list[str] | msgspec.UnsetType = msgspec.UNSET
        if request.top is not None:
            eligible = None if request.actions is None else {*map(str, request.actions)}
            others = (
                one
                for one in self.ranking.ranked(record.context)
                if one != record.action and (eligible is None or one in eligible)
            )
            number = min(request.top, len(self.settings.actions))
            ranked = [record.action, *islice(others, number - 1)]
        is_leaf, is_known = bool(record.partition), record.context != NO_LEAF
        response = DecideResponse(
            record.id.hex(),
            record.action,
            record.propensity,
            record.mode,
            record.plan,
            token.decode(),
            ranked,
            (record.context if is_known else None) if is_leaf else msgspec.UNSET,
            is_known if is_leaf else msgspec.UNSET,
        )
        return msgspec.json.encode(response)

    def _own(self, request: DecideRequest) -> tuple[str, float] | None:
        """Return the caller's own action and its propensity in shadow mode, else None."""
        if self.settings.mode != SHADOW:
            if request.action is not None or request.propensity is not None:
                raise bad_request("'action' and 'propensity' need shadow mode; leave them out.")
            return None
        if request.action is None:
            raise bad_request("shadow mode requires 'action', the action that you chose yourself.")
        action = str(request.action)
        if action not in self.settings.actions:
            text = f"campaign {self.name!r} has no action {action[:80]!r}; add it first."
            raise Refusal(422, "unknown_action", text)
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
    """Return the play number of a decision: 62 random bits of its id.

    Draws are independent if play numbers differ, so no server has to count plays.
    """
    return int.from_bytes(id_[-8:], "big") >> 2


def read_attributes(settings: Settings, given: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a request as they are recorded; reject invalid ones.

    Omitted attributes are missing values. If bins are declared, a number becomes the lower edge of
    its bin; if levels are declared, any other value becomes ``OTHER_LEVEL``.
    """
    for name in given.keys() - settings.features.keys():
        raise _refused(f"there is no feature {suggested(name, sorted(settings.features))}")
    found: Attributes = {
        name: _value(name, feature, given.get(name)) for name, feature in settings.features.items()
    }
    n_bytes = sum(len(value.encode()) for value in found.values() if isinstance(value, str))
    if n_bytes > MOST_BYTES:
        raise _refused(f"the attributes have {n_bytes:,} bytes; give {MOST_BYTES:,} at most.")
    return found


def _value(name: str, feature: FeatureSettings, value: Any) -> str | float | None:
    if value is None:
        return None
    if feature.type == "number":
        if isinstance(value, str | bool) or not math.isfinite(value):
            raise _refused(f"attribute {name!r} must be a finite number, or null.")
        if not feature.bins:
            return float(value)
        # The lowest bin has no lower edge; numbers in it become one just below its upper edge.
        first, place = feature.bins[0], bisect_right(feature.bins, value)
        below = min(first - 1.0, math.nextafter(first, -math.inf))
        return feature.bins[place - 1] if place else below
    text = plain_text(value) or ""
    try:
        text.encode()
        is_text = "\0" not in text  # PostgreSQL does not accept it
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise _refused(f"attribute {name!r} is not valid Unicode text without NUL.")
    return text if not feature.levels or text in feature.levels else OTHER_LEVEL


def _refused(message: str) -> Refusal:
    return Refusal(422, "bad_attributes", message)


def leaf_of(partition: Partition, attributes: Attributes) -> str | None:
    """Return the leaf of recorded attributes; None if a value is unknown to a split."""
    placed: dict[str, Any] = {}
    for feature in partition.features:
        value = attributes.get(feature.name)
        is_other = OTHER_LEVEL in feature.levels and value not in feature.levels
        placed[feature.name] = OTHER_LEVEL if is_other and value is not None else value
    return partition.leaf(placed)


_SOME_CONTEXTS = 5


def unknown_context(campaign: str, context: str, known: Collection[str]) -> Refusal:
    """Return the response to a request with an undeclared context."""
    if not context:
        return Refusal(422, "bad_body", "the body lacks the field 'context'.")
    some = ", ".join(repr(name[:80]) for name in islice(known, _SOME_CONTEXTS))
    more = ", …" if len(known) > _SOME_CONTEXTS else ""
    text = f"campaign {campaign!r} has no context {context[:80]!r}; it has {some}{more}."
    return Refusal(422, "unknown_context", f"{text} Add it first, or correct it.")
