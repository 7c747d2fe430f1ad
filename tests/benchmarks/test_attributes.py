"""Worlds with attributes: disjoint parts, values in range, scores that are fractions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from unswayed import RobustMCB
from unswayed.simulation.attributes import ATTACKS, Kind, build, codes_of
from worlds.attributes import MOST_EVENTS, kinds
from worlds.world import PARTS


def test_parts_have_disjoint_kinds_within_the_stated_ranges() -> None:
    drawn = {part: [kind for seed in range(3) for kind in kinds(part, seed)] for part in PARTS}
    names = [kind.name for part in PARTS for kind in drawn[part]]
    assert len(set(names)) == len(names)
    for kind in (kind for part in PARTS for kind in drawn[part]):
        assert 1_000 <= kind.n_users <= 50_000
        assert 2 <= kind.n_attributes <= 20
        assert 2 <= kind.n_actions <= 30
        assert 0.01 <= kind.rate <= 0.1
        assert kind.n_users * kind.events_per_user <= MOST_EVENTS
    for part in PARTS:
        assert {kind.attack for kind in drawn[part]} == set(ATTACKS)
        assert len({kind.rewards for kind in drawn[part]}) == 3
        assert {kind.is_greedy for kind in drawn[part]} == {False, True}


def test_the_best_actions_score_one_and_random_ones_zero(rng: np.random.Generator) -> None:
    """A coalition changes the log, but not the ground truth."""
    kind = Kind(n_users=1_000, events_per_user=5, attack="push")
    world = build(kind, 0)
    n_visits, n_actions = world.means.shape
    assert world.share(np.asarray(world.means.argmax(axis=1))) == 1.0
    # The tolerance is four standard errors of a mean of 20,000 scores within about ±2.
    random = np.asarray(rng.integers(n_actions, size=n_visits))
    assert abs(world.share(random)) < 4 * 2 / np.sqrt(n_visits)
    honest = world.without_bots()
    assert honest.means is world.means
    assert pc.count_distinct(honest.log["user"]).as_py() == 0.9 * kind.n_users
    assert not build(replace(kind, attack="peace"), 0).is_bot.any()


def test_advice_of_all_users_may_name_an_action_that_no_fold_named() -> None:
    """Every event has a leaf, even if no fold's advice named that action."""
    kind = Kind(
        truth="piecewise",
        attack="sink",
        rate=0.04,
        is_greedy=True,
        is_uneven=True,
        n_users=7_715,
        events_per_user=4,
        n_attributes=3,
        n_actions=14,
        bots=0.033,
    )
    world = build(kind, 1)
    policy = RobustMCB(0.12, features=world.features).fit(world.log).policy_
    assert policy.counts.sum() == len(world.log)


def test_a_small_log_is_split_if_held_out_users_gain() -> None:
    """The gain is positive but less than a standard error; a single leaf has a share of 0.41."""
    kind = Kind(
        truth="linear",
        rate=0.019,
        is_greedy=True,
        n_users=1_663,
        events_per_user=9,
        n_attributes=2,
        n_actions=9,
    )
    world = build(kind, 20)
    learner = RobustMCB(0.12, features=world.features).fit(world.log)
    assert world.share(codes_of(learner.predict(world.visits))) > 0.6
