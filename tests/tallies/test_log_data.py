"""Preparing events for learning: caps, half-lives, weights, and windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.events.logs import random_log
from unswayed.arrays import FloatArray
from unswayed.events import Columns, Events, Provenance, Reading, read_events
from unswayed.tallies.log_data import prepared, windows_of


def events_of(rng: np.random.Generator, **columns: Any) -> Events:
    """Return events with propensities and times, unless other columns are given."""
    given: dict[str, Any] = {
        "propensities": rng.uniform(0.2, 1.0, 300),
        "times": 1.0 * np.arange(300),
    }
    return replace(read_events(random_log(rng, 300)).events, **(given | columns))


def test_a_cap_and_a_half_life_report_how_many_events_they_drop(rng: np.random.Generator) -> None:
    log = events_of(rng)
    reading = Reading(log, Provenance("log.csv", 300, Columns()))

    def kept(**options: Any) -> tuple[FloatArray, list[int]]:
        found = prepared(reading, min_propensity=0.05, **options)
        left_out = [found.n_users_capped, found.n_events_capped, found.n_events_forgotten]
        return found.tallies.plays_of_users, left_out

    plays, dropped = kept()
    assert (plays.sum(), dropped) == (300, [0, 0, 0])
    plays, dropped = kept(max_interactions_per_user=3)
    n_kept = np.minimum(np.bincount(log.users), 3).sum()
    assert plays.sum() == n_kept
    assert dropped == [(np.bincount(log.users) > 3).sum(), 300 - n_kept, 0]
    plays, dropped = kept(half_life=10.0)
    assert dropped == [0, 0, 300 - plays.sum()]
    assert dropped[2] > 200
    plays, dropped = kept(max_interactions_per_user=1, half_life=50.0)
    assert plays.sum() == 300 - sum(dropped[1:])
    assert plays.max() <= 1


def test_windows_split_a_log_at_its_last_half_life() -> None:
    log = Events.of(
        ["a", "b", "c", "d"],
        ["x"] * 4,
        ["p", "q", "p", "q"],
        [1.0] * 4,
        times=[0.0, 5.0, 6.0, 10.0],
    )
    found = windows_of(log, 5.0)
    assert found is not None
    before, after = found
    assert before.plays_of_users.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert after.plays_of_users.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert windows_of(log, 11.0) is None
    assert windows_of(log, 10.0) is not None
