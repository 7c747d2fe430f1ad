"""The test for change in numbers: what it counts, what it says, and what it hands on."""

import math
from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.estimators import mean_intervals
from unswayed.events import Events, Labels
from unswayed.learners.change_test import (
    Change,
    Changes,
    changes_at,
    changes_between,
    most_colluders,
)
from unswayed.learners.design import Design, uniform_design
from unswayed.tallies import LogTallies, Tallies, tally, tally_events

RISE = Change("lunch", "tea", (0.25, 0.5), (0.75, 1.0))
FALL = Change("dinner", "soup", (0.5, 0.75), (-0.5, 0.125))


def test_a_mean_moved_at_least_by_the_gap_between_its_intervals() -> None:
    assert (RISE.least, FALL.least) == (0.25, -0.375)


def test_changes_are_plain_json() -> None:
    assert Changes((RISE, FALL), 5, 6, 0.125).to_json() == {
        "changes": [
            {"context": "lunch", "action": "tea", "before": [0.25, 0.5], "after": [0.75, 1.0]},
            {"context": "dinner", "action": "soup", "before": [0.5, 0.75], "after": [-0.5, 0.125]},
        ],
        "tested": 5,
        "cells": 6,
        "visible": 0.125,
        "level": 0.01,
    }
    assert Changes((), 0, 6, math.nan, level=0.05).to_json() == {
        "changes": [],
        "tested": 0,
        "cells": 6,
        "visible": None,
        "level": 0.05,
    }


def test_each_outcome_has_its_sentence() -> None:
    assert Changes((), 0, 1234, math.nan).statement() == (
        "too little was played before or after to test 1,234 means for change."
    )
    assert Changes((), 1234, 2000, 0.1251, level=0.05).statement() == (
        "none of 1,234 mean rewards changed (error rate 5%, colluders allowed for); moves of about "
        "0.13 would show."
    )
    assert Changes((FALL, RISE), 1234, 2000, 0.125).statement() == (
        "2 of 1,234 mean rewards changed (error rate 1%, colluders allowed for): for instance "
        "'soup' in 'dinner', from 0.5 to 0.75 before to -0.5 to 0.125 after."
    )


def played(rng: np.random.Generator, *, n: int, moves: dict[tuple[int, int], float]) -> Events:
    """Return plays of 90 users in 3 contexts, 2 of them met; means move at time 1 by ``moves``."""
    users, contexts, actions = (rng.integers(most, size=n) for most in (90, 2, 3))
    times = rng.integers(4, size=n) / np.float64(2.0)
    moved = np.zeros((3, 3))
    for cell, move in moves.items():
        moved[cell] = move
    rewards = moved[contexts, actions] * (times >= 1.0) + 0.25 * rng.standard_normal(n)
    labels = (
        Labels.numbered(90),
        Labels.of(["lunch", "dinner", "brunch"]),
        Labels.of(["tea", "soup", "cake"]),
    )
    return Events(users, contexts, actions, rewards, *labels, times=times)


def literal_most(tallies: Tallies, n_colluders: int, design: Design, delta: float) -> list[int]:
    """Return a bound for each cell by those with the most visits of its context."""
    logarithm, result = math.log(1 / delta), []
    for context in range(tallies.n_contexts):
        visits = []
        for user in range(tallies.n_users):
            own = [
                float(tallies.plays[entry])
                for entry in range(tallies.indptr[user], tallies.indptr[user + 1])
                if tallies.cells[entry] // tallies.n_actions == context
            ]
            if own:
                visits.append(1.0 if design.is_sticky[context] else sum(own))
        expected = sum(sorted(visits, reverse=True)[:n_colluders]) / tallies.n_actions
        bound = expected + logarithm / 3 + math.sqrt(logarithm**2 / 9 + 2 * expected * logarithm)
        result += [math.floor(min(bound, n_colluders))] * tallies.n_actions
    return result


