"""Rounds of loud accusations: what is reported is what was found."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.logs import TARGET, Log, make_log
from unswayed.learners.discount.loud import rounds
from unswayed.learners.discount.loud.class_counts import (
    counts_by_class,
    counts_of,
)
from unswayed.learners.discount.loud.coalition import accused_by, loudness, usual_law
from unswayed.learners.discount.loud.honest import summed_out
from unswayed.learners.discount.loud.rounds import (
    FoundLie,
    LoudLies,
    SampledPlays,
    discount_loud_lies,
)
from unswayed.learners.discount.responses.categories import find_categories
from unswayed.learners.discount.responses.sampling import sampled, single_rewards
from unswayed.learners.discount.trial.verdicts import Verdict
from unswayed.randomness import generator
from unswayed.tallies import Tallies

N_USERS = 500


def plays_of(tallies: Tallies) -> SampledPlays:
    sample, chosen = sampled(tallies, generator(0))
    return SampledPlays(tallies, sample, chosen, find_categories(single_rewards(sample)))


@pytest.fixture(scope="module")
def log() -> Log:
    return make_log(generator(0, "loud rounds"), n_users=N_USERS, bots=0.1, rate=0.1)


@pytest.fixture(scope="module")
def found(log: Log) -> LoudLies:
    return discount_loud_lies(plays_of(log.tallies()), adversarial_fraction=0.1, rng=generator(1))


def test_bots_lose_their_weight_and_the_lie_is_named(log: Log, found: LoudLies) -> None:
    assert found.weights[log.is_bad].mean() < 0.2
    assert found.weights[~log.is_bad].mean() > 0.95
    (lie, *_) = found.lies
    assert lie.cells.tolist() == [6 * context + TARGET for context in range(8)]
    assert lie.raises is True
    assert lie.n_accounts == pytest.approx(log.is_bad.sum(), rel=0.2)
    assert lie.to_json() == {
        "cells": lie.cells.tolist(),
        "raises": True,
        "accounts": lie.n_accounts,
    }
    accepted = [r for r in found.rounds if r.is_accepted]
    assert len(accepted) == len(found.lies)
    assert all(not r.is_accepted for r in found.rounds[len(accepted) :])


def test_a_round_is_reported_as_it_was_judged(log: Log, found: LoudLies) -> None:
    first = found.rounds[0]
    assert (first.stage, first.model) == ("loud", "lies about one action")
    assert first.verdict == Verdict.DISCOUNTED
    assert first.gain > 2.0 * max(first.null_gain, 0.0) + 20.0
    assert np.isnan(first.taste_share)
    assert np.isnan(first.stake)
    assert first.opposite_gain == -np.inf
    plays = plays_of(log.tallies())
    counts = counts_of(plays.sample, plays.categories, 0.0)
    (own,) = generator(1).spawn(1)
    again = rounds._search(counts, plays.categories, np.ones(N_USERS), 0.1, {}, own)
    assert again is not None
    assert plays.categories.is_rare  # then nobody is said to repeat themselves
    assert again.round.to_json() == first.to_json()
    accused = again.coalition.accused(N_USERS)
    assert again.round.accused == pytest.approx((accused > 0.5).mean())
    assert again.round.removed == pytest.approx(accused.mean())
    usual = usual_law(
        counts_by_class(counts, again.classes, 8.0), again.coalition, np.ones(N_USERS)
    )
    tilt = loudness(again.coalition.lie.law, usual, plays.categories.scores)
    assert again.round.alignment == pytest.approx(tilt)
    assert tilt > 0.0
    half = np.linspace(0.4, 1.0, N_USERS)
    weighed = rounds._search(counts, plays.categories, half, 0.1, {}, generator(5))
    assert weighed is not None
    accused = weighed.coalition.accused(N_USERS)
    assert weighed.round.accused == pytest.approx(half @ (accused > 0.5) / half.sum())
    assert weighed.round.removed == pytest.approx(1.0 - (half * (1.0 - accused)).mean())


def test_the_nulls_are_those_of_the_best_candidate(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The larger of two nulls counts; with one that gains half as much nobody is believed."""
    plays = plays_of(log.tallies())
    counts = counts_of(plays.sample, plays.categories, 0.0)
    ones = np.ones(N_USERS)
    best = rounds._search(counts, plays.categories, ones, 0.1, {}, generator(2))
    assert best is not None
    needed = (best.round.gain - 20.0) / 2.0
    for gains, verdict in (
        ([3.0, needed], Verdict.WITHIN_CHANCE),
        ([needed - 0.1, 3.0], Verdict.DISCOUNTED),
    ):
        left = list(gains)
        monkeypatch.setattr(rounds, "_null_gain", lambda *_, left=left: left.pop(0))
        judged = rounds._search(counts, plays.categories, ones, 0.1, {}, generator(2))
        assert judged is not None
        assert judged.round.verdict == verdict
        assert judged.round.null_gain == max(gains)
        assert left == []


