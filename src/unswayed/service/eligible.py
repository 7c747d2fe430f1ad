"""Decisions among the actions that a caller names: those in stock, or not seen yet.

What is due is drawn as always, without regard to the caller's list. If it is on the list it is
played, and otherwise its substitute: the best action on the list by the policy that is served. So

    P(a | list) = p(a) + [a is the substitute] · sum of p(b) over b that are not on the list,

with p(a) the propensity without a list. Learning uses explored decisions only, and a substitute is
none. In each request an action on the list is explored with the same probability as without a
list, so cell means stay unbiased for the requests in which the action could be played; and whoever
influences a list can take decisions of its own accounts out of learning, but never move them to
another action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from unswayed.events import UNKNOWN
from unswayed.policy import EpochPlan, Policy, Ruling
from unswayed.service.errors import Refusal

SUBSTITUTE = "substitute"

#: Ours: lists are part of the token, a bit for each action.
MOST_ACTIONS = 8_000


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The actions of a campaign by the policy that is served, in each context.

    Parameters
    ----------
    plan
        The plan that is served; its action comes first in every context.
    policy
        What it plays; None before anything was learned.
    """

    plan: EpochPlan
    policy: Policy | None
    _ranked: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def ranked(self, context: str) -> tuple[str, ...]:
        """Return all actions, the best first; those of which nothing is known come last."""
        found = self._ranked.get(context)
        if found is None:
            first = str(self.plan.rule(context).action)
            others = [action for action in self._by_mean(context) if action != first]
            found = self._ranked[context] = (first, *others)
        return found

    def _by_mean(self, context: str) -> list[str]:
        actions = [str(action) for action in self.plan.actions]
        policy = self.policy
        row = UNKNOWN if policy is None else policy.context_labels.code(context)
        if policy is None or row == UNKNOWN:
            return actions
        codes = policy.action_labels.codes(self.plan.actions)
        means = np.where(codes == UNKNOWN, np.nan, policy.mean_rewards[row, codes])
        is_out = np.zeros(len(codes), np.bool_)
        if policy.is_excluded is not None:
            is_out = policy.is_excluded[row, codes] & (codes != UNKNOWN)
        order = np.lexsort((-np.nan_to_num(means, nan=-np.inf), is_out))
        return [actions[code] for code in order]

    def best(
        self, first: str, context: str, eligible: frozenset[str] | None, number: int
    ) -> list[str]:
        """Return so many actions: the one that was decided on, and the best of the others."""
        others = (
            one
            for one in self.ranked(context)
            if one != first and (eligible is None or one in eligible)
        )
        return [first, *islice(others, number - 1)]

    def ruling(self, due: Ruling, context: str, eligible: frozenset[str]) -> Ruling:
        """Return what is played in the place of what is due, with its exact propensity."""
        substitute = next(one for one in self.ranked(context) if one in eligible)
        is_due = due.action in eligible
        action = str(due.action) if is_due else substitute
        propensities = self._propensities(context)
        propensity = propensities.get(action, 0.0)
        if action == substitute:
            propensity += sum(p for other, p in propensities.items() if other not in eligible)
        return due._replace(
            mode=due.mode if is_due else SUBSTITUTE,  # type: ignore[arg-type]  # one more mode
            action=action,
            propensity=min(propensity, 1.0),
            mode_propensity=due.mode_propensity if is_due else 1.0,
        )

    def _propensities(self, context: str) -> Mapping[str, float]:
        """Return the propensities of all actions that can be due."""
        rule, held = self.plan.rule(context), self.plan.control_share
        found: dict[str, float] = {}
        shares = [(name, rule.explorer_share / len(rule.surviving)) for name in rule.surviving]
        for name, share in (*shares, (rule.action, 1.0 - rule.explorer_share)):
            found[str(name)] = found.get(str(name), 0.0) + (1.0 - held) * share
        if rule.baseline is not None:
            found[str(rule.baseline)] = found.get(str(rule.baseline), 0.0) + held
        return found


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
