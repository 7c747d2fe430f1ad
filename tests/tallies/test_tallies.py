from typing import Any

import numpy as np
import pytest

from tests.tallies.summaries import dense
from unswayed.tallies import Tallies, entry_users, joined, tally

SHAPE: dict[str, Any] = {"n_users": 30, "n_contexts": 4, "n_actions": 3}


def random_log(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (
        rng.integers(SHAPE["n_users"], size=n),
        rng.integers(SHAPE["n_contexts"], size=n),
        rng.integers(SHAPE["n_actions"], size=n),
        # Sums of quarters are exact, so the comparison below does not depend on the order.
        rng.integers(-8, 8, size=n) / 4,
    )


def test_tallies_equal_plain_sums_over_the_log(rng: np.random.Generator) -> None:
    users, contexts, actions, rewards = random_log(rng, 500)
    result = tally(users, contexts, actions, rewards, **SHAPE)
    expected = np.zeros((3, 30, 12))
    np.add.at(expected[0], (users, contexts * 3 + actions), 1)
    np.add.at(expected[1], (users, contexts * 3 + actions), rewards)
    np.add.at(expected[2], (users, contexts * 3 + actions), rewards**2)
    for values, sums in zip((result.counts, result.sums, result.squares), expected, strict=True):
        np.testing.assert_array_equal(dense(result, values), sums)
    np.testing.assert_array_equal(result.interactions, np.bincount(users, minlength=30))


@pytest.mark.parametrize("is_weighted", [False, True])
def test_selected_rows_keep_every_column(rng: np.random.Generator, is_weighted: bool) -> None:
    """Inexact sums of rewards have remainders, which must be selected, too."""
    users, contexts, actions, _ = random_log(rng, 500)
    rewards, weights = rng.random(500) / 3, rng.random(500) + 0.1 if is_weighted else None
    whole = tally(users, contexts, actions, rewards, **SHAPE, weights=weights)
    assert len(whole.sums_remainder)
    assert (len(whole.weighted_plays) > 0) == is_weighted
    names = ("indptr", "cells", *Tallies.columns)

    def assert_same(found: Tallies, expected: Tallies) -> None:
        for name in names:
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))

    assert_same(joined([whole.of_range(0, 11), whole.of_range(11, 30)]), whole)
    assert_same(whole.of_users(np.arange(11, 30)), whole.of_range(11, 30))
    assert_same(whole.of_users(np.array([4, 2])).of_users(np.array([1])), whole.of_range(2, 3))
    is_theirs = np.isin(entry_users(whole.indptr), [2, 4])
    kept = whole.of_entries(is_theirs)
    assert kept.n_users == 30
    assert_same(kept.of_users(np.array([2, 4])), whole.of_users(np.array([2, 4])))