def test_lies_that_are_no_louder_than_a_taste_need_no_null(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = plays_of(log.tallies())
    counts = counts_of(plays.sample, plays.categories, 0.0)
    monkeypatch.setattr(rounds, "LOUDER", 100.0)
    judged = rounds._search(counts, plays.categories, np.ones(N_USERS), 0.1, {}, generator(2))
    assert judged is not None
    assert judged.round.verdict == Verdict.LIKE_A_TASTE
    assert np.isnan(judged.round.null_gain)


def test_all_users_are_accused_by_up_to_64_plays_of_the_class(log: Log) -> None:
    plays = plays_of(log.tallies())
    counts = counts_of(plays.sample, plays.categories, 0.3)
    best = rounds._search(counts, plays.categories, np.ones(N_USERS), 0.1, {}, generator(2))
    assert best is not None
    model = (plays.categories, 0.3, best.classes, best.model, best.coalition.lie)
    data = counts_by_class(counts, best.classes, 64.0)
    expected = accused_by(data, summed_out(data, best.model, np.ones(N_USERS)), best.coalition.lie)
    assert_allclose(rounds._accused(log.tallies(), *model), expected)


def test_a_sample_is_searched_and_everybody_is_judged(log: Log, found: LoudLies) -> None:
    tallies = replace(log.tallies(), bounds=(0, 90, 91, 91, N_USERS))
    blocked = discount_loud_lies(plays_of(tallies), adversarial_fraction=0.1, rng=generator(1))
    assert_allclose(blocked.weights, found.weights, atol=1e-9)
    chosen = np.arange(0, N_USERS, 2)
    plays = plays_of(tallies)
    half = plays._replace(sample=plays.sample.of_users(chosen), chosen=chosen)
    partly = discount_loud_lies(half, adversarial_fraction=0.1, rng=generator(1))
    assert len(partly.weights) == N_USERS
    assert partly.weights[log.is_bad].mean() < 0.5


def test_one_category_or_one_action_cannot_be_lied_about(log: Log) -> None:
    plays = plays_of(log.tallies())
    nothing = plays._replace(categories=find_categories(np.zeros(3)))
    left = discount_loud_lies(nothing, adversarial_fraction=0.1, rng=generator(1))
    assert_array_equal(left.weights, np.ones(N_USERS))
    assert (left.rounds, left.lies) == ([], [])
    one_action = replace(log.tallies(), n_contexts=48, n_actions=1)
    left = discount_loud_lies(plays_of(one_action), adversarial_fraction=0.1, rng=generator(1))
    assert (left.rounds, left.lies) == ([], [])


def test_lies_are_plain_json() -> None:
    lie = FoundLie(np.array([3, 9]), False, 2.5)
    assert lie.to_json() == {"cells": [3, 9], "raises": False, "accounts": 2.5}


def candidate(
    *, mass: float = 0.1, loudness: float = 9.0, gain: float = 100.0, about: int = 0,
    is_by_action: bool = True,
) -> Any:  # fmt: skip
    first = SimpleNamespace(is_by_action=is_by_action, found=SimpleNamespace(gain=gain))
    fitted = SimpleNamespace(lie=SimpleNamespace(about=about), mass=mass)
    return SimpleNamespace(first=first, fitted=fitted, loudness=loudness)


@pytest.mark.parametrize(
    ("other", "is_believed"),
    [
        (candidate(mass=0.049), True),  # less than half as many accounts
        (candidate(mass=0.05), False),
        (candidate(mass=0.099, loudness=-9.0), True),  # the opposite lie
        (candidate(mass=0.1, loudness=-9.0), False),
        (candidate(mass=0.099, loudness=-9.0, is_by_action=False), False),
        (candidate(mass=0.049, loudness=5.0), True),
        (candidate(mass=0.049, loudness=-4.9), False),
        (candidate(mass=0.049, gain=30.0), False),
        (candidate(mass=0.049, gain=30.1), True),
    ],
)
def test_of_clear_candidates_the_one_with_far_fewer_accounts_is_believed(
    other: Any, is_believed: bool
) -> None:
    best = candidate()
    assert (rounds._fewest_accused([best, other], strongest=5.0) is other) == is_believed
    assert rounds._fewest_accused([best], strongest=5.0) is best


def test_candidates_are_ranked_by_loudness_and_gain(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weak first looks and crowds are left out; the loud come before the quiet."""
    plays = plays_of(log.tallies())
    counts = counts_of(plays.sample, plays.categories, 0.0)
    real = rounds._search(counts, plays.categories, np.ones(N_USERS), 0.1, {}, generator(2))
    assert real is not None
    grid = SimpleNamespace(strongest_taste=2.0)
    seen: list[Any] = []

    def made(name: str, gain: float, after: float, mass: float, tilt: float) -> Any:
        fitted = replace(real.coalition, mass=mass, gain=after)
        without = SimpleNamespace(model=SimpleNamespace(grid=grid))
        data = SimpleNamespace(classes=name)
        first = rounds._First(data, None, True, replace(real.coalition, gain=gain))  # type: ignore[arg-type]
        return rounds._Candidate(first, fitted, without, tilt)  # type: ignore[arg-type]

    some = {
        "crowd": made("crowd", 100.0, 900.0, 0.95 * 0.45, 9.0),
        "weak": made("weak", 29.9, 900.0, 0.1, 9.0),
        "quiet": made("quiet", 50.0, 900.0, 0.1, 2.39),
        "second": made("second", 30.0, 70.0, 0.1, -2.41),
        "first": made("first", 60.0, 80.0, 0.1, 2.4),
    }
    monkeypatch.setattr(
        rounds,
        "_first_looks",
        lambda *given: [one.first for one in some.values()] if given[4] else [],
    )
    monkeypatch.setattr(rounds, "_refined", lambda first, *_: some[first.data.classes])

    def keep(candidates: list[Any], strongest: float) -> Any:
        seen.append(([c.first.data.classes for c in candidates], strongest))
        return candidates[0]

    monkeypatch.setattr(rounds, "_fewest_accused", keep)
    monkeypatch.setattr(rounds, "_null_gain", lambda *_: 0.0)
    judged = rounds._search(counts, plays.categories, np.ones(N_USERS), 0.1, {}, generator(2))
    assert judged is not None
    assert seen == [(["first", "second", "quiet"], pytest.approx(2.4))]
    assert judged.round.gain == 60.0
    monkeypatch.setattr(rounds, "_first_looks", lambda *_: [])
    assert rounds._search(counts, plays.categories, np.ones(N_USERS), 0.1, {}, generator(2)) is None
