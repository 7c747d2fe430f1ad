"""One epoch of a campaign: who explores, who exploits, and who is in the control group.

A plan is plain data: it can be written, read, sent and compared. With the campaign's secret it
becomes a ``Decider``, whose every decision is a pure function of (secret, plan, user, context,
play): nothing is stored, and the holder of the secret can check each decision later.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unswayed.arrays import IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Label, Labels
from unswayed.policy.assignment import Assignment, Digests, siphash_of_four, uniform_index
from unswayed.policy.documents import check_version, read_object, write_object

FORMAT = "unswayed-epoch-plan"
VERSION = 1

LARGEST_EPOCH = 2**62  # An epoch's number must fit into a signed word of the hash
_DESIGNS = ("per-play", "sticky")  # JSON names of ``is_sticky``: False, True
_EXPLORERS = ("per-epoch", "per-play")  # JSON names of ``is_spread``: False, True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which actions are played in one context, and by whom.

    Explorers of a smaller share are also explorers of any larger share, so contexts with equal
    shares have the same explorers. If exploration is spread over all users, so that nobody explores
    permanently, this holds for single plays.
    """

    action: Label  # the policy's action; one of ``surviving``
    surviving: tuple[Label, ...]  # explorers draw uniformly from these
    explorer_share: float = 0.0
    is_sticky: bool = True  # whether an explorer keeps one action for the epoch
    is_spread: bool = False  # whether explorers are drawn at every play instead of once per epoch
    baseline: Label | None = None  # action of the control group, if there is one


