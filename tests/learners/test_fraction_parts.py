"""What an unknown share is put together from, each part computed by hand."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.refusals import refusal
from unswayed.learners import Estimates
from unswayed.learners.design import sticky_design, uniform_design
from unswayed.learners.discount import learn_discounted
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.responses.noise import measure_noise
from unswayed.learners.discount.settings import MEAN
from unswayed.learners.unknown_fraction import (
    CEILING,
    CLEAR_ORIENTATION,
    FLOOR,
    LARGEST_ALLOWANCE,
    LOPSIDED,
    SUSPICION,
    UnknownFraction,
    _accused_and_suspected,
    _median_gap,
    _upper_bound,
    check_fraction_or_auto,
    estimate_fraction,
    is_seen,
)
from unswayed.limits import smallest_swap_coalition
from unswayed.tallies import Tallies, tally

FOUND = UnknownFraction(
    chosen=0.1534,
    accused=0.101,
    suspected=0.02,
    upper=0.14,
    allowance=0.0134,
    seen_to=0.31,
    hidden_from=0.4,
    gap=0.2,
    answers_per_user=12.5,
    tastes=True,
)


def test_a_statement_says_what_was_found_and_what_cannot_be_known() -> None:
    assert FOUND.statement() == (
        "alpha = 0.153 was chosen from the data: 10.1% of the users look like a coalition, another "
        "2.0% stand apart (together at most 14.0%), and 1.3% is allowed for those who go unseen. A "
        "coalition up to 31.0% that turns most decisions round would be seen; larger ones, lies in "
        "few contexts, and lies that turn only close decisions may not. From 40.0% on some "
        "coalition is hidden from every method: if you cannot rule it out, state alpha yourself. "
        "Users have tastes of their own, and more can hide behind them."
    )


def test_a_statement_leaves_out_what_does_not_apply() -> None:
    short = (
        "alpha = 0.153 was chosen from the data: no coalition was seen, and 1.3% is allowed for "
        "those who go unseen. A coalition up to 31.0% that turns most decisions round would be "
        "seen; larger ones, lies in few contexts, and lies that turn only close decisions may not."
    )
    for hidden_from in (None, CEILING):
        found = replace(FOUND, upper=0.0, hidden_from=hidden_from, tastes=False)
        assert found.statement() == short
        assert found.to_json() == {**asdict(found), "statement": short}


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.45])
@pytest.mark.parametrize("separation", [0.5, 1.0, 3.0])
def test_a_share_is_seen_from_the_number_of_users_that_its_skewness_asks_for(
    share: float, separation: float
) -> None:
    """The skewness is that of the mixture itself; each user is worth a third of its square."""
    places, masses = np.array([0.0, separation]), np.array([1 - share, share])
    central = places - masses @ places
    variance = 1.0 + masses @ central**2
    skewness = masses @ central**3 / variance**1.5
    least = math.ceil(3 * CLEAR_ORIENTATION / skewness**2)
    shares, separations = np.array([share]), np.array([separation])
    assert is_seen(shares, separations, least).tolist() == [True]
    assert is_seen(shares, separations, math.floor(least * 0.999) - 1).tolist() == [False]


@pytest.mark.parametrize(("share", "count"), [(0.1, 5), (0.101, 6), (0.02, 1), (0.99, 49)])
def test_the_upper_bound_is_that_of_clopper_and_pearson(share: float, count: int) -> None:
    exact = stats.binomtest(count, 50, alternative="less").proportion_ci(0.95).high
    assert _upper_bound(share, 50) == pytest.approx(exact, rel=1e-9)


def test_the_upper_bound_of_nobody_is_nothing_and_of_all_below_one() -> None:
    assert _upper_bound(0.0, 50) == 0.0
    assert _upper_bound(1.0, 50) == _upper_bound(0.98, 50) < 1.0
    assert _upper_bound(1e-9, 50) == _upper_bound(0.02, 50)


def test_the_gap_is_the_median_lead_where_two_actions_are_known() -> None:
    unknown = np.nan
    means = np.array(
        [
            [0.1, 0.5, 0.2],
            [unknown, 0.4, 0.15],
            [unknown, unknown, 0.9],
            [0.3, 0.3, unknown],
            [unknown] * 3,
        ]
    )
    assert _median_gap(means) == pytest.approx(0.25)
    assert _median_gap(means[:2]) == pytest.approx(0.275)
    assert _median_gap(means[[2, 4]]) == 0.0


def judged(*rounds: dict[str, Any], **evidence: Any) -> tuple[float, float]:
    """Return the accused and the suspected of 100 users after some rounds."""
    weights = np.array([0.0] * 10 + [0.5] * 5 + [1.0] * 85)
    return _accused_and_suspected(
        Estimates(
            mean_rewards=np.zeros((1, 2)),
            sampling_errors=np.zeros((1, 2)),
            bias_bounds=np.zeros((1, 2)),
            context_probabilities=np.ones(1),
            frequent_contexts=np.ones(1, dtype=np.bool_),
            user_weights=weights,
            decided_by=np.array(["pooled mean"]),
            evidence={"removed": 0.0, "tastes": False, "rounds": list(rounds), **evidence},
        )
    )


def round_(accused: float, gain: float | None = 1000.0, **other: Any) -> dict[str, Any]:
    plain = {"stage": "mean", "opposite_gain": None, "verdict": "a taste"}
    return {**plain, "accused": accused, "gain": gain, **other}


def test_the_accused_are_those_who_lost_more_than_half_or_what_was_removed_in_all() -> None:
    assert judged() == (0.1, 0.0)
    assert judged(removed=0.125) == (0.125, 0.0)


def test_the_largest_accusation_that_was_not_believed_is_suspected() -> None:
    passed_over = (
        round_(0.31, verdict="discounted"),
        round_(0.32, gain=None),
        round_(0.33, stage="tastes"),
        round_(0.34, gain=1.0),
    )
    assert judged(*passed_over) == (0.1, 0.0)
    assert judged(*passed_over, round_(0.2), round_(0.25), round_(0.15)) == (0.1, 0.25)
    # Where good users differ, only the rounds that knew it count.
    assert judged(*passed_over, round_(0.2), tastes=True) == (0.1, 0.33)


def test_a_suspicion_needs_a_gain_per_accused_user_and_more_than_the_opposite_side() -> None:
    least = MEAN.clear_gain + CLEAR_ORIENTATION
    few = least / (SUSPICION * 100) / 2  # so few that the gain per user is no question
    assert judged(round_(few, gain=least))[1] == few
    assert judged(round_(few, gain=least - 1e-6))[1] == 0.0
    assert judged(round_(few, gain=least, opposite_gain=-50.0))[1] == few
    assert judged(round_(few, gain=least, opposite_gain=0.5))[1] == 0.0
    assert judged(round_(few, gain=least + LOPSIDED * 8.0, opposite_gain=8.0))[1] == few
    assert judged(round_(few, gain=least + LOPSIDED * 8.0 - 1e-6, opposite_gain=8.0))[1] == 0.0
    many = 2 * least / (SUSPICION * 100)
    assert judged(round_(many, gain=SUSPICION * many * 100))[1] == many
    assert judged(round_(many, gain=SUSPICION * many * 100 - 1e-6))[1] == 0.0


def log(
    rng: np.random.Generator, *, gap: float, noise: float, liars: int = 0, plays: int = 12
) -> Tallies:
    """Return the plays of 150 users; the first of two actions is the better one in two contexts."""
    users = np.repeat(np.arange(150), plays)
    contexts, actions = rng.integers(2, size=users.size), rng.integers(2, size=users.size)
    rewards = gap * (actions == 0) + noise * rng.standard_normal(users.size)
    rewards[users < liars] += 2 * gap * (2 * actions[users < liars] - 1)
    return tally(users, contexts, actions, rewards, n_users=150, n_contexts=2, n_actions=2)


@pytest.mark.parametrize(
    ("gap", "noise", "liars"),
    [(0.5, 0.2, 0), (0.5, 0.2, 60), (0.3, 0.6, 15), (0.1, 1.0, 0), (0.0, 0.0, 0)],
    ids=["clear", "many liars", "some liars", "noisy", "all equal"],
)
@pytest.mark.parametrize("is_sticky", [False, True])
def test_an_estimate_is_put_together_from_its_parts(
    gap: float, noise: float, liars: int, is_sticky: bool, rng: np.random.Generator
) -> None:
    tallies = log(rng, gap=gap, noise=noise, liars=liars)
    design = (sticky_design if is_sticky else uniform_design)(tallies)
    found = estimate_fraction(tallies, design)
    estimates = learn_discounted(tallies, design, adversarial_fraction=0.4)
    accused, suspected = _accused_and_suspected(estimates)
    assert (found.accused, found.suspected) == (accused, suspected)
    assert found.upper == _upper_bound(accused + suspected, 150)
    assert found.tastes == estimates.evidence["tastes"]
    means = np.sort(estimates.mean_rewards, axis=1)
    assert found.gap == pytest.approx((means[0, 1] - means[0, 0] + means[1, 1] - means[1, 0]) / 2)
    measured = measure_noise(clipped_responses(tallies), estimates.user_weights)
    deviation = math.sqrt(np.median(measured.variances))
    own = measured.mass.sum() / max(estimates.user_weights.sum(), 1.0)
    assert found.answers_per_user == pytest.approx(own)
    separation = 0.0
    if gap > 0:
        whole = max(1, round(own))
        separation = found.gap * math.sqrt(2 * whole / 2) / deviation
        assert found.hidden_from == smallest_swap_coalition(found.gap, whole, 2, noise=deviation)
    else:
        assert found.hidden_from is None
    shares = np.arange(1, 500) / 1000

    def seen(share: float, distance: float) -> bool:
        return bool(is_seen(np.array([share]), np.array([distance]), 150)[0])

    quiet = [share for share in shares if seen(share, separation)]
    assert found.allowance == pytest.approx(min(LARGEST_ALLOWANCE, quiet[0] if quiet else 1.0))
    unseen = [share for share in shares if not seen(share, separation / (2 * share))]
    assert found.seen_to == pytest.approx(unseen[0])
    assert found.chosen == min(max(found.upper + found.allowance, FLOOR), CEILING)


def test_a_user_who_played_once_is_worth_one_response(rng: np.random.Generator) -> None:
    tallies = log(rng, gap=0.5, noise=0.5, plays=1)
    found = estimate_fraction(tallies, uniform_design(tallies))
    assert found.answers_per_user == pytest.approx(1.0)
    weights = learn_discounted(
        tallies, uniform_design(tallies), adversarial_fraction=0.4
    ).user_weights
    noise = measure_noise(clipped_responses(tallies), weights)
    deviation = math.sqrt(np.median(noise.variances))
    assert found.hidden_from == smallest_swap_coalition(found.gap, 1, 2, noise=deviation)


def test_estimates_reach_the_floor_and_the_ceiling(rng: np.random.Generator) -> None:
    clear = log(rng, gap=0.5, noise=0.2)
    assert estimate_fraction(clear, uniform_design(clear)).chosen == FLOOR
    turned = log(rng, gap=0.5, noise=0.2, liars=65)
    assert estimate_fraction(turned, uniform_design(turned)).chosen == CEILING


def test_a_share_or_auto_is_taken_and_a_wrong_one_named() -> None:
    assert [check_fraction_or_auto(value) for value in ("auto", "0.2", 0, 0.3)] == [
        *("auto", 0.2, 0.0, 0.3),
    ]
    assert refusal(check_fraction_or_auto, "few", name="the share") == (
        "the share is 'few': give a number below 0.5, or auto."
    )
    assert refusal(check_fraction_or_auto, 0.5, name="the share").startswith("the share is 0.5: ")
