"""The test for change in numbers: what it counts, what it says, and what it hands on."""

import math

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import Events, Labels
from unswayed.learners.change_test import (
    Change,
    Changes,
    changes_at,
    changes_between,
)
from unswayed.tallies import Tallies, tally_events

RISE = Change("lunch", "tea", (0.25, 0.5), (0.75, 1.0))
FALL = Change("dinner", "soup", (0.5, 0.75), (-0.5, 0.125))


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
        "none of 1,234 mean rewards changed (error rate 5% if user means are near normal, "
        "colluders allowed for); moves of about 0.13 would show."
    )
    assert Changes((FALL, RISE), 1234, 2000, 0.125).statement() == (
        "2 of 1,234 mean rewards changed (error rate 1% if user means are near normal, colluders "
        "allowed for): for instance 'soup' in 'dinner', from 0.5 to 0.75 before to -0.5 "
        "to 0.125 after."
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


def halves(events: Events) -> tuple[Tallies, Tallies]:
    assert events.times is not None
    return tally_events(events.rows(events.times < 1.0)), tally_events(
        events.rows(events.times >= 1.0)
    )


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
