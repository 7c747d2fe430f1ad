"""What is played in one epoch of a campaign: who explores, who exploits, and who is held back.

A plan is data: it can be written, read, sent and compared. With the campaign's secret it becomes a
``Decider``, whose every decision is a pure function of (secret, plan, user, context, play): nothing
is stored, and the holder of the secret can check each decision later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Label, Labels
from unswayed.policy.documents import check_version, read_object, write_object

FORMAT = "unswayed-epoch-plan"
VERSION = 1

#: The number of an epoch is one signed word of the hash.
LARGEST_EPOCH = 2**62

#: How JSON says whether explorers are sticky: False, True.
_DESIGNS = ("per-play", "sticky")

#: How JSON says whether explorers are spread: False, True.
_EXPLORERS = ("per-epoch", "per-play")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is played in one context.

    Attributes
    ----------
    action
        What the policy plays; one of ``surviving``.
    surviving
        The actions that explorers draw from, evenly.
    explorer_share
        The share of users who explore here. Users who explore at one share explore at every
        larger one, so contexts with equal shares have the same explorers; likewise for plays
        where exploration is spread.
    is_sticky
        Whether an explorer keeps one action here for the epoch, or draws at every play.
    is_spread
        Whether exploration is spread over everybody: who explores is drawn at every play, so that
        nobody explores for long. False draws the explorers once for the epoch.
    baseline
        What users who are held back play; None in a campaign that holds nobody back.
    """

    action: Label
    surviving: tuple[Label, ...]
    explorer_share: float = 0.0
    is_sticky: bool = True
    is_spread: bool = False
    baseline: Label | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class EpochPlan:
    """One epoch of a campaign.

    Parameters
    ----------
    campaign
        The campaign's name. It enters into every draw: two campaigns under one secret have
        independent explorers, groups and controls.
    epoch
        Counts from 0. Explorers and their actions are drawn anew in every epoch; controls stay.
    contexts, actions
        Labels of the contexts the plan knows, and of all actions of the campaign.
    rules
        One for each context, in their order.
    unknown
        The rule for every other context.
    control_share
        The share of users who are held back and play the baseline, in all epochs.
    is_alarmed
        Whether a coalition was found when the plan was made; the next plan remembers it.

    Examples
    --------
    >>> plan = EpochPlan.start("spring", ["lunch", "dinner"], ["tea", "soup"], explorer_share=0.5)
    >>> plan.rule("lunch").surviving
    ('tea', 'soup')
    >>> EpochPlan.from_json(plan.to_json()) == plan
    True
    """

    campaign: str
    epoch: int
    contexts: Labels
    actions: Labels
    rules: tuple[Rule, ...]
    unknown: Rule
    control_share: float = 0.0
    is_alarmed: bool = False

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
        """Return the plan of epoch 0: nothing is known, every action survives everywhere.

        Users who do not explore play the baseline, or the first action if there is none.
        Contexts that turn up later are explored play by play.
        """
        listed = Labels.of(contexts)
        names = Labels.of(actions)
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochPlan) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def rule(self, context: Label) -> Rule:
        """Return the rule of a context; that of unknown ones if the plan does not know it."""
        code = self.contexts.code(context)
        return self.unknown if code == UNKNOWN else self.rules[code]

    def check_campaign(self, campaign: str) -> None:
        """Refuse to serve another campaign."""
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
        """Return the plan that ``to_json`` wrote; refuse anything else, and other campaigns'."""
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
        """Write the plan as JSON; a half-written file never takes the place of a whole one."""
        write_object(path, self.to_json(), n_levels=2)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, campaign: str | None = None) -> EpochPlan:
        """Read a plan that ``save`` wrote."""
        return cls.from_json(read_object(path, "plan", format_name=FORMAT), campaign=campaign)

    @cached_property
    def _known_actions(self) -> frozenset[Label]:
        return frozenset(self.actions)

    def _parts(self) -> tuple[Any, ...]:
        return (
            self.campaign,
            self.epoch,
            self.contexts,
            self.actions,
            self.rules,
            self.unknown,
            self.control_share,
            self.is_alarmed,
        )

    def _check_rule(self, rule: Rule, where: str) -> None:
        _check_share(rule.explorer_share, f"explorer_share of {where}")
        named = (*rule.surviving, rule.action)
        if rule.baseline is not None:
            named += (rule.baseline,)
        for action in named:
            # Python holds True == 1 == 1.0: a look into the set alone would let them pass.
            if action not in self._known_actions or self.actions.code(action) == UNKNOWN:
                raise InputError(f"{where}: {action!r} is not an action of the plan.")
        if len(set(rule.surviving)) != len(rule.surviving) or rule.action not in rule.surviving:
            raise InputError(
                f"{where}: the surviving actions must be different, and the policy's action "
                f"{rule.action!r} must be one of them."
            )
        if self.control_share and rule.baseline is None:
            raise InputError(f"{where}: users are held back, so the rule needs a baseline.")


def check_campaign(campaign: object) -> None:
    """Refuse what cannot name a campaign: anything but text that can be written."""
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
    value: dict[str, Any] = {
        "action": rule.action,
        "surviving": list(rule.surviving),
        "explorer_share": rule.explorer_share,
        "explorers": _EXPLORERS[rule.is_spread],
        "design": _DESIGNS[rule.is_sticky],
    }
    if rule.baseline is not None:
        value["baseline"] = rule.baseline
    return value


def _rule(value: Mapping[str, Any]) -> Rule:
    return Rule(
        action=value["action"],
        surviving=tuple(value["surviving"]),
        explorer_share=value["explorer_share"],
        is_sticky=bool(_DESIGNS.index(value["design"])),
        is_spread=bool(_EXPLORERS.index(value["explorers"])),
        baseline=value.get("baseline"),
    )
