"""Results of learning methods: intervals, and the policy made from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.learners.tiny_logs import tallied
from unswayed.events import Labels
from unswayed.learners.estimates import Estimates

MEANS = np.array([[0.5, 0.25], [1.0, np.nan]])


def estimated() -> Estimates:
    """Return estimates of two contexts and two actions, one of them without plays."""
    return Estimates(
        mean_rewards=MEANS,
        sampling_errors=np.array([[0.125, 0.25], [0.5, np.nan]]),
        bias_bounds=np.array([[0.25, 0.5], [np.inf, np.nan]]),
        context_probabilities=np.array([0.75, 0.25]),
        frequent_contexts=np.array([True, False]),
        user_weights=np.array([1.0, 0.5]),
        decided_by=np.array(["trimmed mean", "spectral filter"]),
    )


def test_given_ends_of_intervals_replace_half_widths() -> None:
    low, high = MEANS - 0.0625, MEANS + 2.0
    with_low, with_high = replace(estimated(), low=low), replace(estimated(), high=high)
    np.testing.assert_array_equal(with_low.interval[0], low)
    np.testing.assert_array_equal(with_low.interval[1], estimated().interval[1])
    np.testing.assert_array_equal(with_high.interval[0], estimated().interval[0])
    np.testing.assert_array_equal(with_high.interval[1], high)


def test_a_policy_contains_the_estimates_and_the_number_of_plays_of_each_cell() -> None:
    tallies = tallied(
        [(0, 0, 0, 1.0), (0, 0, 0, 0.0), (1, 0, 0, 0.0), (1, 1, 1, 3.0)],
        n_contexts=2,
        n_actions=2,
        weights=[2.0, 2.0, 4.0, 8.0],
    )
    contexts, actions = Labels.of(["home", "search"]), Labels.of(["tea", "milk"])
    estimates = estimated()
    policy = estimates.policy(
        tallies.labelled(Labels.of([]), contexts, actions), alpha=0.125, method="paper"
    )
    assert policy.context_labels is contexts
    assert policy.action_labels is actions
    low, high = estimates.interval
    for found, expected in (
        (policy.mean_rewards, MEANS),
        (policy.low, low),
        (policy.high, high),
        (policy.sampling_errors, estimates.sampling_errors),
        (policy.context_probabilities, [0.75, 0.25]),
        # ``counts`` are plays, not weights.
        (policy.counts, [[3, 0], [0, 1]]),
    ):
        np.testing.assert_array_equal(found, expected)
    assert policy.counts.dtype == np.int64
    assert (policy.alpha, policy.method) == (0.125, "paper")