def test_colluders_of_a_cell_are_those_with_the_most_visits_over_the_number_of_actions(
    rng: np.random.Generator,
) -> None:
    """Contexts are met unevenly, and in the first of them an account keeps its action."""
    n = 400
    shape: dict[str, Any] = {"n_users": 80, "n_contexts": 3, "n_actions": 5}
    users = np.minimum(rng.geometric(0.04, size=n), 80) - 1
    contexts = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    tallies = tally(users, contexts, rng.integers(5, size=n), np.ones(n), **shape)
    design = Design(np.array([True, False, False]), np.zeros((3, 5), np.int64))
    for n_colluders, delta in ((0, 1e-2), (3, 0.2), (30, 1e-2), (40, 0.5), (80, 1e-4)):
        for chosen in (design, uniform_design(tallies)):
            found = most_colluders(tallies, n_colluders, chosen, delta)
            assert found.tolist() == literal_most(tallies, n_colluders, chosen, delta)
    many = most_colluders(tallies, 40, design, 0.5)
    assert len({*many.tolist()}) > 1  # the bounds differ between contexts
    assert many.dtype == np.int64


def test_every_visit_of_a_colluder_counts_also_that_of_the_first_user() -> None:
    """The first has 30 visits and the next 4, of ten actions in one context and one in another."""
    users, contexts = np.repeat([0, 1, 1], [30, 4, 9]), np.repeat([0, 0, 1], [30, 4, 9])
    actions = np.arange(43) % 10
    tallies = tally(users, contexts, actions, np.ones(43), n_users=2, n_contexts=2, n_actions=10)
    design = uniform_design(tallies)
    # 3.4 + ln 2 / 3 + sqrt((ln 2)² / 9 + 6.8 ln 2) = 5.8, and 0.9, 1.2 and 1.3 in their place.
    assert most_colluders(tallies, 20, design, 0.5).tolist() == [5] * 10 + [2] * 10
    # With 3 and 0.9 expected plays 5.3 and 2.3; one colluder is no more than that.
    assert most_colluders(tallies, 1, design, 0.5).tolist() == [1] * 20


def test_nobody_met_a_context_and_no_colluder_is_there() -> None:
    shape: dict[str, Any] = {"n_users": 4, "n_contexts": 2, "n_actions": 2}
    nothing = np.empty(0, np.int64)
    tallies = tally(nothing, nothing, nothing, np.empty(0), **shape)
    # Freedman's bound of an empty sum: 2 ln(1/δ) / 3.
    bound = most_colluders(tallies, 4, uniform_design(tallies), math.exp(-3.0))
    assert bound.tolist() == [2, 2, 2, 2]


def halves(events: Events) -> tuple[LogTallies, LogTallies]:
    assert events.times is not None
    return tally_events(events.rows(events.times < 1.0)), tally_events(
        events.rows(events.times >= 1.0)
    )


