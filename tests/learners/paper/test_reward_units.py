"""The origin of rewards: the smaller of two values, or the median of users' means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.learners.tiny_logs import tallied
from tests.tallies.summaries import dense
from unswayed.learners.paper import RewardUnits, measure_units
from unswayed.tallies import Tallies, tally

Event = tuple[int, int, int, float]


def two_values(
    n_low: int, n_high: int, n_odd: int = 0, *, low: float = 0.0, high: float = 1.0
) -> Tallies:
    """Return a log of users who report the low value only, both values, or another value.

    One further user has no interactions.
    """
    events: list[Event] = [(user, user % 3, 0, low) for user in range(n_low)]
    for user in range(n_low, n_low + n_high):
        events += [(user, user % 3, 0, low), (user, user % 3, 0, high), (user, 0, 1, low)]
        events += [(user, 1, 1, high)] * (user % 2)
    n_users = n_low + n_high
    events += [(n_users + odd, odd % 3, 1, 3.25 + odd) for odd in range(n_odd)]
    return tallied(events, n_users=n_users + n_odd + 1, n_contexts=3, n_actions=2)


@pytest.mark.parametrize(
    ("counts", "alpha", "n_certain"),
    [
        # It is the number that may collude, or a third of the users who report the larger value.
        ((4, 6, 0), 0.1, 1),
        ((4, 6, 0), 0.11, 2),
        ((4, 6, 0), 0.4, 2),
        ((4, 5, 0), 0.4, 1),
        ((0, 9, 0), 0.4, 3),
        ((4, 6, 0), 0.0, 0),
        # Users with any other value are subtracted: once from the former, twice from the latter.
        ((4, 6, 1), 0.2, 1),
        ((4, 8, 1), 0.2, 2),
        ((4, 8, 1), 0.1, 1),
        ((4, 8, 1), 0.05, 0),
        ((4, 4, 2), 0.4, 0),
        ((10, 9, 2), 0.3, 1),
    ],
)
def test_replacing_few_enough_accounts_does_not_change_the_two_values(
    counts: tuple[int, int, int], alpha: float, n_certain: int
) -> None:
    assert measure_units(two_values(*counts), alpha=alpha) == RewardUnits(0.0, n_certain)
    # Other pairs of values are guessed from a sample, so nothing is certain.
    others = two_values(*counts, low=3.0, high=5.0)
    assert measure_units(others, alpha=alpha) == RewardUnits(3.0, 0)


@pytest.mark.parametrize("loud", [-5.0, 5.0, 1e6])
def test_the_certain_number_of_accounts_cannot_move_the_origin_of_rare_clicks(
    loud: float, streams: Callable[..., np.random.Generator]
) -> None:
    """Fewer accounts click than may collude, so the pair {-5, 0} would pass if it were guessed."""
    for world in range(3):
        rng = streams("clicks", world)
        users = np.repeat(np.arange(600), 12)
        contexts, actions = rng.integers(3, size=(2, users.size))
        rewards = (rng.random(users.size) < 0.007).astype(float)
        units = measure_units(
            tally(users, contexts, actions, rewards, n_users=600, n_contexts=3, n_actions=3),
            alpha=0.2,
        )
        assert units.origin == 0.0
        assert 5 <= units.n_certain <= 0.2 * 600
        rewards[users < units.n_certain] = loud
        attacked = tally(users, contexts, actions, rewards, n_users=600, n_contexts=3, n_actions=3)
        assert measure_units(attacked, alpha=0.2).origin == 0.0


@pytest.mark.parametrize(
    ("counts", "alpha"),
    [
        ((4, 8, 1), 0.0),  # one user with another value, none allowed
        ((4, 12, 2), 0.05),  # two users with other values, one allowed
        ((4, 3, 2), 0.4),  # three users with both values, two with others
    ],
)
def test_too_many_exceptions_show_that_rewards_are_not_binary(
    counts: tuple[int, int, int], alpha: float
) -> None:
    tallies = two_values(*counts)
    units = measure_units(tallies, alpha=alpha)
    totals, numbers = (
        dense(tallies, column).sum(axis=1)[:-1] for column in (tallies.sums, tallies.counts)
    )
    assert units.origin == pytest.approx(np.median(totals / numbers))
    assert units.n_certain == 0
