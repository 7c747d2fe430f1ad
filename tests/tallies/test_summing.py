"""Sums of events: in pieces, and of many groups."""

from typing import Any

import numpy as np
import pytest

from unswayed.tallies import Accumulator, tallies, tally
from unswayed.tallies.summing import grouped_sums


def test_pieces_add_up_to_the_whole_log(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tiny buffer forces intermediate merges; sums of quarters are exact."""
    monkeypatch.setattr(tallies, "BUFFERED_EVENTS", 70)
    log: tuple[Any, ...] = (
        rng.integers(20, size=500),
        rng.integers(5, size=500),
        rng.integers(3, size=500),
        rng.integers(-8, 8, size=500) / 4,
    )
    sums = Accumulator(n_actions=3)
    for piece in range(0, 500, 50):
        users, contexts, actions, rewards = (column[piece : piece + 50] for column in log)
        sums.add(users, contexts, actions, rewards)
    once = tally(*log, n_users=25, n_contexts=6, n_actions=3)
    pieces = sums.tallies(n_users=25, n_contexts=6)
    for name in ("indptr", "cells", "counts", "sums", "squares", "n_users", "n_contexts"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(once, name))
    assert sums.n_events == 500


def test_asking_twice_gives_the_same_tallies(rng: np.random.Generator) -> None:
    sums = Accumulator(n_actions=2)
    sums.add(rng.integers(5, size=9), rng.integers(2, size=9), rng.integers(2, size=9), np.ones(9))
    first = sums.tallies(n_users=5, n_contexts=2)
    np.testing.assert_array_equal(first.sums, sums.tallies(n_users=5, n_contexts=2).sums)


def test_an_empty_accumulator_gives_empty_tallies() -> None:
    result = Accumulator(n_actions=2).tallies(n_users=3, n_contexts=2)
    assert (result.n_users, len(result.cells)) == (3, 0)


@pytest.mark.parametrize(
    ("n_entries", "n_users", "n_cells"),
    [
        (0, 0, 1),
        (1, 1, 1),
        (1_000, 70, 1),
        (1_000, 200_000, 300),  # most users have no entry
        (200_000, 3, 70_000),  # long rows
        (300_000, 9_000, 1_000),  # several threads
    ],
)
def test_entries_are_summed_by_user_and_cell(
    rng: np.random.Generator, n_entries: int, n_users: int, n_cells: int
) -> None:
    """They are compared with NumPy's counts and sums of integers, which are exact."""
    users = rng.integers(max(n_users, 1), size=n_entries, dtype=np.int32)
    cells = rng.integers(n_cells, size=n_entries, dtype=np.int32)
    values = rng.integers(100, size=(n_entries, 1)).astype(np.float64)
    found = grouped_sums(users, cells, values, n_columns=1, n_users=n_users)
    pairs, places = np.unique(users.astype(np.int64) * n_cells + cells, return_inverse=True)
    np.testing.assert_array_equal(found.cells, pairs % n_cells)
    n_groups = np.bincount(pairs // n_cells, minlength=n_users)
    np.testing.assert_array_equal(found.indptr, np.append(0, n_groups.cumsum()))
    np.testing.assert_array_equal(found.sizes, np.bincount(places))
    np.testing.assert_array_equal(found.sums[0], np.bincount(places, values[:, 0]))


def test_negative_zero_and_zero_rewards_give_the_same_sums() -> None:
    """Otherwise sums would depend on which rewards are next to a zero."""
    codes = np.array([0, 1])
    for other in (1.0, 0.5):
        rewards = np.array([-0.0, other])
        found = tally(codes, codes, codes, rewards, n_users=2, n_contexts=2, n_actions=2)
        assert not np.signbit(found.sums).any()