def literal_intervals(
    tallies: Tallies, n_colluders: int, design: Design, delta: float
) -> list[tuple[float, float]]:
    """Return the interval of each cell from its users' means, cell by cell."""
    means, result = tallies.sums / tallies.counts, []
    n_bad = literal_most(tallies, n_colluders, design, delta)
    for cell in range(tallies.n_cells):
        own = means[tallies.cells == cell]
        low, high = mean_intervals(
            own,
            np.zeros(len(own), np.int64),
            1,
            n_bad=np.array([n_bad[cell]]),
            failure_probability=delta,
        )
        result.append((float(low[0]), float(high[0])))
    return result


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_a_mean_changed_where_its_two_intervals_have_nothing_in_common(
    alpha: float, rng: np.random.Generator
) -> None:
    """Four of six cells that were met move, by more than chance in three of them."""
    moves = {(0, 0): 1.5, (0, 2): -3.0, (1, 1): 2.0, (1, 2): 0.01}
    events = played(rng, n=4_000, moves=moves)
    result = changes_at(events, 1.0, alpha=alpha)
    windows = [half.tallies for half in halves(events)]
    # Everybody came; six cells were met in both windows, and each has four ways to fail.
    n_colluders, delta = math.floor(alpha * 90), 0.01 / (4 * 6)
    intervals = [
        literal_intervals(part, n_colluders, uniform_design(part), delta) for part in windows
    ]
    expected = []
    for cell, (before, after) in enumerate(zip(*intervals, strict=True)):
        gap = max(after[0] - before[1], before[0] - after[1])
        if np.isfinite([*before, *after]).all() and gap > 0.0:
            context = ["lunch", "dinner", "brunch"][cell // 3]
            action = ["tea", "soup", "cake"][cell % 3]
            expected.append((-gap, Change(context, action, before, after)))
    ordered = [change for _, change in sorted(expected, key=lambda pair: pair[0])]
    assert [(change.context, change.action) for change in result.changes] == [
        ("lunch", "cake"),
        ("dinner", "soup"),
        ("lunch", "tea"),
    ]
    for change, by_hand in zip(result.changes, ordered, strict=True):
        assert (change.context, change.action) == (by_hand.context, by_hand.action)
        assert change.before == pytest.approx(by_hand.before)
        assert change.after == pytest.approx(by_hand.after)
    assert (result.n_tested, result.n_cells, result.level) == (6, 9, 0.01)
    widths = [
        np.mean([high - low for low, high in pair])
        for pair in zip(*(part[:6] for part in intervals), strict=True)
    ]
    assert result.visible == pytest.approx(np.median(widths))


def test_a_design_is_passed_on_and_a_moment_belongs_to_what_follows(
    rng: np.random.Generator,
) -> None:
    events = played(rng, n=4_000, moves={(0, 0): 1.5})
    before, after = halves(events)
    sticky = Design(np.ones(3, np.bool_), np.zeros((3, 3), np.int64))
    by_design = [
        changes_between(before, after, alpha=0.4, design=design) for design in (None, sticky)
    ]
    assert by_design[1].visible < by_design[0].visible  # fewer colluders in a cell
    for design, expected in zip((None, sticky), by_design, strict=True):
        assert changes_at(events, 1.0, alpha=0.4, design=design) == expected
        assert changes_at(events, 0.6, alpha=0.4, design=design) == expected


@pytest.mark.parametrize("n_dinners", [0, 1])
@pytest.mark.parametrize("n_played", [(2, 2), (2, 1), (1, 2)])
def test_colluders_are_counted_among_the_users_of_both_windows(
    n_played: tuple[int, int], n_dinners: int
) -> None:
    """Ten users before and ten others after: a tenth of all is two, and of a window one.

    Ten more never came and do not count. Only cells that were met in both windows have a share of
    the level; so has dinner if one user met it in each, and it is not tested.
    """

    def window(users: range, n_actions: int) -> Tallies:
        columns = [(user, 0, action) for user in users for action in range(n_actions)]
        owners, contexts, actions = np.array(columns + [(users[0], 1, 0)] * n_dinners).T
        rewards = np.linspace(0.0, 1.0, len(owners))
        return tally(owners, contexts, actions, rewards, n_users=30, n_contexts=2, n_actions=2)

    labels = (Labels.numbered(30), Labels.of(["lunch", "dinner"]), Labels.of(["tea", "soup"]))
    parts = [window(range(10), n_played[0]), window(range(10, 20), n_played[1])]
    logs = [LogTallies(part, *labels) for part in parts]
    result = changes_between(logs[0], logs[1], alpha=0.1)
    n_tested = min(n_played)
    delta = 0.01 / (4 * (n_tested + n_dinners))
    intervals = [
        literal_intervals(part, 2, uniform_design(part), delta)[:n_tested] for part in parts
    ]
    widths = [np.mean([high - low for low, high in pair]) for pair in zip(*intervals, strict=True)]
    assert np.isfinite(widths).all()
    assert (result.n_tested, result.n_cells) == (n_tested, 4)
    assert result.visible == pytest.approx(np.median(widths))


def test_a_window_without_plays_is_said_to_be_too_little(rng: np.random.Generator) -> None:
    events = played(rng, n=500, moves={})
    for moment in (-1.0, 9.0):
        result = changes_at(events, moment, alpha=0.1)
        assert (result.changes, result.n_tested, result.n_cells) == ((), 0, 9)
        assert math.isnan(result.visible)


def test_what_cannot_be_compared_gets_a_sentence(rng: np.random.Generator) -> None:
    with pytest.raises(InputError) as refused:
        changes_at(Events.of(["a"], ["s"], ["x"], [1.0]), 1.0, alpha=0.1)
    assert str(refused.value) == (
        "a test for change needs the time of every event; these have none."
    )
    before, _ = halves(played(rng, n=500, moves={}))
    other = tally_events(Events.of(["a"], ["s"], ["x"], [1.0]))
    with pytest.raises(InputError) as refused:
        changes_between(before, other, alpha=0.1)
    assert str(refused.value) == (
        "windows with different labels cannot be compared; cut one log in two."
    )
    with pytest.raises(InputError, match=r"below 0\.5"):
        changes_between(before, before, alpha=0.5)
