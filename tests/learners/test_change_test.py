"""The test for changes detects changes of honest rewards, and a coalition cannot trigger it."""

import numpy as np
import pytest

from tests.learners.tiny_logs import shape
from unswayed.errors import InputError
from unswayed.events import Events, Labels
from unswayed.learners.change_test import LEVEL, Change, Changes, changes_between, most_colluders
from unswayed.learners.design import sticky_design, uniform_design
from unswayed.tallies import tally, tally_events

USERS, CONTEXTS, ACTIONS = 600, 2, 3


def played(
    rng: np.random.Generator,
    *,
    n: int = 24_000,
    move: float = 0.0,
    colluders: int = 0,
    lie: float = 1e6,
    is_binary: bool = False,
) -> Events:
    """Return two days of uniform play; colluders appear on the second day only.

    On the second day, the mean of action 0 in context 0 increases by ``move`` for good users.
    """
    users = rng.integers(colluders, USERS, size=n)
    times = rng.integers(2, size=n).astype(np.float64)
    if colluders:  # a tenth of the users have half of the second day's events
        is_theirs = (times == 1.0) & (rng.random(n) < 0.5)
        users[is_theirs] = rng.integers(colluders, size=int(is_theirs.sum()))
    contexts, actions = rng.integers(CONTEXTS, size=n), rng.integers(ACTIONS, size=n)
    means = 0.3 + move * ((times == 1.0) & (contexts == 0) & (actions == 0))
    rewards = means + 0.5 * rng.standard_normal(n)
    if is_binary:
        rewards = (rng.random(n) < means).astype(np.float64)
    is_lie = users < colluders
    rewards[is_lie] = lie
    labels = (Labels.numbered(USERS), Labels.numbered(CONTEXTS), Labels.numbered(ACTIONS))
    return Events(users, contexts, actions, rewards, *labels, times=times)


def plain_scores(events: Events) -> np.ndarray:
    """Return the changes of the cells' plain means, in standard errors."""
    assert events.times is not None
    cells = events.contexts * ACTIONS + events.actions
    days = [
        [events.rewards[(cells == cell) & (events.times == day)] for cell in range(6)]
        for day in (0.0, 1.0)
    ]
    return np.array(
        [
            (late.mean() - early.mean())
            / np.sqrt(early.var() / len(early) + late.var() / len(late))
            for early, late in zip(*days, strict=True)
        ]
    )


def found(events: Events, alpha: float = 0.1) -> Changes:
    assert events.times is not None
    windows = (events.rows(events.times < 1.0), events.rows(events.times >= 1.0))
    return changes_between(*map(tally_events, windows), alpha=alpha)


@pytest.mark.parametrize("is_binary", [False, True])
def test_nothing_is_found_where_nothing_changed(is_binary: bool, rng: np.random.Generator) -> None:
    """With 40 logs at 1 % each, three or more false alarms have probability below 1 %."""
    alarms = sum(
        bool(found(played(rng, n=6_000, is_binary=is_binary), alpha=0.0).changes) for _ in range(40)
    )
    assert LEVEL == 0.01
    assert alarms <= 2


