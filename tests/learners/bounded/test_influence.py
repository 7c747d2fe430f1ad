"""Influence on cell means is bounded for every log, whatever accounts do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from unswayed.arrays import FloatArray
from unswayed.engine import Blocked
from unswayed.learners.bounded.means import CellMeans, cell_means, find_caps, most_plays, weighed
from unswayed.learners.bounded.rewards import Reading, Responses, read, read_rewards
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally

N_CONTEXTS, N_ACTIONS = 3, 2
SHAPE = (N_CONTEXTS, N_ACTIONS)
ROUNDING = 1e-9


def random_log(rng: np.random.Generator, kind: str, n_users: int) -> Tallies:
    """Return a log with a heavy-tailed number of plays per user."""
    plays = np.minimum(rng.pareto(1.0, n_users) * 3 + 1, 3000).astype(int)
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.choice(N_CONTEXTS, p=(0.6, 0.3, 0.1), size=len(users))
    actions = rng.integers(N_ACTIONS, size=len(users))
    rewards = {
        "binary": (rng.random(len(users)) < 0.2).astype(float),
        "normal": rng.normal(3.0, 2.0, len(users)),
        "skewed": rng.lognormal(1.0, 1.5, len(users)),
    }[kind]
    return tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users,
        n_contexts=N_CONTEXTS,
        n_actions=N_ACTIONS,
    )


def means_of(rows: Responses, weights: FloatArray, caps: FloatArray, rho: float) -> CellMeans:
    return cell_means(Blocked.here([rows], (rows.n_users,)), weights, caps.reshape(SHAPE), rho)


def caps_of(rows: Responses) -> FloatArray:
    return find_caps(Blocked.here([rows], (rows.n_users,)), N_CONTEXTS * N_ACTIONS)


def replaced(
    rows: Responses, is_bad: FloatArray, reading: Reading, rng: np.random.Generator
) -> Responses:
    """Return rows in which some accounts have other plays, and rewards at the ends of the range."""
    bad = is_bad[np.repeat(np.arange(rows.n_users), np.diff(rows.indptr))] > 0
    s = rows.cells // N_ACTIONS
    ends = np.where(rng.random(len(s)) < 0.5, reading.low[s], reading.high[s])
    return replace(
        rows,
        plays=np.where(bad, rng.choice([1.0, 50.0, 1e6], size=len(s)), rows.plays),
        means=np.where(bad, ends, rows.means),
        squares=np.where(bad, ends**2, rows.squares),
    )


@pytest.mark.parametrize("kind", ["binary", "normal", "skewed"])
@hypothesis_settings(max_examples=20)
@given(
    log=st.integers(0, 10**6),
    n_users=st.integers(2, 80),
    rho=st.floats(0.05, 0.95),
    share=st.floats(0.0, 0.5),
)
def test_weight_in_a_cell_is_at_most_three_times_the_share_of_visitors(
    kind: str, log: int, n_users: int, rho: float, share: float
) -> None:
    """The bound on weights also bounds how far accounts move a mean (docs/guarantee.md)."""
    rng = generator(log, kind)
    tallies = random_log(rng, kind, n_users)
    reading = read_rewards(tallies, rng)
    rows = read(tallies, reading)
    most = most_plays(weighed(rows, rho))
    rows = weighed(rows, rho, most)
    totals = np.add.reduceat(rows.masses, rows.indptr[:-1])
    assert totals.max() <= (3.0 + ROUNDING) * totals.mean()
    caps = caps_of(rows)
    everybody = means_of(rows, np.ones(n_users), caps, rho)
    n_bad = max(1, int(share * n_users))
    by_plays = rng.random() < 0.5  # the busiest accounts, or random ones
    plays = np.add.reduceat(rows.plays, rows.indptr[:-1])
    order = np.argsort(-plays) if by_plays else rng.permutation(n_users)
    is_bad = np.isin(np.arange(n_users), order[:n_bad]).astype(float)
    theirs = means_of(rows, is_bad, caps, rho).masses
    visitors = np.bincount(rows.cells, minlength=N_CONTEXTS * N_ACTIONS).reshape(SHAPE)
    bound = 3.0 * n_bad / np.maximum(visitors, 1)
    assert (theirs <= (bound + ROUNDING) * everybody.masses).all()

    others = means_of(rows, 1.0 - is_bad, caps, rho)
    other_log = weighed(replaced(rows, is_bad, reading, rng), rho, most)
    after = means_of(other_log, np.ones(n_users), caps, rho)
    width = (reading.high - reading.low)[:, None]
    is_met = (others.masses > 0) & (everybody.masses > 0)
    moved = np.abs(after.means - everybody.means)
    assert (moved <= (np.minimum(bound, 1.0) + ROUNDING) * width + ROUNDING)[is_met].all()
    # The share is also bounded with the caps of the new log.
    new_caps = caps_of(other_log)
    theirs, total = (
        means_of(other_log, w, new_caps, rho).masses for w in (is_bad, np.ones(n_users))
    )
    assert (theirs <= (bound + ROUNDING) * total).all()
    # Both means are mixtures of the others' mean and a value in the range.
    from_others = np.abs(after.means - others.means)
    assert (from_others <= (np.minimum(bound, 1.0) + ROUNDING) * width + ROUNDING)[is_met].all()


def test_without_caps_one_account_would_carry_nearly_all(rng: np.random.Generator) -> None:
    """Negative control for the property above."""
    tallies = random_log(rng, "binary", 60)
    reading = read_rewards(tallies, rng)
    rows = read(tallies, reading)
    busy = replace(rows, plays=np.where(np.arange(len(rows.plays)) < rows.indptr[1], 1e6, 1.0))
    busy = weighed(busy, 0.0)
    first = (np.arange(60) == 0).astype(float)
    unbounded = np.full(N_CONTEXTS * N_ACTIONS, np.inf)
    theirs, total = (
        means_of(busy, weights, unbounded, 0.0).masses for weights in (first, np.ones(60))
    )
    assert (theirs / total).max() > 0.99
    caps = caps_of(busy)
    theirs, total = (means_of(busy, weights, caps, 0.0).masses for weights in (first, np.ones(60)))
    visitors = np.bincount(busy.cells, minlength=N_CONTEXTS * N_ACTIONS).reshape(SHAPE)
    assert (theirs / total <= 3.0 / visitors + ROUNDING).all()


@pytest.mark.parametrize("lie", [1e3, 1e6, 1e9, 1e12])
def test_means_lie_within_the_range_that_is_believed(lie: float, rng: np.random.Generator) -> None:
    """However large a lie is, it counts as the end of the range."""
    tallies = random_log(rng, "normal", 400)
    sums, squares = tallies.sums.copy(), tallies.squares.copy()
    sums[: tallies.indptr[5]] = lie * tallies.counts[: tallies.indptr[5]]
    squares[: tallies.indptr[5]] = lie**2 * tallies.counts[: tallies.indptr[5]]
    wild = replace(tallies, sums=sums, squares=squares)
    reading = read_rewards(wild, rng)
    assert (reading.high < 100.0).all()
    assert (reading.low > -100.0).all()
    assert reading.clipped > 0.0
    rows = read(wild, reading)
    s = rows.cells // N_ACTIONS
    assert (rows.means <= reading.high[s] + ROUNDING).all()
    assert (rows.means >= reading.low[s] - ROUNDING).all()