@dataclass(frozen=True, kw_only=True)
class EpochPlan:
    """One epoch of a campaign.

    The campaign's name enters into every draw: two campaigns under one secret have independent
    explorers, groups and controls. Explorers and their actions are redrawn in every epoch; controls
    stay.

    >>> plan = EpochPlan.start("spring", ["lunch", "dinner"], ["tea", "soup"], explorer_share=0.5)
    >>> plan.rule("lunch").surviving
    ('tea', 'soup')
    >>> EpochPlan.from_json(plan.to_json()) == plan
    True
    """

    campaign: str
    epoch: int  # counts from 0
    contexts: Labels  # contexts that have their own rule
    actions: Labels  # all actions of the campaign
    rules: tuple[Rule, ...]  # one for each context, in order
    unknown: Rule  # rule for all other contexts
    control_share: float = 0.0  # the control group's share of the users, in all epochs
    is_alarmed: bool = False  # whether a coalition was found when the plan was made

    def __post_init__(self) -> None:
        check_campaign(self.campaign)
        if type(self.epoch) is not int or not 0 <= self.epoch <= LARGEST_EPOCH:
            raise InputError(f"epoch is {self.epoch!r}: it counts 0, 1, 2, ….")
        _check_share(self.control_share, "control_share")
        if type(self.is_alarmed) is not bool:
            raise InputError(f"is_alarmed is {self.is_alarmed!r}: it must be true or false.")
        if not len(self.actions):
            raise InputError("a plan needs at least one action.")
        if len(self.rules) != len(self.contexts):
            raise InputError(
                f"there are {len(self.rules)} rules for {len(self.contexts)} contexts; "
                "give one for each."
            )
        for context, rule in zip(self.contexts, self.rules, strict=True):
            self._check_rule(rule, f"context {context!r}")
        self._check_rule(self.unknown, "unknown contexts")

    @classmethod
    def start(
        cls,
        campaign: str,
        contexts: Iterable[Label],
        actions: Sequence[Label],
        *,
        explorer_share: float = 1.0,
        is_sticky: bool = True,
        is_spread: bool = False,
        control_share: float = 0.0,
        baseline: Label | None = None,
    ) -> EpochPlan:
        """Return the plan of epoch 0, in which every action survives everywhere.

        Users who do not explore play the baseline, or the first action if there is none.
        Contexts that appear later are explored play by play.
        """
        listed, names = Labels.of(contexts), Labels.of(actions)
        if not len(names):
            raise InputError("a plan needs at least one action.")
        default = names[0] if baseline is None else baseline
        known, unknown = (
            Rule(
                action=default,
                surviving=tuple(names),
                explorer_share=explorer_share,
                is_sticky=sticky,
                is_spread=is_spread,
                baseline=default if control_share else baseline,
            )
            for sticky in (is_sticky, False)
        )
        return cls(
            campaign=campaign,
            epoch=0,
            contexts=listed,
            actions=names,
            rules=(known,) * len(listed),
            unknown=unknown,
            control_share=control_share,
        )

    def rule(self, context: Label) -> Rule:
        """Return the rule of a context, or the rule for unknown contexts."""
        code = self.contexts.code(context)
        return self.unknown if code == UNKNOWN else self.rules[code]

    def check_campaign(self, campaign: str) -> None:
        """Raise an error if the plan belongs to another campaign."""
        if campaign != self.campaign:
            raise InputError(
                f"the plan belongs to campaign {self.campaign!r} and this is campaign "
                f"{campaign!r}; give the plan of this campaign."
            )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as versioned, plain JSON values."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "campaign": self.campaign,
            "epoch": self.epoch,
            "control_share": self.control_share,
            "is_alarmed": self.is_alarmed,
            "context_type": self.contexts.type_name,
            "actions": list(self.actions),
            "contexts": {
                text: _rule_json(rule)
                for text, rule in zip(self.contexts.texts, self.rules, strict=True)
            },
            "unknown": _rule_json(self.unknown),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, campaign: str | None = None) -> EpochPlan:
        """Return the plan that ``to_json`` wrote; reject other data and other campaigns' plans."""
        check_version(value, "plan", format_name=FORMAT, version=VERSION)
        try:
            rules = value["contexts"]
            plan = cls(
                campaign=value["campaign"],
                epoch=value["epoch"],
                contexts=_contexts(rules, value["context_type"]),
                actions=Labels.of(value["actions"]),
                rules=tuple(_rule(rule) for rule in rules.values()),
                unknown=_rule(value["unknown"]),
                control_share=value["control_share"],
                is_alarmed=value["is_alarmed"],
            )
        except InputError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InputError(f"the plan is damaged: {error} is missing or malformed.") from error
        if campaign is not None:
            plan.check_campaign(campaign)
        return plan

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON; the file is replaced atomically."""
        write_object(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, campaign: str | None = None) -> EpochPlan:
        """Read a plan that ``save`` wrote."""
        return cls.from_json(read_object(path, "plan", format_name=FORMAT), campaign=campaign)

    def _check_rule(self, rule: Rule, where: str) -> None:
        _check_share(rule.explorer_share, f"explorer_share of {where}")
        baselines = () if rule.baseline is None else (rule.baseline,)
        for action in (*rule.surviving, rule.action, *baselines):
            if action not in self.actions:
                raise InputError(f"{where}: {action!r} is not an action of the plan.")
        if len(set(rule.surviving)) != len(rule.surviving) or rule.action not in rule.surviving:
            raise InputError(
                f"{where}: the surviving actions must be different, and the policy's action "
                f"{rule.action!r} must be one of them."
            )
        if self.control_share and rule.baseline is None:
            raise InputError(f"{where}: there is a control group, so the rule needs a baseline.")


def check_campaign(campaign: object) -> None:
    """Reject names of campaigns that are empty or not valid Unicode text."""
    if not isinstance(campaign, str) or not campaign:
        raise InputError(f"the campaign is {campaign!r}; give it a name.")
    try:
        campaign.encode()
    except UnicodeEncodeError:
        raise InputError(f"the campaign's name {campaign!r} is not valid Unicode text.") from None


def _check_share(share: object, name: str) -> None:
    if type(share) not in (int, float) or not 0.0 <= share <= 1.0:  # type: ignore[operator]
        raise InputError(f"{name} is {share!r}: it must lie between 0 and 1.")


def _contexts(texts: Iterable[str], type_name: str) -> Labels:
    contexts = Labels.parsed(texts, type_name)
    if contexts.type_name != type_name and len(contexts):
        raise ValueError("'context_type'")
    return contexts


def _rule_json(rule: Rule) -> dict[str, Any]:
    return {
        "action": rule.action,
        "surviving": list(rule.surviving),
        "explorer_share": rule.explorer_share,
        "explorers": _EXPLORERS[rule.is_spread],
        "design": _DESIGNS[rule.is_sticky],
        **({} if rule.baseline is None else {"baseline": rule.baseline}),
    }


def _rule(value: Mapping[str, Any]) -> Rule:
    return Rule(
        action=value["action"],
        surviving=tuple(value["surviving"]),
        explorer_share=value["explorer_share"],
        is_sticky=bool(_DESIGNS.index(value["design"])),
        is_spread=bool(_EXPLORERS.index(value["explorers"])),
        baseline=value.get("baseline"),
    )


LARGEST_PLAY = 2**62  # A play's number must fit into a signed word of the hash
# Ours: number of users whose digests are cached, enough for the busy ones of a service
KEPT_USERS = 1 << 17


class Mode(StrEnum):
    """Why an action was played."""

    EXPLORE = "explore"
    EXPLOIT = "exploit"
    CONTROL = "control"


_DRAWN = (Mode.EXPLORE, Mode.CONTROL)  # Modes for which users are drawn; all others exploit


class Ruling(NamedTuple):
    """One decision; a tuple, because a service makes hundreds of thousands a second.

    ``propensity`` is the probability, over the secret, that a user gets this action in this
    context, whatever the mode: the denominator of off-policy estimates. ``mode_propensity`` is the
    same given the mode: one over the number of surviving actions for explorers, else 1. Learning
    from explorers alone uses it.
    """

    mode: Mode
    action: Label
    propensity: float
    mode_propensity: float
    is_known: bool  # whether the plan knows the context


class Decider:
    """Makes decisions from a plan and a secret; all epochs of a campaign use the same secret.

    With equal plans and secrets, decisions are equal, on any machine.

    >>> plan = EpochPlan.start("spring", ["lunch"], ["tea", "soup"], explorer_share=0.5)
    >>> decider = Decider(plan, bytes(16))
    >>> ruling = decider.decide("ann", "lunch")
    >>> ruling.mode, ruling.action, ruling.propensity
    (<Mode.EXPLORE: 'explore'>, 'tea', 0.75)
    >>> decider.decide("ann", "dinner").is_known
    False
    """

    def __init__(self, plan: EpochPlan, secret: bytes) -> None:
        self.plan = plan
        self._assignment = Assignment(secret=secret, epoch=plan.epoch).for_campaign(plan.campaign)
        explore, control = (self._assignment.digest("role", mode) for mode in _DRAWN)
        low, high = self._assignment.key
        self._draws = (low, high, explore, control, plan.epoch)
        self._rows: dict[Label, _Row] = {}
        self._users: dict[Label, int] = {}

    def decide(self, user: Label, context: Label, play: int = 0) -> Ruling:
        """Return the ruling for a user in a context.

        ``play`` is the number of this play, counted by the caller from 0, and unique for a user in
        an epoch. Only rules that draw at every play depend on it.
        """
        row = self._rows.get(context) if type(context) is str else None
        if row is None:
            row = self._row(context)
        digest = self._users.get(user) if type(user) is str else None
        if digest is None:
            digest = self._digest(user)
        if not 0 <= play <= LARGEST_PLAY:
            raise InputError(f"play is {play}: plays are counted 0, 1, 2, ….")
        return row.rulings[_slot(self._draws, digest, play, row.drawing)]

    def digests(self, users: Iterable[Label]) -> Digests:
        """Return the digests of users, as ``places_of`` takes them; shape (n,)."""
        return np.array([self._digest(user) for user in users], np.int64).view(np.uint64)

    def places_of(self, users: Digests, contexts: IntArray, plays: IntArray) -> IntArray:
        """Decide many plays at once; return positions in ``ruled``, shape (n,).

        Users are given by ``digests``, contexts by codes, the positions in ``plan.contexts``.
        """
        n_contexts = len(self.plan.contexts)
        if len(contexts) and not (contexts.min() >= 0 and contexts.max() < n_contexts):
            raise InputError(f"a context's code is not one of the plan's {n_contexts}.")
        if len(plays) and plays.min() < 0:
            raise InputError(f"play is {plays.min()}: plays are counted 0, 1, 2, ….")
        drawings, width, _ = self._table
        slots = _slots(self._draws, users.view(np.int64), plays, contexts, drawings)
        return np.asarray(contexts * width + slots)

    @property
    def ruled(self) -> list[Ruling]:
        """All rulings of the contexts that the plan knows, in the order of ``places_of``."""
        return self._table[2]

    @cached_property
    def _table(self) -> tuple[Any, int, list[Ruling]]:
        """Parameters of the draws in all contexts; number of rulings per context; all rulings."""
        known = zip(self.plan.contexts, self.plan.rules, strict=True)
        rows = [self._new_row(context, rule) for context, rule in known]
        width = max((len(row.rulings) for row in rows), default=0)
        columns = zip(*(row.drawing for row in rows), strict=True) if rows else [()] * len(_DTYPES)
        arrays: Any = (np.array(c, kind) for c, kind in zip(columns, _DTYPES, strict=True))
        padded = ((*row.rulings, *[row.rulings[-1]] * (width - len(row.rulings))) for row in rows)
        return tuple(arrays), width, list(itertools.chain.from_iterable(padded))

    def _row(self, context: Label) -> _Row:
        """Return the row of a context; rows of known contexts are cached."""
        code = self.plan.contexts.code(context)
        if code == UNKNOWN:
            return self._new_row(context, self.plan.unknown, is_known=False)
        row = self._new_row(context, self.plan.rules[code])
        if type(context) is str:
            self._rows[context] = row
        return row

    def _new_row(self, context: Label, rule: Rule, *, is_known: bool = True) -> _Row:
        share, held = rule.explorer_share, self.plan.control_share
        n = len(rule.surviving)

        def ruling(mode: Mode, action: Label) -> Ruling:
            explored = share * (action in rule.surviving) / n
            served = explored + (1.0 - share) * (action == rule.action)
            propensity = (1.0 - held) * served + held * (action == rule.baseline)
            in_mode = 1.0 / n if mode is Mode.EXPLORE else 1.0
            return Ruling(mode, action, propensity, in_mode, is_known)

        rulings = [ruling(Mode.EXPLORE, action) for action in rule.surviving]
        rulings.append(ruling(Mode.EXPLOIT, rule.action))
        if rule.baseline is not None:
            rulings.append(ruling(Mode.CONTROL, rule.baseline))
        digest, shares = self._assignment.digest("context", context), (float(held), float(share))
        return _Row((digest, *shares, n, rule.is_sticky, rule.is_spread), tuple(rulings))

    def _digest(self, user: Label) -> int:
        """Return a user's digest, cached if possible."""
        if type(user) not in (str, int):
            raise InputError(f"user {user!r} is neither a string nor an integer.")
        digest = self._users.get(user)
        if digest is None:
            try:
                digest = self._assignment.digest("user", user)
            except UnicodeEncodeError:
                raise InputError(f"user {user!r} is not valid Unicode text.") from None
            if len(self._users) >= KEPT_USERS:
                self._users.clear()
            self._users[user] = digest
        return digest


