"""Merged logs with different actions: every action counts as if it had always been available."""

from __future__ import annotations

import numpy as np
import pytest

from unswayed.events import Events
from unswayed.tallies import Tallies, tally_events
from unswayed.tallies.log_data import combined, with_log, without_action

MEANS = {"tea": 0.2, "milk": 0.5, "soup": 0.8}


def phase(
    rng: np.random.Generator, actions: list[str], n_users: int = 200, n_plays: int = 20
) -> Tallies:
    users = np.repeat(np.arange(n_users), n_plays)
    played = rng.choice(actions, size=len(users))
    rewards = [float(rng.random() < MEANS[action]) for action in played]
    return tally_events(
        Events.of(users, ["home"] * len(users), played, rewards, action_labels=actions)
    )


def shares(log: Tallies) -> dict[str, float]:
    """Return each action's share of the weight."""
    tallies = log.uniform()
    weights = np.bincount(tallies.cells % tallies.n_actions, tallies.counts)
    names = [str(action) for action in log.action_labels]
    return dict(zip(names, (weights / weights.sum()).tolist(), strict=True))


def test_every_action_weighs_the_same_whenever_it_came(rng: np.random.Generator) -> None:
    """Negative control: of the plain counts the late action has a sixth, not a third."""
    phases = with_log((), phase(rng, ["tea", "milk"]))
    phases = with_log(phases, phase(rng, ["tea", "milk", "soup"]))
    log = combined(phases)
    # Each share is a mean of 4,000 plays or more, weighted by at most 2: Hoeffding at 1e-6.
    tolerance = 2 * np.sqrt(np.log(2e6) / (2 * 4000))
    assert all(abs(share - 1 / 3) < tolerance for share in shares(log).values())
    plays = np.bincount(log.cells % 3, log.plays)
    soup = plays[log.action_labels.code("soup")] / plays.sum()
    assert abs(soup - 1 / 6) < tolerance / 2 < 1 / 6
    assert plays.sum() == 8000


def test_one_account_cannot_stretch_a_phase(rng: np.random.Generator) -> None:
    """Otherwise a million plays before an action was added would give it too much weight."""
    first, second = phase(rng, ["tea", "milk"]), phase(rng, ["tea", "milk", "soup"])
    flood = tally_events(
        Events.of([0] * 100_000, ["home"] * 100_000, ["tea", "milk"] * 50_000, [1.0] * 100_000)
    )
    before = combined((first, second))
    after = combined((*with_log((first,), flood), second))

    def weight_of_soup(log: Tallies) -> float:
        is_soup = log.cells % 3 == log.action_labels.code("soup")
        return float((log.counts[is_soup] / log.plays[is_soup]).max())

    assert weight_of_soup(after) < 1.02 * weight_of_soup(before)


def test_logs_with_the_same_actions_become_one_phase(rng: np.random.Generator) -> None:
    one, other = phase(rng, ["tea", "milk"]), phase(rng, ["milk", "tea"])
    phases = with_log(with_log((), one), other)
    assert len(phases) == 1
    assert not combined(phases).is_weighted


def test_removing_an_action_keeps_the_plays_of_the_others(
    rng: np.random.Generator,
) -> None:
    phases = (phase(rng, ["tea", "milk"]), phase(rng, ["tea", "milk", "soup"]))
    kept = without_action(phases, "soup")
    assert len(kept) == 1
    assert list(kept[0].action_labels) == ["milk", "tea"]
    old = sum(
        part.plays[part.cells % part.n_actions != part.action_labels.code("soup")].sum()
        if "soup" in part.action_labels
        else part.plays.sum()
        for part in phases
    )
    assert kept[0].plays.sum() == old
    assert shares(kept[0])["tea"] == pytest.approx(0.5, abs=0.06)


def plays_of(actions: list[str], plays: list[int]) -> Tallies:
    """Return a phase whose users play the actions in turn, each the given number of times."""
    users = np.repeat(np.arange(len(plays)), plays)
    played = [actions[turn % len(actions)] for turn in range(len(users))]
    return tally_events(
        Events.of(users, ["home"] * len(users), played, [1.0] * len(users), action_labels=actions)
    )


def test_logs_with_and_without_propensities_are_different_phases() -> None:
    plain = plays_of(["tea", "milk"], [2, 2])
    weighted = tally_events(
        Events.of([0, 1], ["home"] * 2, ["tea", "milk"], [1.0, 0.0], propensities=[0.5, 0.5])
    )
    phases = with_log(with_log((), plain), weighted)
    assert [log.is_weighted for log in phases] == [False, True]
    soup = plays_of(["tea", "soup"], [1, 1])
    three = with_log(with_log((plain, soup, weighted), plain), soup)
    assert [log.plays.sum() for log in three] == [8.0, 4.0, 2.0]
