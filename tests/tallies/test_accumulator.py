from typing import Any

import numpy as np
import pytest

from unswayed.tallies import Accumulator, tallies, tally


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
