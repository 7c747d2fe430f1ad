"""The guard: actions that the intervals rule out are not chosen, whatever their means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unswayed.events import Labels
from unswayed.learners.bounded import learn_bounded, method
from unswayed.learners.design import Design, RewardBound, sticky_design
from unswayed.learners.epochs import doubts_of, surviving_actions
from unswayed.learners.estimates import Estimates
from unswayed.learners.explaining import decision_rows
from unswayed.learners.paper import allowed_actions, guard_intervals, learn_paper
from unswayed.tallies import Tallies, tally

BEST, PRAISED = 0, 1
RATES = np.array([0.7, 0.35])
STATED = 0.1


def stated(tallies: Tallies) -> Design:
    """Return the design with a reward range from 0 to 1, which the guard requires."""
    return replace(sticky_design(tallies), rewards=RewardBound(low=0.0, high=1.0))


@pytest.fixture
def tallies(rng: np.random.Generator) -> Tallies:
    """Return a log in which 6% of the accounts have 75% of the events and promote one action.

    Tastes of honest users differ so much that some are as extreme. The intervals count users, not
    events.
    """
    n_users = 4000
    is_bad = np.arange(n_users) < 0.06 * n_users
    users = np.repeat(np.arange(n_users), np.where(is_bad, 200, 4))
    actions = rng.integers(2, size=n_users)[users]
    likes = rng.beta(2.0 * RATES, 2.0 * (1.0 - RATES), size=(n_users, 2))
    rewards = (rng.random(len(users)) < likes[users, actions]).astype(float)
    lies = is_bad[users]
    rewards[lies] = actions[lies] == PRAISED
    where = np.zeros_like(users)
    return tally(
        users, where, actions, rewards, n_users=n_users, n_contexts=1, n_actions=len(RATES)
    )


@pytest.fixture
def estimates(tallies: Tallies, monkeypatch: pytest.MonkeyPatch) -> Estimates:
    """Return estimates with inverted means, which the guard must correct."""
    find = method.find_coalitions

    def misled(*args: Any, **options: Any) -> method.Findings:
        found = find(*args, **options)
        return replace(found, means=1.0 - found.means, stories=[])

    monkeypatch.setattr(method, "find_coalitions", misled)
    return learn_bounded(tallies, stated(tallies), alpha=STATED)


def test_bounded_means_need_no_guard_here(tallies: Tallies) -> None:
    """Busy accounts have 75% of the events, but hardly more influence than others."""
    sums = np.bincount(tallies.cells, tallies.sums) / np.bincount(tallies.cells, tallies.counts)
    assert sums.argmax() == PRAISED  # the negative control
    found = learn_bounded(tallies, stated(tallies), alpha=STATED)
    assert found.actions.tolist() == [BEST]
    assert found.decided_by.tolist() != ["guard"]
    np.testing.assert_allclose(found.mean_rewards[0], RATES, atol=0.05)


def test_where_the_guard_decides_its_bound_holds(tallies: Tallies, estimates: Estimates) -> None:
    """Claims 1 to 3 of docs/guarantee.md hold for the learner's choice."""
    guard = guard_intervals(tallies, stated(tallies), alpha=STATED)
    low, high = guard.low, guard.high
    assert ((low <= RATES) & (high >= RATES)).all()  # the condition of the claims
    chosen = int(estimates.actions[0])
    lost = RATES.max() - RATES[chosen]
    assert estimates.decided_by.tolist() == ["guard"]
    assert allowed_actions(guard)[0, [BEST, chosen]].all()
    most = max(0.0, high[0, 1 - chosen] - low[0, chosen])
    assert lost <= most <= 2.0 * (high - low).max()
    # The bound is not trivial: the other action would exceed it.
    assert RATES[BEST] - RATES[PRAISED] > most
    # The returned intervals contain those of the guard, so they are valid, too.
    assert (estimates.interval[0] <= low).all()
    assert (estimates.interval[1] >= high).all()


def test_what_is_excluded_keeps_its_mean_and_is_not_chosen(
    tallies: Tallies, estimates: Estimates
) -> None:
    """Without the guard the action would be chosen, since its mean is the largest."""
    assert estimates.mean_rewards[0].argmax() == PRAISED  # the negative control
    assert estimates.is_excluded is not None
    assert estimates.is_excluded.tolist() == [[False, True]]
    assert estimates.actions.tolist() == [BEST]
    labels = (Labels.of([]), Labels.of(["home"]), Labels.of(["tea", "milk"]))
    policy = estimates.policy(tallies.labelled(*labels), alpha=STATED, method="bounded")
    assert policy.decide("home").action == policy.decide("unknown").action == "tea"
    (row,) = decision_rows(policy)
    assert (row["excluded"], row["runner_up"], row["lead"]) == (["milk"], None, None)
    assert surviving_actions(policy).tolist() == [[True, False]]
    assert doubts_of(policy).tolist() == [0.0]


def test_intervals_alone_guard_as_the_whole_method_of_the_paper(tallies: Tallies) -> None:
    """They are bit-identical, since they do not use the spectral filters."""
    whole = learn_paper(tallies, stated(tallies), alpha=STATED)
    alone = guard_intervals(tallies, stated(tallies), alpha=STATED)
    np.testing.assert_array_equal((alone.low, alone.high), whole.interval)
