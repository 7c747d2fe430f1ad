"""Scores by quantum entropy: the law that is fitted to them, and the density matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from unswayed.arrays import FloatArray
from unswayed.estimators import quantum_entropy_mean, spectral_filter
from unswayed.estimators.quantum_entropy import _EntropyScore, _fit_chi_squared, exponential_times
from unswayed.estimators.rows import as_rows
from unswayed.estimators.spectral_filter import Look, _look, _tail_score, prune
from unswayed.estimators.spectrum import WeightedRows
from unswayed.estimators.tails import kept_shares, weighted_quantile
from unswayed.randomness import generator


@pytest.mark.parametrize("dof", [1.0, 3.0, 40.0])
def test_a_chi_squared_law_is_found_from_its_quartiles(dof: float) -> None:
    scores = 2.5 * stats.chi2.ppf((np.arange(4000) + 0.5) / 4000, dof)
    scores[-500:] = 1e6  # the lower half decides
    mean, found = _fit_chi_squared(scores, np.ones(4000))
    assert found == pytest.approx(dof, rel=0.01)
    assert mean == pytest.approx(2.5 * dof, rel=0.01)


def test_scores_that_no_chi_squared_law_has_get_the_nearest_one() -> None:
    mean, dof = _fit_chi_squared(np.full(9, 3.0), np.ones(9))
    assert dof == pytest.approx(1e4, rel=1e-6)
    assert mean == pytest.approx(3.0 * 1e4 / stats.chi2.median(1e4), rel=1e-6)
    mean, dof = _fit_chi_squared(np.array([0.0, 0.0, 3.0, 3.0]), np.array([1.0, 1.0, 1.0, 2.0]))
    assert dof == pytest.approx(0.5, rel=1e-6)
    assert mean == pytest.approx(3.0 * 0.5 / stats.chi2.median(0.5), rel=1e-6)
    assert _fit_chi_squared(np.array([0.0, 0.0, 5.0]), np.ones(3)) == (0.0, 1.0)


def entropy_look(array: FloatArray, weights: FloatArray) -> Look:
    sample = WeightedRows.centred(as_rows(array), weights)
    return _look(sample, None, alpha=0.1, noise_scale=None)


def test_an_epoch_adds_up_four_rounds_and_ends_with_a_halved_eigenvalue(
    rng: np.random.Generator,
) -> None:
    array = rng.standard_normal((60, 4))
    look = entropy_look(array, np.full(60, 0.5))
    score = _EntropyScore(0)
    for n_rounds in (1, 2, 3, 4, 1, 2):
        score(look)
        assert score.n_rounds == n_rounds
        assert score.past_weights is not None
        np.testing.assert_allclose(score.past_weights, n_rounds / 60.0)
        assert score.first_eigenvalue == look.eigenvalue
    calmer = entropy_look(0.72 * array, np.full(60, 0.5))  # .72² is just more than a half
    score(calmer)
    assert (score.n_rounds, score.first_eigenvalue) == (3, look.eigenvalue)
    calm = entropy_look(0.7 * array, np.full(60, 0.5))
    score(calm)
    assert (score.n_rounds, score.first_eigenvalue) == (1, calm.eigenvalue)


@pytest.mark.parametrize("n_columns", [1, 2, 30])
def test_scores_are_squared_lengths_under_the_density_matrix(
    n_columns: int, rng: np.random.Generator
) -> None:
    """With exponent (log d)·rounds for the root, over the first eigenvalue and a margin of 5 %."""
    array, weights = rng.standard_normal((100, n_columns)), rng.random(100)
    array[:9] += 5.0
    look = entropy_look(array, weights)
    score = _EntropyScore(3)
    for n_rounds in (1, 2):
        found = score(look)
        sketch = generator(3, "quantum entropy").standard_normal((n_columns, min(16, n_columns)))
        root = exponential_times(
            look.sample,
            sketch,
            top=1.05 * look.eigenvalue,
            exponent=math.log(max(n_columns, 2)) * n_rounds,
        )
        root /= np.sqrt(np.square(root).sum())
        along = (array - look.sample.centre) @ root
        along -= [weighted_quantile(column, weights, 0.5) for column in along.T]
        scores = np.square(along).sum(axis=1)
        mean, dof = _fit_chi_squared(scores, weights)
        mean = max(mean, look.noise.limit(np.square(root).sum(axis=1)))
        np.testing.assert_allclose(found.deviations, np.sqrt(scores / mean), rtol=1e-6)
        tails = special.gammaincc(dof / 2.0, scores * dof / (2.0 * mean))
        np.testing.assert_allclose(
            found.shares, kept_shares(scores, weights, tails), rtol=1e-6, atol=1e-12
        )


def test_without_honest_spread_every_row_that_differs_is_removed() -> None:
    array = np.zeros((50, 3))
    array[0], array[1] = 1.0, -1.0  # the centre stays where the others are
    look = entropy_look(array, np.ones(50))
    found = _EntropyScore(0)(look)
    assert look.noise.limit(np.full(3, 1 / 3)) == 0.0
    assert found.shares.tolist() == [0.0] * 2 + [1.0] * 48
    assert found.deviations.tolist() == [np.inf] * 2 + [0.0] * 48


def test_the_seed_and_the_options_reach_the_rounds(rng: np.random.Generator) -> None:
    array = rng.standard_normal((300, 40))
    array[:40, :20] += 1.5
    weights = rng.random(300)
    for estimator, score in (
        (spectral_filter, _tail_score),
        (quantum_entropy_mean, _EntropyScore(0)),
    ):
        options: dict[str, Any] = {"noise_scale": 0.9, "row_weights": weights, "max_iterations": 2}
        found = estimator(array, alpha=0.15, **options)
        expected = prune(array, score, alpha=0.15, **options)
        np.testing.assert_array_equal(found.weights, expected.weights)
        assert found.spectrum == expected.spectrum
        assert found.removed > 0.0
    for seed in (1, 2):
        found = quantum_entropy_mean(array, alpha=0.15, noise_scale=0.9, seed=seed)
        expected = prune(
            array,
            _EntropyScore(seed),
            alpha=0.15,
            noise_scale=0.9,
            row_weights=None,
            max_iterations=50,
        )
        np.testing.assert_array_equal(found.weights, expected.weights)
