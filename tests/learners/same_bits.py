"""Learning on a cluster must give the same bits as on one machine."""

from pathlib import Path
from typing import Any

import numpy as np

from unswayed.learners.from_log import LearnedLog, learn_log, learn_on_cluster


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


def assert_same_learning(client: Any, source: Path | str, **options: Any) -> LearnedLog:
    """Learn on one machine and on the cluster, compare, and return the result."""
    here = learn_log(str(source), alpha=0.1, method="paper", **options)
    there = learn_on_cluster(
        str(source), alpha=0.1, method="paper", client=client, with_users=True, **options
    )
    assert_same_bits(here, there)
    assert here.provenance == there.provenance
    assert here.notes == there.notes
    return there
