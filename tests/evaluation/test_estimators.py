"""The doubly robust estimator: the textbook sum, and intervals clustered by user."""

import numpy as np
import pytest

from unswayed.evaluation.estimators import Terms, value_of


def _terms(rng: np.random.Generator, n_users: int = 200, n_plays: int = 10) -> Terms:
    n = n_users * n_plays
    return Terms(
        np.repeat(np.arange(n_users), n_plays),
        rng.random(n),
        (rng.random(n) < 0.3) / rng.uniform(0.1, 0.6, n),
        rng.random(n),
        rng.random(n),
        n_users,
    )


def test_a_value_is_the_textbook_sum(rng: np.random.Generator) -> None:
    terms = _terms(rng)
    weights, w, r = np.ones(terms.n_users), terms.ratios, terms.rewards
    expected = (terms.expected + w * (r - terms.fitted)).mean()
    assert value_of(terms.totals(), weights).estimate == pytest.approx(expected)
    uplift = value_of(terms.totals(), weights, terms.logged().totals())
    assert uplift.estimate == pytest.approx(expected - r.mean())


def test_weights_are_as_if_users_came_as_often(rng: np.random.Generator) -> None:
    terms = _terms(rng, n_users=40)
    doubled = terms.rows(np.concatenate([np.arange(400), np.flatnonzero(terms.users < 20)]))
    weights = np.where(np.arange(40) < 20, 2.0, 1.0)
    a, b = value_of(doubled.totals(), np.ones(40)), value_of(terms.totals(), weights)
    assert a.estimate == pytest.approx(b.estimate)


def test_plays_of_one_user_are_one_witness(rng: np.random.Generator) -> None:
    """Copying every play of every user adds nothing; new users do."""
    terms, ones = _terms(rng), np.ones(200)
    copied = terms.rows(np.repeat(np.arange(2000), 4))
    once, again = (value_of(one.totals(), ones) for one in (terms, copied))
    assert again.error == pytest.approx(once.error)
    others = copied.users + 200 * np.tile(np.arange(4), 2000)
    new = value_of(copied._replace(users=others, n_users=800).totals(), np.ones(800))
    assert new.error == pytest.approx(once.error / 2, rel=0.01)


def test_intervals_hold_as_often_as_stated(rng: np.random.Generator) -> None:
    n_logs, held = 400, 0
    half = np.full(500, 0.5)
    for _ in range(n_logs):
        users = np.repeat(np.arange(100), 5)
        own = rng.normal(0.5, 0.2, 100)[users]  # plays of a user go together
        ratios = 4.0 * (rng.integers(4, size=500) == 0)
        found = value_of(Terms(users, own, ratios, half, half, 100).totals(), np.ones(100))
        held += found.low <= 0.5 <= found.high
    # A binomial with .95 lies above this but once in a thousand.
    assert held / n_logs > 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / n_logs)
    assert held < n_logs


def test_one_user_has_no_interval() -> None:
    ones = np.ones(3)
    found = value_of(Terms(np.zeros(3, np.int64), ones, ones, ones, ones, 1).totals(), np.ones(1))
    assert found.estimate == 1.0
    assert not np.isfinite(found.low)
