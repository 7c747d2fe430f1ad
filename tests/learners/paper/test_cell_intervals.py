"""Intervals of cells: their users, the assumed number of colluders, and other assumptions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.learners.tiny_logs import cut_after, tallied
from tests.tallies.summaries import dense
from unswayed.estimators import bounded_mean_intervals, trim_count
from unswayed.learners.design import RewardBound, sticky_design, uniform_design
from unswayed.learners.paper import CellIntervals, allowed_actions, guard_intervals
from unswayed.tallies import Tallies

N_USERS, N_CONTEXTS, N_ACTIONS = 240, 3, 3
KNOWN = [RewardBound(low=3.0, high=5.0), RewardBound(deviation=1.0)]


def world(rng: np.random.Generator, *, is_sticky: bool = True) -> Tallies:
    """Return a log of uneven cells, one of them empty; the last three users have no plays.

    Few users visit context 2, and one of its cells has fewer visitors than may collude.
    """
    users = np.repeat(np.arange(N_USERS - 3), 1 + 5 * (np.arange(N_USERS - 3) % 4))
    contexts = rng.choice(N_CONTEXTS, p=[0.55, 0.4, 0.05], size=users.size)
    assigned = rng.integers(N_ACTIONS, size=(N_USERS, N_CONTEXTS))
    actions = assigned[users, contexts]
    if not is_sticky:
        actions = rng.choice(N_ACTIONS, p=[0.6, 0.3, 0.1], size=users.size)
    rewards = rng.choice([3.0, 4.0, 5.0], size=users.size)
    events = np.column_stack([users, contexts, actions, rewards])
    events = events[(contexts != 2) | (actions != 2)]
    return tallied(events, n_users=N_USERS, n_contexts=N_CONTEXTS, n_actions=N_ACTIONS)


def same(found: CellIntervals, other: CellIntervals) -> None:
    for name in ("low", "high", "sampling_errors"):
        np.testing.assert_allclose(getattr(found, name), getattr(other, name), rtol=1e-9)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("is_sticky", [True, False])
def test_a_cell_has_the_interval_of_its_users_means(
    rng: np.random.Generator, known: RewardBound, is_sticky: bool
) -> None:
    """A sticky group has a binomial quantile of colluders; a uniform cell may have all of them."""
    tallies = world(rng, is_sticky=is_sticky)
    design = replace((sticky_design if is_sticky else uniform_design)(tallies), rewards=known)
    found = guard_intervals(tallies, design, alpha=0.1)
    means = dense(tallies, tallies.sums / tallies.counts)
    is_met = dense(tallies, tallies.counts) > 0
    everybody = int(np.ceil(0.1 * (N_USERS - 3)))
    share = 0.1 / N_ACTIONS
    for s in range(N_CONTEXTS):
        for a in range(N_ACTIONS):
            values = means[is_met[:, s * N_ACTIONS + a], s * N_ACTIONS + a]
            most = everybody
            if is_sticky:
                size = int(design.group_sizes[s, a])
                most = min(everybody, trim_count(size, alpha=0.1, failure_probability=share / 4))
            if len(values) == 0:
                assert np.isnan(found.low[s, a])
                continue
            expected = bounded_mean_intervals(
                values,
                np.zeros(len(values), np.int64),
                1,
                n_bad=np.array([most]),
                failure_probability=0.75 * share,
                value_range=known.range,
                deviation=known.deviation if known.has_deviation else None,
            )
            assert found.low[s, a] == pytest.approx(expected.low[0])
            assert found.high[s, a] == pytest.approx(expected.high[0])


@pytest.mark.parametrize("known", KNOWN)
def test_intervals_do_not_depend_on_blocks(rng: np.random.Generator, known: RewardBound) -> None:
    tallies = world(rng)
    design = replace(sticky_design(tallies), rewards=known)
    whole = guard_intervals(tallies, design, alpha=0.1)
    same(guard_intervals(cut_after(tallies, 50, 237), design, alpha=0.1), whole)


def test_every_visitor_of_a_cell_counts(rng: np.random.Generator) -> None:
    """Intervals do not depend on the order of visitors.

    If they used a sample, colluders could know its positions, since a log contains no secret.
    """
    n_users = 50_000
    rewards = rng.random(n_users)
    rewards[:5000] = 1.0  # a tenth collude, in any order
    places = rng.permutation(n_users)
    logs = [
        tallied(
            np.column_stack([users, np.zeros((n_users, 2), np.int64), rewards]),
            n_users=n_users,
            n_contexts=1,
            n_actions=2,
        )
        for users in (np.arange(n_users), places)
    ]
    stated = RewardBound(low=0.0, high=1.0)
    first, second = (
        guard_intervals(log, replace(uniform_design(log), rewards=stated), alpha=0.1)
        for log in logs
    )
    same(first, second)
    assert first.low[0, 0] < 0.5 < first.high[0, 0]


def test_an_uneven_assignment_leaves_room_for_the_colluders_of_the_larger_group(
    rng: np.random.Generator,
) -> None:
    """Nine in ten users get action 0. All colluders visit a context with few other visitors.

    Negative control: bounds for an even assignment are below the number of colluders.
    """
    n_users, n_bad, rate = 2000, 200, 0.3
    users = np.flatnonzero((np.arange(n_users) < n_bad) | (rng.random(n_users) < 0.1))
    events = np.column_stack(
        [
            np.concatenate([np.arange(n_users), users]),
            np.repeat([0, 1], [n_users, len(users)]),
            (rng.random(n_users + len(users)) > 0.9).astype(int),
            np.concatenate([np.zeros(n_users), rng.random(len(users)) < rate]),
        ]
    )
    events[n_users : n_users + n_bad, 3] = 1.0
    tallies = tallied(events, n_users=n_users, n_contexts=2, n_actions=2)
    design = replace(sticky_design(tallies), rewards=RewardBound(low=0.0, high=1.0))
    found = guard_intervals(tallies, design, alpha=0.1)
    assert found.low[1, 0] < rate < found.high[1, 0]
    lying = (events[n_users : n_users + n_bad, 2] == 0).sum()
    even = trim_count(int(design.group_sizes[1, 0]), alpha=0.1, failure_probability=0.0125)
    assert even < lying


def test_without_a_stated_range_there_is_no_bound(rng: np.random.Generator) -> None:
    """The sampling error is still known."""
    tallies = world(rng)
    found = guard_intervals(tallies, sticky_design(tallies), alpha=0.1)
    is_met = tallies.cell_users() > 0
    assert np.isinf(found.low[is_met]).all()
    assert np.isinf(found.high[is_met]).all()
    assert np.isfinite(found.sampling_errors[is_met]).all()
    assert np.isnan(found.low[~is_met]).all()
    assert allowed_actions(found).all()
