"""How many replaced accounts decisions withstand wherever these move the origin of rewards."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from tests.learners.tiny_logs import tallied
from unswayed.estimators.trimmed_flips import TrimmedFlips, trimmed_flips
from unswayed.learners.paper.flips import _withstood
from unswayed.learners.paper.reward_units import RewardUnits


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_farther_side_of_the_median_decides_what_is_withstood(side: float) -> None:
    """Nine users' means around zero: 1, 2, 4 and 8 on one side, 1/4, 1/2, 3/4 and 1 on the other.

    Shares of visits are at most one half in context 0 and one in context 1.
    """
    means = [-1.0, -2.0, -4.0, -8.0, 0.0, 0.25, 0.5, 0.75, 1.0]
    events = [(user, 1, 0, side * mean) for user, mean in enumerate(means)]
    tallies = tallied([*events, (4, 0, 0, 0.0)], n_contexts=2, n_actions=1)
    fewest = np.array([9, 9])
    seen: list[float] = []

    def flips_with(margins: np.ndarray, limit: float) -> TrimmedFlips:
        seen.extend(margins.tolist())
        held = np.where(margins <= limit, 99, 0)
        return TrimmedFlips(held, held, held, held, held)

    for limit, withstood in (
        (0.4, [1, 1]),
        (0.5, [2, 1]),
        (1.0, [3, 2]),
        (2.0, [4, 3]),
        (4.0, [9, 4]),
        (8.0, [9, 9]),
    ):
        found = _withstood(
            tallies,
            RewardUnits(0.0, math.nan, 0),
            np.array([0, 1]),
            fewest,
            partial(flips_with, limit=limit),
        )
        assert found.tolist() == withstood
    assert set(seen) <= {0.5, 1.0, 2.0, 4.0, 8.0}


def test_of_binary_rewards_one_more_account_is_withstood_than_is_certain() -> None:
    tallies = tallied([(0, 0, 0, 1.0)], n_contexts=2, n_actions=1)
    fewest = np.array([9, 1, 3, 4])
    found = _withstood(tallies, RewardUnits(0.0, 1.0, 2), np.array([0, 1]), fewest, trimmed_flips)
    assert found.tolist() == [3, 1, 3, 3]
