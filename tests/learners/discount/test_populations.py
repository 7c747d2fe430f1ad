"""Two populations of profiles: EM against plain formulas, starts, and which fits are different."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from unswayed.arrays import FloatArray
from unswayed.learners.discount.tastes import populations
from unswayed.learners.discount.tastes.populations import (
    Populations,
    agreement,
    fit_populations,
    search_populations,
)
from unswayed.randomness import generator


def crowd(rng: np.random.Generator, n: int = 300, shift: float = 2.0) -> FloatArray:
    """Return profiles of three numbers; a fifth of the users is shifted and more alike."""
    profiles: FloatArray = rng.standard_normal((n, 3)) @ np.array(
        [[1.0, 0.4, 0.0], [0, 1, 0.2], [0, 0, 1]]
    )
    profiles[: n // 5] = 0.5 * profiles[: n // 5] + shift
    return profiles


def fit_by_hand(
    y: FloatArray, w: FloatArray, start: FloatArray, *, largest: float, alike: bool, n_steps: int
) -> dict[str, Any]:
    """Return what EM finds, by densities of normal laws."""
    n, d = y.shape
    smallest = 2.0 / max(n, 4)
    gammas, kappa = w * start, 1.0
    log_odds = float(special.logit(np.clip(gammas.sum() / w.sum(), smallest, largest)))
    for step in range(n_steps):
        coalition = np.average(y, axis=0, weights=gammas)
        good = np.average(y, axis=0, weights=w - gammas)
        inside = ((y - coalition).T * gammas) @ (y - coalition)
        outside = ((y - good).T * (w - gammas)) @ (y - good)
        covariance = (outside + inside / kappa) / w.sum() + 1e-6 * np.eye(d)
        if alike:
            spread = np.trace(np.linalg.solve(covariance, inside))
            kappa = float(np.clip(spread / (d * gammas.sum()), 0.03, 1.0))
        of_good = stats.multivariate_normal(good, covariance).logpdf(y)
        of_coalition = stats.multivariate_normal(coalition, kappa * covariance).logpdf(y)
        ratios = np.clip(of_coalition - of_good, -600.0, 600.0)
        before, last = log_odds, gammas
        gammas = w * special.expit(log_odds + ratios)
        share = gammas.sum() / w.sum()
        if share > largest:
            log_odds -= np.log(share / largest)
        else:
            log_odds = float(special.logit(max(share, smallest)))
        if step >= 4 and np.abs(gammas - last).sum() < 1e-3 * gammas.sum():
            break
    prior = special.expit(log_odds)
    second = w @ (of_good + np.logaddexp(np.log1p(-prior), np.log(prior) + ratios))
    centre = np.average(y, axis=0, weights=w)
    one = ((y - centre).T * w) @ (y - centre) / w.sum() + 1e-6 * np.eye(d)
    first = -0.5 * w.sum() * (d + np.linalg.slogdet(2.0 * np.pi * one)[1])
    return {
        "good": good,
        "coalition": coalition,
        "inverse": np.linalg.inv(covariance),
        "alikeness": kappa,
        "log_odds": before,
        "probabilities": special.expit(before + ratios),
        "mass": share,
        "gain": second - first,
    }


@pytest.mark.parametrize("n_steps", [1, 2, 5, 6, 40])
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize(("largest", "shift"), [(0.25, 2.0), (0.1, 2.0), (0.25, 0.3)])
def test_a_fit_is_em_with_two_normal_laws(
    rng: np.random.Generator, n_steps: int, alike: bool, largest: float, shift: float
) -> None:
    profiles, weights = crowd(rng, shift=shift), rng.random(300)
    weights[7] = 0.0
    start = np.where(np.arange(300) < 70, 0.8, 0.05)
    found = fit_populations(
        profiles, weights, start, largest_mass=largest, may_be_alike=alike, n_steps=n_steps
    )
    expected = fit_by_hand(profiles, weights, start, largest=largest, alike=alike, n_steps=n_steps)
    assert_allclose(found.good, expected["good"], rtol=1e-6, atol=1e-9)
    assert_allclose(found.coalition, expected["coalition"], rtol=1e-6, atol=1e-9)
    assert_allclose(found.root @ found.root.T, expected["inverse"], rtol=1e-6, atol=1e-9)
    assert_allclose(found.probabilities, expected["probabilities"], rtol=1e-6, atol=1e-9)
    for name in ("alikeness", "log_odds", "mass", "gain"):
        assert getattr(found, name) == pytest.approx(expected[name], rel=1e-6, abs=1e-6), name
    assert_allclose(found.accuse(profiles), found.probabilities, rtol=1e-9)
    assert_array_equal(np.tril(found.root), found.root)


def test_nobody_and_everybody_have_a_share_within_limits(rng: np.random.Generator) -> None:
    """Shares begin between two users and the largest mass."""
    profiles, ones = crowd(rng), np.ones(300)
    given: dict[str, Any] = {"largest_mass": 0.25, "may_be_alike": False, "n_steps": 1}
    most = fit_populations(profiles, ones, np.full(300, 0.9), **given)
    assert most.log_odds == pytest.approx(special.logit(0.25))
    few = fit_populations(profiles, ones, np.full(300, 1e-4), **given)
    assert few.log_odds == pytest.approx(special.logit(2.0 / 300))


def made_up(probabilities: list[float], gain: float = 0.0) -> Populations:
    return Populations(
        good=np.zeros(1),
        coalition=np.ones(1),
        root=np.eye(1),
        alikeness=1.0,
        log_odds=0.0,
        probabilities=np.array(probabilities),
        mass=0.1,
        gain=gain,
    )


def test_agreement_is_a_correlation_and_none_with_who_accuses_all_alike() -> None:
    one, other = made_up([0.0, 0.5, 1.0, 0.2]), made_up([0.3, 0.1, 0.9, 0.9])
    expected = np.corrcoef(one.probabilities, other.probabilities)[0, 1]
    assert agreement(one, other) == pytest.approx(expected)
    assert agreement(one, made_up([0.4] * 4)) == 0.0


def test_of_fits_that_are_alike_the_first_goes_on_and_eight_at_most(
    rng: np.random.Generator,
) -> None:
    first, second = made_up([0.0, 0.5, 1.0, 0.2]), made_up([0.3, 0.1, 0.9, 0.9])
    same = made_up([0.1, 0.5, 0.9, 0.2])
    assert populations._different([first, same, second, first]) == [first, second]
    many = [made_up(list(rng.random(200))) for _ in range(12)]
    assert populations._different(many) == many[:8]


def test_white_profiles_are_skewed_where_third_moments_are_largest(
    rng: np.random.Generator,
) -> None:
    """Every direction is a fixed point of u ← Σ w·(u·y)²·y, and no two are nearly the same."""
    white, weights = rng.standard_exponential((2000, 3)) - 1.0, rng.random(2000)
    white[:3] = 50.0
    found = populations._skewed(white, weights, generator(1))
    length = np.sqrt((white**2).mean(axis=1))
    calm = white * np.minimum(1.0, 4.0 / length)[:, None]
    expected = generator(1).standard_normal((3, 12))
    for _ in range(30):
        expected /= np.linalg.norm(expected, axis=0)
        expected = np.einsum("i,ia,ic->ac", weights, calm, (calm @ expected) ** 2)
    expected /= np.linalg.norm(expected, axis=0)
    kept: list[FloatArray] = []
    for direction in expected.T:
        if all(abs(direction @ other) < 0.95 for other in kept):
            kept.append(direction)
    assert_allclose(found, np.stack(kept, axis=1), atol=1e-9)
    assert 1 <= found.shape[1] <= 12


@pytest.mark.parametrize("n_tastes", [1, 2])
def test_users_are_measured_along_skews_numbers_winners_and_nearness(
    rng: np.random.Generator, n_tastes: int
) -> None:
    profiles, weights = crowd(rng), rng.random(300)
    found = populations._directions(profiles, weights, n_tastes, generator(2))
    centre = np.average(profiles, axis=0, weights=weights)
    covariance = ((profiles - centre) * weights[:, None]).T @ (profiles - centre) / weights.sum()
    variances, axes = np.linalg.eigh(covariance)
    white = (profiles - centre) @ (axes / np.sqrt(variances))
    skewed = white @ populations._skewed(white, weights, generator(2))
    measures = [*skewed.T, *profiles.T]
    if n_tastes == 1:  # a winner and a runner-up stand behind the one taste
        measures.append(profiles[:, 1] - profiles[:, 2])
    expected = [sign * measure for measure in measures for sign in (1.0, -1.0)]
    assert len(found) == len(expected) + 1
    for one, other in zip(found[:-1], expected, strict=True):
        assert_allclose(one, other, atol=1e-4)
    assert_allclose(found[-1], -np.square(white).sum(axis=1), rtol=1e-6)


def test_a_search_fits_both_kinds_from_every_start_and_the_different_ones_for_long(
    rng: np.random.Generator,
) -> None:
    profiles, weights = crowd(rng, n=200), np.where(rng.random(200) < 0.1, 0.4, 1.0)
    found = search_populations(
        profiles,
        weights,
        n_tastes=1,
        adversarial_fraction=0.2,
        largest_mass=0.25,
        rng=generator(5),
    )
    is_kept = weights > 0.5
    starts = []
    for along in populations._directions(profiles, weights, 1, generator(5)):
        suspects = is_kept & (along > np.quantile(along[is_kept], 0.8))
        starts.append(suspects.astype(float))
    expected: list[Populations] = []
    for alike in (False, True):
        given: dict[str, Any] = {"largest_mass": 0.25, "may_be_alike": alike}
        short = [fit_populations(profiles, weights, s, n_steps=8, **given) for s in starts]
        short.sort(key=lambda fit: -fit.gain)
        expected += [
            fit_populations(profiles, weights, fit.probabilities, n_steps=40, **given)
            for fit in populations._different(short)
        ]
    assert [fit.gain for fit in found] == [fit.gain for fit in expected]
    assert {fit.alikeness < 1.0 for fit in found} == {False, True}


def test_a_start_accuses_four_users_at_least(rng: np.random.Generator) -> None:
    profiles = crowd(rng, n=30)
    given: dict[str, Any] = {"n_tastes": 1, "largest_mass": 0.25, "rng": generator(5)}
    assert not search_populations(profiles, np.ones(30), adversarial_fraction=0.1, **given)
    assert search_populations(profiles, np.ones(30), adversarial_fraction=0.134, **given)


def test_certain_members_stay_within_the_range_of_numbers(rng: np.random.Generator) -> None:
    profiles = crowd(rng)
    found = fit_populations(
        profiles, np.ones(300), np.ones(300) * 0.2, largest_mass=0.25, may_be_alike=False, n_steps=1
    )
    far = replace(found, coalition=found.good + 1e6)
    assert_allclose(np.log(far.accuse(profiles[:2])), far.log_odds - 600.0)
    assert far.accuse(np.full((1, 3), 1e6)).tolist() == [1.0]
