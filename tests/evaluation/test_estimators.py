"""Off-policy estimators: textbook sums, and intervals clustered by user."""

import numpy as np
import pytest

from unswayed.evaluation.estimators import (
    ESTIMATORS,
    Plays,
    calibrated,
    logged_totals,
    totals_of,
    uplift_of,
    value_of,
    widened,
)


def _plays(rng: np.random.Generator, n_users: int = 200, n_plays: int = 10) -> Plays:
    n = n_users * n_plays
    contexts, actions = rng.integers(3, size=n), rng.integers(4, size=n)
    return Plays(
        np.repeat(np.arange(n_users), n_plays),
        contexts,
        actions,
        rng.random(n),
        1.0 / rng.uniform(0.1, 0.6, n),
        n_users,
    )


def _rows(plays: Plays, rows: np.ndarray) -> Plays:
    return Plays(
        plays.users[rows],
        plays.contexts[rows],
        plays.actions[rows],
        plays.rewards[rows],
        plays.inverse[rows],
        plays.n_users,
    )


def test_values_are_the_textbook_sums(rng: np.random.Generator) -> None:
    plays, choices, model = _plays(rng), np.array([1, 0, 3]), rng.random((3, 4))
    weights = np.ones(plays.n_users)
    w = (plays.actions == choices[plays.contexts]) * plays.inverse
    surprise = plays.rewards - model[plays.contexts, plays.actions]
    expected = {
        "ips": (w * plays.rewards).mean(),
        "snips": (w * plays.rewards).sum() / w.sum(),
        "dr": (model[plays.contexts, choices[plays.contexts]] + w * surprise).mean(),
    }
    for name in ESTIMATORS:
        totals = totals_of(plays, choices, name, model)
        assert value_of(totals, weights).estimate == pytest.approx(expected[name])
        uplift = uplift_of(totals, logged_totals(plays), weights)
        assert uplift.estimate == pytest.approx(expected[name] - plays.rewards.mean())


def test_weights_are_as_if_users_came_as_often(rng: np.random.Generator) -> None:
    plays, choices, model = _plays(rng, n_users=40), np.array([1, 0, 3]), rng.random((3, 4))
    twice = np.concatenate([np.arange(400), np.flatnonzero(plays.users < 20)])
    doubled = _rows(plays, twice)
    for name in ESTIMATORS:
        a = value_of(totals_of(doubled, choices, name, model), np.ones(40))
        weights = np.where(np.arange(40) < 20, 2.0, 1.0)
        b = value_of(totals_of(plays, choices, name, model), weights)
        assert a.estimate == pytest.approx(b.estimate)


def test_calibration_changes_no_value_of_all_users(rng: np.random.Generator) -> None:
    plays, choices, model = _plays(rng), np.array([1, 0, 3]), rng.random((3, 4))
    ips, snips = (totals_of(plays, choices, name, model) for name in ("ips", "snips"))
    ones = np.ones(plays.n_users)
    found = value_of(calibrated(ips, snips), ones)
    assert found.estimate == pytest.approx(value_of(ips, ones).estimate)


def test_plays_of_one_user_are_one_witness(rng: np.random.Generator) -> None:
    """Copying every play of every user adds nothing; new users do."""
    plays, choices, model = _plays(rng), np.array([1, 0, 3]), rng.random((3, 4))
    rows = np.repeat(np.arange(len(plays.rewards)), 4)
    copied = _rows(plays, rows)
    once = value_of(totals_of(plays, choices, "ips", model), np.ones(plays.n_users))
    again = value_of(totals_of(copied, choices, "ips", model), np.ones(plays.n_users))
    assert again.error == pytest.approx(once.error)
    others = plays.users[rows] + plays.n_users * np.tile(np.arange(4), len(plays.rewards))
    more = copied._replace(users=others, n_users=4 * plays.n_users)
    new = value_of(totals_of(more, choices, "ips", model), np.ones(more.n_users))
    assert new.error == pytest.approx(once.error / 2, rel=0.01)


def test_intervals_hold_as_often_as_stated(rng: np.random.Generator) -> None:
    choices, model = np.array([0, 0, 0]), np.full((3, 4), 0.5)
    n_logs, held = 400, 0
    for _ in range(n_logs):
        users = np.repeat(np.arange(100), 5)
        own = rng.normal(0.5, 0.2, 100)[users]  # plays of a user go together
        actions = rng.integers(4, size=500)
        plays = Plays(users, np.zeros(500, np.int64), actions, own, np.full(500, 4.0), 100)
        found = value_of(totals_of(plays, choices, "dr", model), np.ones(100))
        held += found.low <= 0.5 <= found.high
    # A binomial with .95 lies above this but once in a thousand.
    assert held / n_logs > 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / n_logs)
    assert held < n_logs


def test_one_user_has_no_interval() -> None:
    nothing = np.zeros(3, np.int64)
    plays = Plays(nothing, nothing, nothing, np.ones(3), np.ones(3), 1)
    found = value_of(logged_totals(plays), np.ones(1))
    assert found.estimate == 1.0
    assert not np.isfinite(found.low)


def test_an_error_is_never_narrowed(rng: np.random.Generator) -> None:
    found = value_of(logged_totals(_plays(rng)), np.ones(200))
    assert widened(found, found.error / 2) == found
    assert widened(found, 3 * found.error).high - found.estimate == pytest.approx(
        3 * (found.high - found.estimate)
    )
