"""Prior knowledge of a log: how its actions were chosen, and which rewards are possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError, option
from unswayed.tallies import Tallies, UserTallies

RewardRange = tuple[float, float]

# Ours: tolerance for rounding errors of sums of rewards, relative to the range
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardBound:
    """Range or deviation of honest rewards; without either, means have no worst-case bound.

    Either both ends of the range are known or neither. ``deviation`` is the largest standard
    deviation of an honest user's reward within a context and action, including differences between
    users.

    >>> RewardBound(low=0.0, high=1.0).words()
    'rewards lie between 0 and 1'
    >>> RewardBound().is_known
    False
    """

    low: float = -math.inf
    high: float = math.inf
    deviation: float = math.inf
    is_assumed: bool = False  # whether it was inferred from the log instead of being stated

    @property
    def range(self) -> RewardRange | None:
        """The range, if there is one."""
        return None if math.isinf(self.low) else (self.low, self.high)

    @property
    def has_deviation(self) -> bool:
        """Whether the standard deviation is bounded."""
        return not math.isinf(self.deviation)

    @property
    def is_known(self) -> bool:
        """Whether the range or the deviation is known."""
        return self.range is not None or self.has_deviation

    def check(self, rewards: FloatArray) -> None:
        """Reject rewards outside of the range."""
        for place in np.flatnonzero((rewards < self.low) | (rewards > self.high))[:1]:
            raise InputError(
                f"reward {int(place) + 1} is {rewards[place]:g}, beyond "
                f"{option('--reward-range')}, which is {self.low:g} to {self.high:g}."
            )

    def words(self) -> str:
        """Return the bound as a clause of a sentence."""
        if self.is_assumed:
            return f"rewards can only be {self.low:g} or {self.high:g}, as all in this log"
        known = [f"rewards lie between {self.low:g} and {self.high:g}"] * (self.range is not None)
        if self.has_deviation:
            known.append(f"the standard deviation of rewards is at most {self.deviation:g}")
        return " and ".join(known)

    def note(self) -> str:
        """Return a note about what worst-case intervals assume and whether they exclude actions."""
        if not self.is_known:
            return (
                "means have no worst-case bound and no action is ruled out by one: without a range "
                "or deviation of rewards, colluders could hide any mean; --reward-range and "
                "--reward-deviation state them."
            )
        if self.is_assumed:
            return (
                f"worst-case intervals assume that {self.words()}, and rule out no action unless "
                f"this is confirmed with --reward-range {self.low:g},{self.high:g}."
            )
        return f"worst-case intervals hold if {self.words()}, as stated."

    def to_json(self) -> dict[str, Any]:
        """Return the bound as plain JSON values."""
        return {
            "reward_range": None if self.range is None else list(self.range),
            "reward_deviation": self.deviation if self.has_deviation else None,
            "is_assumed": self.is_assumed,
            "condition": self.words() if self.is_known else None,
        }


def reward_bound(
    reward_range: str | Sequence[float] | None, reward_deviation: float | None
) -> RewardBound:
    """Check the given range and deviation, and return them as a bound.

    >>> reward_bound("1,5", None)
    RewardBound(low=1.0, high=5.0, deviation=inf, is_assumed=False)
    """
    low, high = -math.inf, math.inf
    if reward_range is not None:
        low, high = parsed_reward_range(reward_range)
    if reward_deviation is None:
        return RewardBound(low=low, high=high)
    if not (isinstance(reward_deviation, int | float) and 0.0 < reward_deviation < math.inf):
        raise InputError(
            f"{option('--reward-deviation')} is {reward_deviation!r}: give the largest standard "
            "deviation that a reward can have, a positive number."
        )
    return RewardBound(low=low, high=high, deviation=float(reward_deviation))


def parsed_reward_range(given: str | Sequence[float]) -> RewardRange:
    """Return the ends of a range that is given as a pair or as text such as "1,5".

    >>> parsed_reward_range("1,5")
    (1.0, 5.0)
    """
    try:
        low, high = map(float, given.split(",") if isinstance(given, str) else given)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise InputError(
            f"{option('--reward-range')} is {given!r}: give the smallest and the largest reward "
            "that there can be, such as 0,1."
        )
    return low, high


def bound_shown(tallies: UserTallies) -> RewardBound:
    """Return the range [0, 1], marked as assumed, if all rewards are 0 or 1; else no bound."""
    if tallies.are_binary():
        return RewardBound(low=0.0, high=1.0, is_assumed=True)
    return RewardBound()


def check_rewards(tallies: UserTallies, rewards: RewardBound) -> None:
    """Reject a log in which the mean reward of a user in a cell lies outside of the range."""
    if rewards.range is None:
        return
    (n_beyond,) = tallies.blocks.add_blocks(_entries_beyond, rewards.low, rewards.high)
    if n_beyond:
        raise InputError(
            f"{option('--reward-range')} is {rewards.low:g} to {rewards.high:g}, but rewards of "
            f"{n_beyond:,} (user, context, action) triples lie beyond it."
        )


def _entries_beyond(block: Tallies, low: float, high: float) -> IntArray:
    slack = ROUNDING * (high - low) * block.counts
    is_below = block.sums < low * block.counts - slack
    is_above = block.sums > high * block.counts + slack
    return np.array([np.count_nonzero(is_below | is_above)])


DesignName = Literal["auto", "sticky", "uniform"]

#: Ours. With so many (user, context) pairs with several plays, actions that never change are no
#: accident: uniform play repeats an action with probability 1/A ≤ 1/2, so p < 1e-12.
STICKY_EVIDENCE_PAIRS = 40


#: Ours. Actions are taken to be unevenly assigned if a chi-squared test over all contexts rejects a
#: uniform assignment with a smaller p-value.
UNEVEN = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Contexts in which each user has one fixed action, and the number of users of each action.

    In contexts that are not sticky, each play is uniform over the actions. ``group_sizes`` are the
    numbers of users in I_{s,a}; they matter in sticky contexts only, and include users who never
    met the context, since these contribute 0 to (s, a).
    """

    is_sticky: BoolArray  # shape (n_contexts,): where a user always gets the same action a_{i,s}
    group_sizes: IntArray  # shape (n_contexts, n_actions)
    rewards: RewardBound = field(default_factory=RewardBound)  # prior knowledge of rewards


