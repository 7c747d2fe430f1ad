"""One loud coalition, step by step: members, what they say, and how loud it is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.small import CLICKS, indptr_of, random_counts, stars
from unswayed.arrays import FloatArray
from unswayed.learners.discount.loud import rounds
from unswayed.learners.discount.loud.class_counts import (
    ClassCounts,
    Counts,
    classes_by_action,
    classes_by_role,
    counts_by_class,
)
from unswayed.learners.discount.loud.coalition import (
    Coalition,
    Lie,
    accused_by,
    activity_bins,
    fit_coalition,
    judged_by,
    loudness,
    refined,
    search_coalitions,
    usual_law,
)
from unswayed.learners.discount.loud.honest import Fit, fit_honest, without_coalition
from unswayed.learners.discount.responses.categories import Categories
from unswayed.randomness import generator

N_USERS = 60


def lied_counts(rng: np.random.Generator, categories: Categories) -> Counts:
    """Return counts in which nine users always give the second action the highest category."""
    counts = random_counts(rng, n_users=N_USERS, n_categories=categories.n)
    users = np.repeat(np.arange(N_USERS), np.diff(counts.indptr))
    cells, highest = counts.keys // categories.n, categories.n - 1
    is_lie = (users < 9) & (cells % 2 == 1)
    keys = np.where(is_lie, cells * categories.n + highest, counts.keys)
    dense = np.zeros((N_USERS, 6 * categories.n))
    np.add.at(dense, (users, keys), counts.counts)
    users, keys = np.nonzero(dense)
    return replace(
        counts,
        indptr=indptr_of(users, N_USERS),
        keys=keys.astype(np.int32),
        counts=dense[users, keys],
    )


class Case(SimpleNamespace):
    """Counts by class, the honest model and weights."""

    counts: Counts
    data: ClassCounts
    honest: Fit
    weights: FloatArray
    categories: Categories


@pytest.fixture(params=["clicks", "stars"])
def case(request: pytest.FixtureRequest, rng: np.random.Generator) -> Case:
    categories = CLICKS if request.param == "clicks" else stars()
    counts, weights = lied_counts(rng, categories), 0.3 + 0.7 * rng.random(N_USERS)
    data = counts_by_class(counts, classes_by_action(counts), 8.0)
    honest = fit_honest(data, categories, weights, n_steps=3)
    return Case(counts=counts, data=data, honest=honest, weights=weights, categories=categories)


def lie_about(case: Case, about: int = 1) -> Lie:
    law = np.arange(1.0, case.categories.n + 1.0)
    levels = np.linspace(1.0, 2.0, len(case.honest.model.levels))
    return Lie(about, law / law.sum(), levels / levels.sum(), np.array([0.05, 0.1, 0.2, 0.9, 0.0]))


def membership_by_hand(case: Case, lie: Lie) -> list[tuple[int, float, float, float]]:
    """Return user, log-ratio, log-likelihood and posterior of every run of the class."""
    found = []
    for run in case.data.runs_of(lie.about):
        user = case.data.run_users[run]
        said = case.data.by_category[run] @ np.log(lie.law)
        ratio = said + np.log(case.honest.others[run] @ lie.levels) - case.honest.of_runs[run]
        ratio = min(ratio, 300.0)
        place = min(int(np.log2(max(case.counts.activity[user], 1.0))), len(lie.prior) - 1)
        share = min(max(lie.prior[place], 1e-6), 0.5)
        odds = share * np.exp(ratio)
        found.append((user, ratio, np.log(1.0 - share + odds), odds / (1.0 - share + odds)))
    return found


def fit_by_hand(case: Case, lie: Lie, largest: float, n_steps: int) -> Coalition:
    runs, total = case.data.runs_of(lie.about), case.weights.sum()
    n_bins = len(lie.prior)
    for _ in range(n_steps):
        judged = membership_by_hand(case, lie)
        users = np.array([row[0] for row in judged])
        ratios, likelihoods, probabilities = np.array([row[1:] for row in judged]).T
        w = case.weights[users]
        law = np.full(case.categories.n, 0.02)
        levels = 10.0 * case.honest.model.levels
        by_activity, here = np.zeros((2, n_bins))
        for run, user, probability in zip(runs, users, probabilities, strict=True):
            member = case.weights[user] * probability
            law = law + member * case.data.by_category[run]
            own = case.honest.others[run] * lie.levels
            levels = levels + member * own / own.sum()
            place = min(int(np.log2(max(case.counts.activity[user], 1.0))), n_bins - 1)
            by_activity[place] += member
            here[place] += case.weights[user]
        mass = by_activity.sum() / total
        prior = (by_activity + 10.0 * by_activity.sum() / here.sum()) / (here + 10.0)
        if mass > largest:
            prior = prior * largest / mass
        lie = Lie(lie.about, law / law.sum(), levels / levels.sum(), prior)
    return Coalition(lie, mass, float(w @ likelihoods), users, ratios, probabilities)


def assert_same(found: Coalition, expected: Coalition) -> None:
    assert found.lie.about == expected.lie.about
    for one, other in zip(found.lie[1:], expected.lie[1:], strict=True):
        assert_allclose(one, other, rtol=1e-7)
    assert found.mass == pytest.approx(expected.mass)
    assert found.gain == pytest.approx(expected.gain, abs=1e-9)
    assert_array_equal(found.users, expected.users)
    assert_allclose(found.ratios, expected.ratios, rtol=1e-7, atol=1e-9)
    assert_allclose(found.probabilities, expected.probabilities, rtol=1e-7)


@pytest.mark.parametrize("n_steps", [1, 4])
@pytest.mark.parametrize("largest", [0.05, 0.3])
def test_members_and_what_they_say_are_fitted_by_em(
    case: Case, n_steps: int, largest: float
) -> None:
    lie = lie_about(case)
    found = fit_coalition(case.data, case.honest, case.weights, lie, largest, n_steps)
    assert_same(found, fit_by_hand(case, lie, largest, n_steps))
    assert found.mass != pytest.approx(largest)


def test_users_are_judged_by_a_lie_that_was_found_elsewhere(case: Case) -> None:
    lie = lie_about(case)
    users, ratios, probabilities = judged_by(case.data, case.honest, lie)
    expected = membership_by_hand(case, lie)
    assert_array_equal(users, [row[0] for row in expected])
    assert_allclose(ratios, [row[1] for row in expected])
    assert_allclose(probabilities, [row[3] for row in expected])
    accused = np.zeros(N_USERS)
    for user, ratio, _, probability in expected:
        accused[user] = probability if ratio > 0.0 else 0.0
    assert_allclose(accused_by(case.data, case.honest, lie), accused)
    assert (accused > 0).any()
    assert (accused == 0).any()


def test_log_ratios_are_cut_before_they_overflow(case: Case) -> None:
    certain = replace_of_runs(case.honest, -5000.0)
    _, ratios, probabilities = judged_by(case.data, certain, lie_about(case))
    assert ratios.tolist() == [300.0] * len(ratios)
    assert (probabilities > 0.99).all()


def replace_of_runs(honest: Fit, value: float) -> Fit:
    return honest._replace(of_runs=np.full(len(honest.of_runs), value))


def test_activity_is_binned_by_powers_of_two() -> None:
    plays = np.array([0.0, 1.0, 1.9, 2.0, 3.0, 4.0, 100.0, 1e9])
    assert activity_bins(plays, 5).tolist() == [0, 0, 0, 1, 1, 2, 4, 4]


def test_every_class_is_searched_from_tilts_both_ways(case: Case) -> None:
    found = search_coalitions(case.data, case.categories, case.honest, case.weights, 0.2)
    n_bins = int(np.log2(case.counts.activity.max())) + 1
    tilts = (6.0, 3.5) if case.categories is CLICKS else (3.0,)
    short = []
    for about in range(2):
        usual = case.data.by_category[case.data.runs_of(about)].sum(axis=0) + 0.5
        for sign in (1.0, -1.0):
            for tilt in tilts:
                law = usual * np.exp(sign * tilt * case.categories.scores)
                start = Lie(about, law / law.sum(), case.honest.model.levels, np.full(n_bins, 0.05))
                short.append(fit_by_hand(case, start, 0.25, 5))
    short.sort(key=lambda one: -one.gain)
    expected = [fit_by_hand(case, one.lie, 0.25, 20) for one in short[:8]]
    expected.sort(key=lambda one: -one.gain)
    assert len(found) == len(expected) == min(8, 4 * len(tilts))
    assert [one.gain for one in found] == pytest.approx([one.gain for one in expected], abs=1e-6)
    assert_same(found[0], expected[0])


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_coalition_and_honest_model_are_fitted_in_turn(case: Case, alpha: float) -> None:
    first = search_coalitions(case.data, case.categories, case.honest, case.weights, alpha)[0]
    found, without = refined(case.data, case.categories, case.honest, case.weights, first, alpha)
    one, fit = first, case.honest
    accused = (first.accused(N_USERS) > 0.0).astype(float)
    for n_passes in (2, 2, 2, 2, 1, 1, 1, 1, 1, 1):
        left = case.weights * (1.0 - accused)
        fit = fit_honest(case.data, case.categories, left, start=fit.model, n_steps=n_passes)
        before = one.mass
        one = fit_coalition(
            case.data, fit, case.weights, one.lie, min(0.45, 2.5 * alpha), n_steps=3
        )
        accused = one.accused(N_USERS)
        if abs(one.mass - before) < 0.002 * before:
            break
    gain = one.gain + fit.log_likelihood - case.honest.log_likelihood
    assert_same(found, replace(one, gain=gain))
    assert without.log_likelihood == fit.log_likelihood


def test_loudness_is_the_tilt_with_the_same_mean_score() -> None:
    scores, usual = np.array([-1.0, 0.0, 1.0]), np.array([0.3, 0.5, 0.2])
    for tilt in (-2.0, 0.7, 3.0):
        law = usual * np.exp(tilt * scores)
        found = loudness(law / law.sum(), usual, scores)
        assert found == pytest.approx(tilt, abs=1e-9)
    highest = loudness(np.array([0.0, 0.0, 1.0]), usual, scores)
    assert highest == pytest.approx(12.0, abs=1e-9)
    lowest = loudness(np.array([1.0, 0.0, 0.0]), usual, scores)
    assert lowest == -12.0


def test_the_usual_law_is_what_all_others_say(case: Case) -> None:
    found = fit_coalition(case.data, case.honest, case.weights, lie_about(case), 0.3, 3)
    kept = case.weights * (1.0 - found.accused(N_USERS))
    law = np.full(case.categories.n, 0.5)
    for run in case.data.runs_of(1):
        law = law + kept[case.data.run_users[run]] * case.data.by_category[run]
    assert_allclose(usual_law(case.data, found, case.weights), law / law.sum())
    expected = loudness(found.lie.law, law / law.sum(), case.categories.scores)
    tilt = rounds._loudness(case.data, case.categories, case.weights, found)
    assert tilt == pytest.approx(expected)


def test_classes_are_actions_or_ranks_under_the_present_weights(case: Case) -> None:
    by_action = rounds._by_class(case.counts, case.categories, case.weights, True)
    assert_array_equal(by_action.classes, classes_by_action(case.counts))
    assert_allclose(by_action.by_category, case.data.by_category)
    by_role = rounds._by_class(case.counts, case.categories, case.weights, False)
    roles = classes_by_role(case.counts, case.categories.values, case.weights)
    assert_array_equal(by_role.classes, roles)


def test_a_null_is_the_same_search_among_honest_users(case: Case) -> None:
    found = search_coalitions(case.data, case.categories, case.honest, case.weights, 0.2)[0]
    first = rounds._First(case.data, case.honest, True, found)
    gain = rounds._null_gain(case.counts, case.categories, case.weights, 0.2, first, generator(4))
    drawn = without_coalition(case.counts, case.data.classes, case.honest, generator(4))
    data = counts_by_class(drawn, classes_by_action(drawn), 8.0)
    honest = fit_honest(data, case.categories, case.weights, start=case.honest.model, n_steps=5)
    expected = search_coalitions(data, case.categories, honest, case.weights, 0.2)[0].gain
    assert gain == pytest.approx(expected, abs=1e-9)


def test_first_looks_keep_loud_candidates_and_the_model_for_the_next_round(case: Case) -> None:
    last: dict[bool, Any] = {}
    found = rounds._first_looks(case.counts, case.categories, case.weights, 0.2, True, last)
    data = counts_by_class(case.counts, classes_by_action(case.counts), 8.0)
    honest = fit_honest(data, case.categories, case.weights)
    assert_allclose(last[True].levels, honest.model.levels)
    kept: list[tuple[int, bool]] = []
    gains = []
    for one in search_coalitions(data, case.categories, honest, case.weights, 0.2):
        tilt = rounds._loudness(data, case.categories, case.weights, one)
        key = (one.lie.about, tilt > 0)
        is_loud = abs(tilt) >= 0.6 * honest.model.grid.strongest_taste
        if one.gain >= 10.0 and is_loud and len(kept) < 2 and key not in kept:
            kept.append(key)
            gains.append(one.gain)
    assert [first.found.gain for first in found] == pytest.approx(gains)
    assert all(first.is_by_action for first in found)
    # A later round begins at the model of the last one, with three steps.
    again = rounds._first_looks(case.counts, case.categories, 0.5 * case.weights, 0.2, True, last)
    later = fit_honest(data, case.categories, 0.5 * case.weights, start=honest.model, n_steps=3)
    assert_allclose(last[True].levels, later.model.levels)
    assert len(again) <= 2
