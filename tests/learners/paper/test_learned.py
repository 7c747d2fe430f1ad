"""Results of the paper's method other than mean rewards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.learners.tiny_logs import tallied
from tests.tallies.summaries import dense
from unswayed.estimators import trimmed_mean
from unswayed.learners.design import Design, RewardBound, sticky_design, uniform_design
from unswayed.learners.paper import estimate_context_probabilities, guard_intervals, learn_paper
from unswayed.tallies import Tallies

N_USERS, N_CONTEXTS, N_ACTIONS = 120, 4, 2


def world(rng: np.random.Generator) -> tuple[Tallies, Design]:
    """Return a sticky log of uneven contexts with a tenth of pushers and two inactive users."""
    users = np.repeat(np.arange(N_USERS - 2), 10)
    contexts = rng.choice(N_CONTEXTS, p=[0.1, 0.4, 0.2, 0.3], size=users.size)
    assigned = rng.integers(N_ACTIONS, size=(N_USERS, N_CONTEXTS))
    actions = assigned[users, contexts]
    rewards = rng.normal(1.0 + actions, 1.0)
    rewards[users < 12] = np.where(actions[users < 12] == 0, 40.0, -40.0)
    events = np.column_stack([users, contexts, actions, rewards])
    tallies = tallied(events, n_users=N_USERS, n_contexts=N_CONTEXTS, n_actions=N_ACTIONS)
    return tallies, sticky_design(tallies)


def test_the_filter_of_rare_contexts_down_weights_colluders(
    rng: np.random.Generator,
) -> None:
    tallies, design = world(rng)
    learned = learn_paper(tallies, design, alpha=0.1)
    filtered = estimate_context_probabilities(tallies, alpha=0.1).filtered
    assert learned.evidence["context_filter"] == {
        "stopped": filtered.stopped,
        "removed": filtered.removed,
        "rounds": filtered.iterations,
        "top_eigenvalue": filtered.spectrum[-1].top_eigenvalue,
        "threshold": filtered.spectrum[-1].threshold,
    }
    assert learned.evidence["reward_filter"]["removed"] > 0
    assert learned.user_weights[-2:].tolist() == [1.0, 1.0]
    assert np.median(learned.user_weights[:12]) < 0.5 < np.median(learned.user_weights[12:])


def test_trimmed_means_decide_frequent_contexts_and_the_filter_rare_ones(
    rng: np.random.Generator,
) -> None:
    tallies, design = world(rng)
    learned = learn_paper(tallies, design, alpha=0.1)
    assert learned.frequent_contexts.tolist() == [False, True, False, True]
    assert learned.decided_by.tolist() == [
        "spectral filter",
        "trimmed mean",
        "spectral filter",
        "trimmed mean",
    ]
    played = Design(np.array([True, False, False, False]), design.group_sizes)
    assert learn_paper(tallies, played, alpha=0.1).frequent_contexts.tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_without_rare_contexts_user_weights_are_one() -> None:
    tallies = tallied(
        [(user, user % 2, user // 2 % 2, float(user % 5)) for user in range(40)],
        n_contexts=2,
        n_actions=2,
    )
    learned = learn_paper(tallies, sticky_design(tallies), alpha=0.1)
    assert learned.frequent_contexts.all()
    assert list(learned.evidence) == ["context_filter"]
    assert learned.user_weights.tolist() == [1.0] * 40


def test_both_parts_of_an_interval_add_up(rng: np.random.Generator) -> None:
    tallies, design = world(rng)
    design = replace(design, rewards=RewardBound(deviation=3.0))
    learned = learn_paper(tallies, design, alpha=0.1)
    cells = guard_intervals(tallies, design, alpha=0.1)
    low, high = learned.interval
    np.testing.assert_array_equal(low, cells.low)
    np.testing.assert_array_equal(high, cells.high)
    means = learned.mean_rewards
    half = np.where(high - means > means - low, high - means, means - low)
    chance = np.where(cells.sampling_errors < half, cells.sampling_errors, half)
    np.testing.assert_array_equal(learned.sampling_errors, chance)
    np.testing.assert_array_equal(learned.bias_bounds, half - chance)


def test_a_context_without_visits_in_the_warm_up_has_no_estimate() -> None:
    """Its estimated probability is zero, by which estimates must not be divided."""
    events = [(user, user % 3, user // 3 % 2, float(user % 7)) for user in range(60)]
    tallies = tallied(events, n_contexts=3, n_actions=2)
    warmup = tallied([(user, user % 2, 0, 0.0) for user in range(60)], n_contexts=3, n_actions=2)
    learned = learn_paper(tallies, uniform_design(tallies), alpha=0.1, warmup=warmup)
    assert learned.context_probabilities[2] == 0.0
    for table in (learned.mean_rewards, *learned.interval, learned.sampling_errors):
        assert np.isnan(table[2]).all()
        assert not np.isnan(table[:2]).any()


def test_per_visit_frequent_contexts_are_trimmed_means_of_the_visitors(
    rng: np.random.Generator,
) -> None:
    tallies, design = world(rng)
    learned = learn_paper(tallies, design, alpha=0.1, per_visit=True)
    plain = learn_paper(tallies, design, alpha=0.1)
    means = dense(tallies, tallies.sums / tallies.counts)
    came = dense(tallies, tallies.counts) > 0
    for context in (1, 3):
        for action in range(N_ACTIONS):
            cell = context * N_ACTIONS + action
            expected = trimmed_mean(
                means[came[:, cell], cell],
                alpha=0.1,
                failure_probability=0.1 / (N_CONTEXTS * N_ACTIONS),
            )
            assert learned.mean_rewards[context, action] == pytest.approx(expected.estimate)
    np.testing.assert_array_equal(learned.mean_rewards[[0, 2]], plain.mean_rewards[[0, 2]])
    assert (learned.mean_rewards[[1, 3]] != plain.mean_rewards[[1, 3]]).all()
