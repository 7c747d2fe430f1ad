"""Range of rewards, or a bound on their standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError, option
from unswayed.tallies import Tallies, UserTallies

RewardRange = tuple[float, float]

ROUNDING = 1e-9
"""Ours: a sum of rewards may leave the range by this share of it, as sums are rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardBound:
    """Range or deviation of honest rewards; without either, means have no worst-case bound.

    Ends of the range are both known or neither. ``deviation`` is the largest standard deviation of
    an honest user's reward within a context and action, users' tastes included.

    Examples
    --------
    >>> RewardBound(low=0.0, high=1.0).words()
    'rewards lie between 0 and 1'
    >>> RewardBound().is_known
    False
    """

    low: float = -math.inf
    high: float = math.inf
    deviation: float = math.inf
    is_assumed: bool = False  # whether it was read off the log instead of being stated

    @property
    def range(self) -> RewardRange | None:
        """The range, if there is one."""
        return None if math.isinf(self.low) else (self.low, self.high)

    @property
    def has_deviation(self) -> bool:
        """Whether the deviation has a bound."""
        return not math.isinf(self.deviation)

    @property
    def is_known(self) -> bool:
        """Whether anything is known."""
        return self.range is not None or self.has_deviation

    def check(self, rewards: FloatArray) -> None:
        """Refuse rewards beyond the range."""
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
        """Return a note on what worst-case intervals rest on, and whether they rule actions out."""
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
        """Return it as plain JSON values."""
        return {
            "reward_range": None if self.range is None else list(self.range),
            "reward_deviation": self.deviation if self.has_deviation else None,
            "is_assumed": self.is_assumed,
            "condition": self.words() if self.is_known else None,
        }


def reward_bound(
    reward_range: str | Sequence[float] | None, reward_deviation: float | None
) -> RewardBound:
    """Return the stated range and deviation, checked.

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
    """Return the ends of a range given as a pair, or as text like "1,5".

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
    """Refuse a log in which some user's mean reward in some cell lies beyond the range."""
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
