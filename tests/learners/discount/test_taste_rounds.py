"""Rounds of accusations among users with tastes, each step by itself."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.small import grid_of, in_blocks
from unswayed.learners.discount.responses.noise import measure_noise
from unswayed.learners.discount.responses.residuals import residuals_of
from unswayed.learners.discount.settings import TASTES
from unswayed.learners.discount.tastes import rounds
from unswayed.learners.discount.tastes.populations import (
    Populations,
    fit_populations,
    search_populations,
)
from unswayed.learners.discount.tastes.profiles import profiler_for, without_coalition
from unswayed.learners.discount.trial.aims import alignment, pooled_means, stake
from unswayed.learners.discount.trial.verdicts import Verdict
from unswayed.policy import best_known
from unswayed.randomness import generator

N_USERS = 150


@pytest.fixture
def tasted(rng: np.random.Generator) -> Any:
    """Return users with tastes of whom a fifth pushes the second action of every context."""
    likes, loadings = rng.standard_normal(N_USERS), rng.standard_normal((8, 4))
    means = likes[:, None, None] * loadings + 0.5 * rng.standard_normal((N_USERS, 8, 4))
    means[:, :, 0] += 0.3
    means[:30, :, 1] += 4.0
    responses = grid_of(means)
    weights = np.ones(N_USERS)
    noise = measure_noise(responses, weights)
    data = residuals_of(responses, weights, noise, np.float64)
    return SimpleNamespace(
        responses=responses,
        noise=noise,
        data=data,
        profiler=profiler_for(data, noise.means, generator(1)),
    )


def candidates_by_hand(data: Any, tasted: Any, alpha: float, is_first: bool, rng: Any) -> Any:
    profiles = tasted.profiler.of(data)
    fits = search_populations(
        profiles,
        data.weights,
        n_tastes=tasted.profiler.n_tastes,
        adversarial_fraction=alpha,
        largest_mass=1.25 * alpha,
        rng=rng,
    )
    fits = rounds._with_more_room(profiles, data.weights, fits, 1.25 * alpha, alpha)
    largest = 1.1 * min(0.45, 2.5 * alpha) if is_first else 1.1 * alpha + 0.02
    standing = best_known(pooled_means(data.responses, data.weights))
    found = []
    for fit in fits:
        after = data.weights * (1.0 - fit.probabilities)
        aligned = alignment(
            data.responses,
            tasted.noise,
            data.weights,
            fit.probabilities,
            standing=standing,
            proposed=best_known(pooled_means(data.responses, after)),
        )
        is_too_many = 1.0 - after.mean() > largest or (
            fit.mass > 1.1 * 1.25 * alpha and aligned < 4.5
        )
        found.append(
            (
                fit.gain,
                fit.alikeness < 1.0,
                aligned,
                1.0 - after.mean(),
                stake(data.responses, standing, after),
                Verdict.TOO_MANY if is_too_many else None,
            )
        )
    return found


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("alpha", [0.08, 0.2])
def test_splits_among_tastes_pass_the_tests_that_need_no_null(
    tasted: Any, is_first: bool, alpha: float
) -> None:
    found = rounds._candidates(
        tasted.data, tasted.noise, tasted.profiler, alpha, is_first=is_first, rng=generator(3)
    )
    expected = candidates_by_hand(tasted.data, tasted, alpha, is_first, generator(3))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert (one.found.gain, one.is_alike) == other[:2]
        assert (one.alignment, one.removed, one.stake) == pytest.approx(other[2:5])
        assert one.verdict == other[5]


@pytest.mark.parametrize("alpha", [0.08, 0.37])
def test_splits_at_their_limit_are_fitted_again_with_more_room(
    rng: np.random.Generator, alpha: float
) -> None:
    profiles, weights, limit = rng.standard_normal((80, 3)), np.ones(80), 1.25 * alpha
    given: dict[str, Any] = {"may_be_alike": False, "n_steps": 5, "largest_mass": limit}
    one = fit_populations(profiles, weights, rng.random(80), **given)

    def fit(mass: float, alikeness: float = 1.0) -> Populations:
        return replace(one, mass=mass * limit, alikeness=alikeness)

    within, full, over = fit(0.95), fit(1.0), fit(1.11)
    alike, alike_over = fit(0.949, 0.5), fit(0.951, 0.5)
    found = rounds._with_more_room(
        profiles, weights, [within, full, over, alike, alike_over], limit, alpha
    )
    assert found[:3] == [within, full, alike]
    if alpha == 0.37:  # more room than that there is not
        assert len(found) == 3
        return
    again = fit_populations(
        profiles, weights, one.probabilities, largest_mass=0.2, may_be_alike=False, n_steps=40
    )
    assert [fit.gain for fit in found[3:]] == [again.gain] * 2


def test_nulls_among_tastes_are_searched_as_long_as_anything_stands(
    tasted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crowds are drawn in turn, and the largest gains of each kind are kept."""
    made: list[Any] = []

    def candidates(drawn: Any, *_: Any, **__: Any) -> list[Any]:
        made.append(drawn)
        gain = 5.0 * len(made)
        some = [(gain, False, None), (gain + 1.0, True, None), (99.0, False, Verdict.TOO_MANY)]
        return [
            SimpleNamespace(found=SimpleNamespace(gain=g), is_alike=alike, verdict=verdict)
            for g, alike, verdict in some
        ]

    monkeypatch.setattr(rounds, "_candidates", candidates)

    def gains(gain: float, *, is_alike: bool = False) -> dict[bool, float]:
        made.clear()
        untested: Any = [SimpleNamespace(found=SimpleNamespace(gain=gain), is_alike=is_alike)]
        return rounds._null_gains(
            tasted.data,
            tasted.noise,
            tasted.profiler,
            0.2,
            is_first=True,
            untested=untested,
            rng=generator(4),
        )

    assert gains(1000.0) == {False: 20.0, True: 21.0}
    assert len(made) == TASTES.nulls == 4
    drawn = without_coalition(tasted.data, tasted.profiler.tastes, generator(4))
    assert_array_equal(made[0].residuals, drawn.residuals)
    cells = tasted.responses.cells
    means = tasted.noise.means[cells] + tasted.data.deviations[cells] * drawn.residuals
    assert_allclose(made[0].responses.means, means)
    assert gains(17.5) == {False: 5.0, True: 6.0}  # 1.5 · 5 + 10 is what it takes
    assert len(made) == 1
    assert gains(10.0) == {False: 0.0, True: 0.0}
    assert gains(24.0, is_alike=True) == {False: 10.0, True: 11.0}


def test_a_coalition_among_tastes_is_discounted_in_a_sample_and_in_all(
    tasted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = in_blocks(tasted.responses, 70)
    start = np.full(N_USERS, 0.8)
    found = rounds.discount_among_tastes(
        everybody, start, adversarial_fraction=0.25, rng=generator(0)
    )
    assert found.allows_tastes is True
    first = found.rounds[0]
    assert first.stage == "tastes"
    assert first.is_accepted
    assert found.weights[:30].mean() < 0.1
    assert found.weights[30:].mean() > 0.7
    (own,) = generator(0).spawn(1)
    again = rounds._search(tasted.responses, start, 0.25, True, own)
    assert again is not None
    assert again.round == first
    accused = rounds._accused(tasted.responses, start, again.noise, again.profiler, again.split)
    assert_allclose(accused, again.split.probabilities, atol=1e-9)
    monkeypatch.setattr(rounds, "SAMPLE_ENTRIES", 100 * 32)
    sampled = rounds.discount_among_tastes(
        everybody, start, adversarial_fraction=0.25, rng=generator(0)
    )
    assert len(sampled.weights) == N_USERS
    assert sampled.weights[:30].mean() < 0.2
    assert sampled.weights[30:].mean() > 0.7
