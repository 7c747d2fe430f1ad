"""Events and their sums on the way to a learner: added up, cut by users, capped and forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.events.logs import account, random_log
from tests.tallies.test_exact_sums import assert_same_log
from unswayed.errors import InputError
from unswayed.events import Events, read_events
from unswayed.events.hashing import user_hashes
from unswayed.tallies import Tallies, tally_events
from unswayed.tallies.log_data import (
    Dropped,
    LogData,
    check_dated,
    digest_of,
    merged_data,
    merged_events,
    tallied,
    users_by_block,
    windows_of,
)

COLUMNS = ("users", "contexts", "actions", "rewards", "propensities", "times")


def events_of(rng: np.random.Generator, **columns: Any) -> Events:
    """Return a log of some events with propensities and times, or other columns."""
    given: dict[str, Any] = {
        "propensities": rng.uniform(0.2, 1.0, 300),
        "times": 1.0 * np.arange(300),
    }
    return replace(read_events(random_log(rng, 300)).events, **(given | columns))


def part(log: Events, first: int, last: int) -> Events:
    """Return some rows of a log, under labels of their own."""
    places = np.arange(len(log))
    rows = log.rows((places >= first) & (places < last))
    names = {
        kind: [getattr(rows, f"{kind}_labels")[code] for code in getattr(rows, f"{kind}s").tolist()]
        for kind in ("user", "context", "action")
    }
    return Events.of(
        names["user"],
        names["context"],
        names["action"],
        rows.rewards,
        propensities=rows.propensities,
        times=rows.times,
    )


def test_events_of_two_logs_are_those_of_one(rng: np.random.Generator) -> None:
    """Every column of every row, whatever the codes were before."""
    whole = events_of(rng)
    found = merged_events([part(whole, 0, 7), part(whole, 7, 300)])
    for name in ("user_labels", "context_labels", "action_labels"):
        assert getattr(found, name) == getattr(whole, name)
    assert account(found) == account(whole)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    assert {found.users.dtype, found.contexts.dtype, found.actions.dtype} == {np.dtype(np.int32)}
    assert isinstance(merged_data([part(whole, 0, 7), part(whole, 7, 300)]), Events)


def test_an_empty_log_adds_nothing_whatever_columns_it_has(rng: np.random.Generator) -> None:
    whole = events_of(rng)
    nothing = Events.of([], [], [], [])
    found = merged_events([nothing, whole])
    assert account(found) == account(whole)
    np.testing.assert_array_equal(found.propensities, whole.propensities)
    assert len(merged_events([nothing, nothing])) == 0


@pytest.mark.parametrize("name", ["propensities", "times"])
def test_logs_of_which_one_lacks_a_column_are_not_added_up(
    name: str, rng: np.random.Generator
) -> None:
    whole, lacking = events_of(rng), events_of(rng, **{name: None})
    with pytest.raises(InputError) as refused:
        merged_events([whole, lacking])
    assert str(refused.value) == (
        f"a log with {name} and one without cannot be added up; read both the same way."
    )


def test_events_and_sums_are_not_added_up(rng: np.random.Generator) -> None:
    whole = events_of(rng)
    with pytest.raises(InputError) as refused:
        merged_data([whole, tally_events(whole)])
    assert str(refused.value) == (
        "events and sums of events cannot be added up; collect both the same way."
    )


@pytest.mark.parametrize("kind", [lambda events: events, tally_events])
def test_blocks_of_users_hold_each_user_once_and_add_up_to_the_log(
    kind: Callable[[Events], LogData], rng: np.random.Generator
) -> None:
    data = kind(events_of(rng))
    blocks = users_by_block(data, 4)
    assert len(blocks) == 4
    assert sum(block.n_events for block in blocks) == data.n_events == 300
    for number, block in enumerate(blocks):
        assert (user_hashes(block.user_labels) >> np.uint64(62) == number).all()
    together = merged_data(blocks)
    assert together.user_labels == data.user_labels
    assert digest_of(together) == digest_of(data)


def test_a_cap_and_a_half_life_drop_events_and_say_how_many(rng: np.random.Generator) -> None:
    log = events_of(rng)
    sums, dropped = tallied(log, 0.01, None)
    assert_same_log(sums, tally_events(log))
    assert dropped == Dropped(0, 0, 0)
    assert tallied(sums, 0.01, 3) == (sums, Dropped())
    capped, dropped = tallied(log, 0.01, 3)
    kept = np.minimum(np.bincount(log.users), 3).sum()
    assert capped.plays.sum() == kept
    assert dropped == Dropped(int((np.bincount(log.users) > 3).sum()), 300 - kept, 0)
    faded, dropped = tallied(log, 0.01, None, 10.0)
    assert dropped.n_events_forgotten == 300 - faded.plays.sum() > 200
    assert (dropped.n_users_capped, dropped.n_events_dropped) == (0, 0)
    both, dropped = tallied(log, 0.01, 1, 50.0)
    assert both.plays.sum() == 300 - sum(dropped[1:])
    assert (row_counts(both) <= 1).all()


def row_counts(log: Tallies) -> Any:
    """Return how often each user played."""
    return log.plays_of_users


def test_weights_are_bounded_by_the_smallest_propensity_that_counts(
    rng: np.random.Generator,
) -> None:
    log = events_of(rng, propensities=np.full(300, 0.001))
    assert tallied(log, 0.25, None)[0].counts.sum() == 1200.0


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


def test_a_folder_without_times_says_that_nothing_can_be_forgotten(
    rng: np.random.Generator,
) -> None:
    dated = events_of(rng)
    assert check_dated(dated, "sums") is dated
    for data in (events_of(rng, times=None), tally_events(dated)):
        with pytest.raises(InputError) as refused:
            check_dated(data, "sums")
        assert str(refused.value) == (
            "the tallies in sums were begun without `half_life` and hold no times; start in a new "
            "folder to forget."
        )