#: Parameters of the draws in a context: its digest, the shares of controls and explorers, the
#: number of surviving actions, ``is_sticky`` and ``is_spread``; or arrays of these.
_Drawing = tuple[Any, Any, Any, Any, Any, Any]
_DTYPES: tuple[type, ...] = (np.int64, np.float64, np.float64, np.int64, np.bool_, np.bool_)


class _Row(NamedTuple):
    """Parameters of the draws in one context, and its rulings: survivors, exploit, control."""

    drawing: _Drawing
    rulings: tuple[Ruling, ...]


@compiled
def _slot(draws: tuple[int, int, int, int, int], user: int, play: int, drawing: _Drawing) -> int:
    """Return the index of a ruling: n_surviving to exploit, more for control, less to explore."""
    low, high, explore, control, epoch = draws
    context, control_share, explorer_share, n_surviving, is_sticky, is_spread = drawing
    key = (low, high)
    # Control users are drawn independently of the epoch, so they stay the same.
    if control_share > 0.0 and _uniform(siphash_of_four(key, user, control, 0, 0)) < control_share:
        return n_surviving + 1  # type: ignore[no-any-return]
    # Draws that are made once use play 0, the others plays from 1, as in ``Assignment``.
    explored = siphash_of_four(key, user, explore, epoch, play + 1 if is_spread else 0)
    if _uniform(explored) >= explorer_share:
        return n_surviving  # type: ignore[no-any-return]
    hashed = siphash_of_four(key, user, context, epoch, 0 if is_sticky else play + 1)
    return np.int64(uniform_index(hashed, np.uint64(n_surviving)))  # type: ignore[return-value]  # numba would mix signs


@compiled
def _slots(
    draws: tuple[int, int, int, int, int],
    users: IntArray,
    plays: IntArray,
    contexts: IntArray,
    drawings: _Drawing,
) -> IntArray:
    """Return the indices of the rulings of many decisions; shape (n,)."""
    digests, control_shares, explorer_shares, n_surviving, is_sticky, is_spread = drawings
    slots = np.empty(len(users), np.int64)
    for row, s in enumerate(contexts):
        drawing = (
            *(digests[s], control_shares[s], explorer_shares[s]),
            *(n_surviving[s], is_sticky[s], is_spread[s]),
        )
        slots[row] = _slot(draws, users[row], plays[row], drawing)
    return slots


@compiled
def _uniform(hashed: np.uint64) -> float:
    """Return a number in [0, 1) from the upper 53 bits of a hash."""
    return float(hashed >> np.uint64(11)) * 2.0**-53
