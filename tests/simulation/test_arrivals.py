from __future__ import annotations

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.simulation.arrivals import Arrivals, Order


def ratios(rounds: np.ndarray, n_users: int) -> np.ndarray:
    """Return max n_i(t) / min n_i(t) for all t >= n_users."""
    counts = np.cumsum(np.eye(n_users, dtype=np.int64)[rounds.ravel()], axis=0)[n_users - 1 :]
    assert (counts.min(axis=1) >= 1).all()
    return np.asarray(counts.max(axis=1) / counts.min(axis=1))


@pytest.mark.parametrize("order", [Order.ROUND_ROBIN, Order.RANDOM, Order.BURSTY])
@pytest.mark.parametrize("limit", [2.0, 2.5, 4.0])
@pytest.mark.parametrize("has_eager", [False, True])
def test_no_user_comes_more_than_c_l_times_as_often_as_another_one(
    order: Order, limit: float, has_eager: bool, rng: np.random.Generator
) -> None:
    n_users = 23
    is_eager = np.arange(n_users) < 5 if has_eager else None
    arrivals = Arrivals(order=order, limit=limit)
    rounds = np.stack(
        list(arrivals.rounds(n_users=n_users, n_rounds=30, rng=rng, is_eager=is_eager))
    )
    assert rounds.shape == (30, n_users)
    assert ratios(rounds, n_users).max() <= limit


def test_round_robin_serves_everybody_in_turn(rng: np.random.Generator) -> None:
    rounds = list(Arrivals().rounds(n_users=4, n_rounds=2, rng=rng))
    np.testing.assert_array_equal(rounds, [[0, 1, 2, 3], [0, 1, 2, 3]])


def test_bursts_attain_the_bound(rng: np.random.Generator) -> None:
    """Bursts attain the imbalance that c_L allows, and users come many times in a row."""
    arrivals = Arrivals(order=Order.BURSTY, limit=3.0)
    rounds = np.stack(list(arrivals.rounds(n_users=10, n_rounds=40, rng=rng)))
    assert ratios(rounds, 10).max() == 3.0
    repeats = (np.diff(rounds.ravel()) == 0).mean()
    assert repeats > 0.5


def test_random_arrivals_are_spread_evenly(rng: np.random.Generator) -> None:
    n_users, n_rounds = 20, 400
    rounds = np.stack(
        list(Arrivals(order=Order.RANDOM).rounds(n_users=n_users, n_rounds=n_rounds, rng=rng))
    )
    counts = np.bincount(rounds.ravel(), minlength=n_users)
    # Without the bound, counts are binomial with variance n_rounds; the bound reduces the variance.
    assert np.abs(counts - n_rounds).max() < 6 * np.sqrt(n_rounds)
    assert not np.array_equal(rounds[1], rounds[2])


def test_a_tenth_of_the_users_makes_most_of_the_visits_when_activities_are_heavy_tailed(
    rng: np.random.Generator,
) -> None:
    """The share of the busiest tenth is Φ(1.5 − 1.28) = .59 of log-normal activities."""
    n_users, n_rounds = 2000, 200
    arrivals = Arrivals(order=Order.HEAVY_TAILED)
    rounds = np.stack(list(arrivals.rounds(n_users=n_users, n_rounds=n_rounds, rng=rng)))
    counts = np.sort(np.bincount(rounds.ravel(), minlength=n_users))
    assert counts[0] >= 1
    # Activities have mean exp(1.125) and variance exp(2.25)·(exp(2.25) − 1): the relative standard
    # error of the mean of 2,000 is 7%, and that of the share of 200 at most three times as much.
    assert abs(counts[-200:].sum() / counts.sum() - 0.59) < 0.2


def test_eager_users_come_as_often_as_the_bound_allows(rng: np.random.Generator) -> None:
    is_eager = np.arange(50) < 10
    rounds = np.stack(
        list(Arrivals(limit=2.0).rounds(n_users=50, n_rounds=40, rng=rng, is_eager=is_eager))
    )
    counts = np.bincount(rounds.ravel(), minlength=50)
    assert counts[is_eager].mean() / counts[~is_eager].mean() == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("limit", [1.0, 1.9, float("nan"), float("inf")])
def test_bounds_that_no_order_can_respect_are_rejected(limit: float) -> None:
    with pytest.raises(InputError, match="c_L"):
        Arrivals(order=Order.RANDOM, limit=limit)