@pytest.mark.parametrize("lie", [1e6, 1.0, 0.0, -1e6, 0.8])
def test_a_coalition_that_wakes_up_cannot_make_a_change(
    lie: float, rng: np.random.Generator
) -> None:
    """A tenth of the accounts, inactive on the first day, have half of the events on the second."""
    events = played(rng, colluders=USERS // 10, lie=lie)
    assert not found(events).changes
    # Negative control: plain means over events change significantly in every cell.
    assert np.abs(plain_scores(events)).min() > 5.0


def test_a_coalition_cannot_trigger_it_in_many_logs(rng: np.random.Generator) -> None:
    """Lies within the range of honest rewards, which trimming does not remove."""
    for _ in range(10):
        assert not found(played(rng, colluders=USERS // 10, lie=0.9)).changes


@pytest.mark.parametrize("colluders", [0, USERS // 10])
def test_a_change_of_the_good_users_is_found_although_colluders_deny_it(
    colluders: int, rng: np.random.Generator
) -> None:
    result = found(played(rng, move=0.8, colluders=colluders, lie=0.3))
    assert [(change.context, change.action) for change in result.changes] == [(0, 0)]
    change = result.changes[0]
    assert change.before[0] <= 0.3 <= change.before[1]
    assert change.after[0] <= 1.1 <= change.after[1]
    assert 0.0 < change.after[0] - change.before[1] <= 0.8
    assert "1 of 6 mean rewards changed (error rate 1%" in result.statement()
    fall = found(played(rng, move=-0.8, colluders=colluders, lie=0.3)).changes[0]
    assert -0.8 <= fall.after[1] - fall.before[0] < 0.0


def test_the_detectable_change_is_reported(rng: np.random.Generator) -> None:
    result = found(played(rng))
    assert result.n_tested == 6
    assert 0.0 < result.visible < 0.8
    assert f"moves of about {result.visible:.2g} would show" in result.statement()
    assert result.to_json()["visible"] == result.visible


def test_only_a_lack_of_data_is_reported(rng: np.random.Generator) -> None:
    result = found(played(rng, n=40))
    assert not result.changes
    assert "too little was played" in result.statement()
    assert result.to_json()["visible"] is None


def test_colluders_are_bounded_by_the_plays_they_were_assigned(
    rng: np.random.Generator,
) -> None:
    """An account with a single visit is in a given one of ten cells with probability 1/10."""
    n = 2_000
    users, actions = np.arange(n), rng.integers(10, size=n)
    t = tally(users, np.zeros(n, int), actions, np.ones(n), n_users=n, n_contexts=1, n_actions=10)
    few = most_colluders(t, 200, uniform_design(t), 1e-4)
    assert (few == few[0]).all()
    assert 20 <= few[0] <= 60
    # A user who visits one context a hundred times is in each of its cells.
    often = tally(
        np.repeat(users, 100),
        np.zeros(100 * n, int),
        rng.integers(10, size=100 * n),
        np.ones(100 * n),
        **shape(n, 1, 10),
    )
    assert most_colluders(often, 200, uniform_design(often), 1e-4).max() == 200
    # Unless each user keeps one action.
    assert most_colluders(often, 200, sticky_design(often), 1e-4).max() == few[0]
    weighted = tally(
        users, np.zeros(n, int), actions, np.ones(n), **shape(n, 1, 10), weights=np.ones(n)
    )
    assert (most_colluders(weighted, 200, uniform_design(weighted), 1e-4) == 200).all()


def test_outcomes_are_described_in_words_and_json() -> None:
    rise = Change("lunch", "tea", (0.25, 0.5), (0.75, 1.0))
    found = Changes((rise,), 1234, 2000, 0.125)
    assert found.statement() == (
        "1 of 1,234 mean rewards changed (error rate 1% if user means are near normal, colluders "
        "allowed for): for instance 'tea' in 'lunch', from 0.25 to 0.5 before to 0.75 to 1 after."
    )
    assert found.to_json() == {
        "changes": [
            {"context": "lunch", "action": "tea", "before": [0.25, 0.5], "after": [0.75, 1.0]}
        ],
        "tested": 1234,
        "cells": 2000,
        "visible": 0.125,
        "level": 0.01,
    }


def test_incomparable_windows_are_rejected(rng: np.random.Generator) -> None:
    window = tally_events(played(rng, n=500))
    other = tally_events(Events.of(["a"], ["s"], ["x"], [1.0]))
    with pytest.raises(InputError, match="windows with different labels cannot be compared"):
        changes_between(window, other, alpha=0.1)
    with pytest.raises(InputError, match=r"below 0\.5"):
        changes_between(window, window, alpha=0.5)


def test_an_uneven_assignment_leaves_room_for_the_colluders_of_the_larger_group(
    rng: np.random.Generator,
) -> None:
    """90 % instead of 50 % of 600 colluders get action 0, at least 1.5 times as many.

    The uneven assignment of the log must be detected.
    """
    n = 6000
    users, contexts = np.arange(n), np.zeros(n, np.int64)
    counts = {}
    for share in (0.5, 0.9):
        actions = (rng.random(n) >= share).astype(np.int64)
        log = tally(users, contexts, actions, np.zeros(n), n_users=n, n_contexts=1, n_actions=2)
        counts[share] = most_colluders(log, 600, sticky_design(log), 1e-4)
    assert counts[0.5].tolist() == [counts[0.5][0]] * 2
    assert counts[0.5][0] < 0.9 * 600 <= counts[0.9][0] <= 600
    assert 0.1 * 600 <= counts[0.9][1] < counts[0.5][1]