def uniform_design(tallies: UserTallies) -> Design:
    """Return the design in which every play is uniform over the actions."""
    return Design(
        np.zeros(tallies.n_contexts, dtype=np.bool_),
        np.zeros((tallies.n_contexts, tallies.n_actions), dtype=np.int64),
    )


def sticky_design(tallies: UserTallies) -> Design:
    """Return the design in which every user keeps one action per context, inferred from the log.

    The action of a user who never met a context is not in the log. Such users are spread evenly
    over the actions, as a uniform assignment does up to rounding.
    """
    visitors = tallies.cell_users()
    n_active = int((tallies.interactions > 0).sum())
    missing = np.maximum(n_active - visitors.sum(axis=1), 0)
    share = np.rint(missing / tallies.n_actions).astype(np.int64)
    return Design(np.ones(tallies.n_contexts, dtype=np.bool_), visitors + share[:, None])


def design_of_log(tallies: UserTallies, design: DesignName) -> Design:
    """Return the named design for a log; "auto" infers it from the log.

    A log is sticky if users who met a context more than once never changed the action there. The
    actions were chosen by the platform, so a coalition cannot fake this.
    """
    if design == "auto":
        found = tallies.blocks.map_blocks(_sticky_evidence)
        has_changed = any(changed for changed, _ in found)
        n_pairs = sum(pairs for _, pairs in found)
        is_sticky = not has_changed and n_pairs >= STICKY_EVIDENCE_PAIRS
        design = "sticky" if is_sticky else "uniform"
    return sticky_design(tallies) if design == "sticky" else uniform_design(tallies)


def _sticky_evidence(tallies: Tallies) -> tuple[bool, int]:
    """Return whether a user changed actions in a context, and how many cells have two plays."""
    has_changed = len(tallies.pairs()[1]) < len(tallies.cells)
    return has_changed, int((tallies.plays > 1).sum())


def design_by_context(tallies: Tallies) -> Design:
    """Return the design in which a context is sticky if no user changed the action there.

    Algorithm 2 plays so: frequent contexts are sticky, the others uniform.
    """
    pairs, contexts = tallies.pairs()
    changed = contexts[np.bincount(pairs) > 1]
    is_sticky = np.bincount(changed, minlength=tallies.n_contexts) == 0
    return replace(sticky_design(tallies), is_sticky=is_sticky)


def uneven_shares(draws: IntArray, failure_probability: float) -> FloatArray | None:
    """Return upper bounds on the probabilities of actions, or None if they were drawn evenly.

    ``draws`` counts how often each action was drawn in each context; ``failure_probability``
    applies to each bound (Clopper and Pearson). Users cannot choose their action, so the same
    probabilities apply to a coalition.
    """
    n_actions = draws.shape[1]
    total = draws.sum(axis=1, keepdims=True)
    is_tested = total[:, 0] > 0
    expected = total[is_tested] / n_actions
    surprise = float(((draws[is_tested] - expected) ** 2 / expected).sum())
    dof = int(is_tested.sum()) * (n_actions - 1)
    if dof == 0 or special.chdtrc(dof, surprise) >= UNEVEN:
        return None
    others = np.maximum(total - draws, 1e-9)
    return np.asarray(special.betaincinv(draws + 1.0, others, 1.0 - failure_probability))
