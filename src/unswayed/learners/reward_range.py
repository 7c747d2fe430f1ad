"""The range of rewards, where it is known: intervals end where rewards do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unswayed.arrays import IntArray
from unswayed.errors import InputError, option
from unswayed.policy import Policy
from unswayed.tallies import Tallies, UserTallies

RewardRange = tuple[float, float]

ROUNDING = 1e-9
"""Ours: a sum of rewards may leave the range by this share of it, as sums are rounded."""


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


def check_rewards(tallies: UserTallies, reward_range: RewardRange) -> None:
    """Refuse a log in which some user's mean reward in some cell lies beyond the range."""
    (n_beyond,) = tallies.blocks.add_blocks(_entries_beyond, *reward_range)
    if n_beyond:
        low, high = reward_range
        raise InputError(
            f"{option('--reward-range')} is {low:g} to {high:g}, but rewards of {n_beyond:,} "
            "(user, context, action) triples lie beyond it."
        )


def _entries_beyond(block: Tallies, low: float, high: float) -> IntArray:
    slack = ROUNDING * (high - low) * block.counts
    is_below = block.sums < low * block.counts - slack
    is_above = block.sums > high * block.counts + slack
    return np.array([np.count_nonzero(is_below | is_above)])


def cut_to_range(policy: Policy, reward_range: RewardRange) -> Policy:
    """Return a policy whose intervals end where rewards do; no decision changes.

    The good users' means lie within the range, so intervals that hold still do, and none is without
    a bound. What an interval loses, its worst-case part loses first.
    """
    low, high = np.clip(policy.low, *reward_range), np.clip(policy.high, *reward_range)
    errors = policy.sampling_errors
    if errors is not None:
        half = np.maximum(high - policy.mean_rewards, policy.mean_rewards - low)
        errors = np.minimum(errors, half)
    return replace(policy, low=low, high=high, sampling_errors=errors)
