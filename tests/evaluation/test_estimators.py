"""The doubly robust estimator: the textbook sum, and intervals clustered by user."""

import numpy as np
import pytest

from unswayed.evaluation.estimators import Estimate, Terms, mean_of


def _terms(rng: np.random.Generator, n_users: int = 200, n_plays: int = 10) -> Terms:
    n = n_users * n_plays
    ratios = (rng.random(n) < 0.3) / rng.uniform(0.1, 0.6, n)
    return Terms(np.repeat(np.arange(n_users), n_plays), rng.random(n), ratios, rng.random(n))


def _value(terms: Terms, weights: np.ndarray) -> Estimate:
    return mean_of(terms.users, terms.values, weights)


def test_a_value_is_the_textbook_sum_and_uplifts_are_differences(rng: np.random.Generator) -> None:
    terms, ones = _terms(rng), np.ones(200)
    expected = (terms.expected + terms.factors * terms.residuals).mean()
    assert _value(terms, ones).estimate == pytest.approx(expected)
    logged = terms._replace(expected=rng.random(2_000), factors=np.ones(2_000))
    uplift = _value(terms.minus(logged), ones).estimate
    assert uplift == pytest.approx(expected - (logged.expected + terms.residuals).mean())


def test_weights_are_as_if_users_came_as_often(rng: np.random.Generator) -> None:
    terms = _terms(rng, n_users=40)
    doubled = terms.rows(np.concatenate([np.arange(400), np.flatnonzero(terms.users < 20)]))
    weights = np.where(np.arange(40) < 20, 2.0, 1.0)
    a, b = _value(doubled, np.ones(40)), _value(terms, weights)
    assert a.estimate == pytest.approx(b.estimate)


def test_plays_of_one_user_count_as_one_observation(rng: np.random.Generator) -> None:
    """Duplicating the plays of every user does not narrow the interval; new users do."""
    terms, ones = _terms(rng), np.ones(200)
    copied = terms.rows(np.repeat(np.arange(2000), 4))
    assert _value(copied, ones).error == pytest.approx(_value(terms, ones).error)
    others = copied.users + 200 * np.tile(np.arange(4), 2000)
    new = _value(copied._replace(users=others), np.ones(800))
    assert new.error == pytest.approx(_value(terms, ones).error / 2, rel=0.01)


def test_intervals_hold_as_often_as_stated(rng: np.random.Generator) -> None:
    n_logs, held = 400, 0
    half = np.full(500, 0.5)
    for _ in range(n_logs):
        users = np.repeat(np.arange(100), 5)
        own = rng.normal(0.5, 0.2, 100)[users]  # plays of a user are correlated
        ratios = 4.0 * (rng.integers(4, size=500) == 0)
        found = _value(Terms(users, half, ratios, own - half), np.ones(100))
        held += found.low <= 0.5 <= found.high
    # A binomial count with p = .95 is below this once in a thousand times.
    assert held / n_logs > 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / n_logs)
    assert held < n_logs


def test_one_user_has_no_interval() -> None:
    found = mean_of(np.zeros(3, np.int64), np.ones(3), np.ones(1))
    assert found.estimate == 1.0
    assert not np.isfinite(found.low)
