"""Learning on a cluster must give the same bits as on one machine."""

import numpy as np

from unswayed.learners.from_log import LearnedLog


def assert_same_bits(first: LearnedLog, second: LearnedLog) -> None:
    for name in ("mean_rewards", "low", "high", "counts", "context_probabilities"):
        np.testing.assert_array_equal(
            getattr(first.policy, name), getattr(second.policy, name), err_msg=name
        )
    np.testing.assert_array_equal(first.user_weights, second.user_weights)
    np.testing.assert_array_equal(first.interactions, second.interactions)
    assert first.user_labels == second.user_labels
    assert first.summary == second.summary
    for name in ("flip_fraction", "flip_fraction_upper"):
        np.testing.assert_array_equal(getattr(first.policy, name), getattr(second.policy, name))
