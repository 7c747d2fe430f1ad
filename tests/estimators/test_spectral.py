"""Both high-dimensional estimators under attack, compared with the oracle and the plain mean."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

from tests.estimators.samples import ATTACKS, Sample, normal_rows, sparse_rows
from unswayed.arrays import FloatArray
from unswayed.estimators import MeanEstimate, quantum_entropy_mean, spectral_filter

ALPHA = 0.2

both = pytest.mark.parametrize("estimator", [spectral_filter, quantum_entropy_mean])
Estimator = Callable[..., MeanEstimate]


def _top_variance(rows: FloatArray) -> float:
    return float(np.linalg.eigvalsh(np.cov(rows, rowvar=False, bias=True))[-1])


def _certified_distance(sample: Sample, result: MeanEstimate) -> float:
    """Bound the distance from the oracle by the kept and the removed rows.

    The kept rows have top variance λ and a bad share b; the good rows have λ_good and lost a share
    g. By Cauchy–Schwarz the kept mean is within sqrt(λ b/(1−b)) of the kept good mean, which is
    within sqrt(λ_good g/(1−g)) of the oracle.
    """
    kept_good = result.weights[sample.is_good]
    bad_share = max(0.0, 1.0 - kept_good.sum() / result.weights.sum())
    lost_share = 1.0 - kept_good.mean()
    # The Lanczos eigenvalue is too low by at most its tolerance
    top = 1.02 * result.spectrum[-1].top_eigenvalue
    good_top = _top_variance(sample.rows[sample.is_good])
    return math.sqrt(top * bad_share / (1.0 - bad_share)) + math.sqrt(
        good_top * lost_share / (1.0 - lost_share)
    )


@both
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_distance_from_the_oracle_is_certified(
    estimator: Estimator, attack: str, rng: np.random.Generator
) -> None:
    sample = normal_rows(rng, attack=attack)
    result = estimator(sample.rows, alpha=ALPHA)
    distance = float(np.linalg.norm(result.estimate - sample.oracle))
    assert distance <= _certified_distance(sample, result) + 1e-9
    assert result.removed <= 2.0 * ALPHA + 1e-9


@both
@pytest.mark.parametrize(
    ("attack", "limit"),
    # Multiples of the oracle's own error. Far outliers may have no effect except that good rows are
    # removed too: at most a tenth of them, which adds an independent error of sqrt(.1/.9) = .33.
    # After a shift of 3σ, 2 % of the good rows' tail and half of the bad rows stay below the
    # threshold: .1·3/sqrt(60/1200) = 1.34 in addition to 1. In ten directions of 8σ, less than 2σ
    # is left in each: .2·2/sqrt(10).
    [
        ("far", 1.33),
        ("axis", 1.33),
        ("shell", 1.33),
        ("hidden shift", 2.0),
        ("ten directions", 1.6),
    ],
)
def test_attacks_cost_little_against_the_oracle_and_ruin_the_mean(
    estimator: Estimator, attack: str, limit: float, rng: np.random.Generator
) -> None:
    sample = normal_rows(rng, attack=attack)
    oracle = float(np.linalg.norm(sample.oracle - sample.true_mean))
    result = estimator(sample.rows, alpha=ALPHA)
    assert float(np.linalg.norm(result.estimate - sample.true_mean)) < limit * oracle
    plain = float(np.linalg.norm(sample.rows.mean(axis=0) - sample.true_mean))
    assert plain > limit * oracle  # negative control


@both
@pytest.mark.parametrize("attack", ["far", "axis", "ten directions"])
def test_twice_as_many_bad_rows_as_stated_do_not_explode_it(
    estimator: Estimator, attack: str, rng: np.random.Generator
) -> None:
    sample = normal_rows(rng, attack=attack, bad_fraction=0.3)
    result = estimator(sample.rows, alpha=0.15)
    distance = float(np.linalg.norm(result.estimate - sample.oracle))
    assert distance <= _certified_distance(sample, result) + 1e-9
    # At most a tenth of the good rows is removed, and at most the same share of bad rows is kept
    # within the threshold of about 2: sqrt(2·.1/.9) + sqrt(1.5·.1/.9).
    assert distance < 0.9


@both
@pytest.mark.parametrize(
    "shape", [(1500, 60), (300, 200), (150, 300), (40, 5), (1500, 1), (1500, 40)]
)
def test_without_an_attack_no_row_loses_weight(
    estimator: Estimator, shape: tuple[int, int], rng: np.random.Generator
) -> None:
    for rows in (
        normal_rows(rng, n_rows=shape[0], n_columns=shape[1]).rows,
        5.0 + rng.uniform(-1.0, 1.0, shape),
        5.0 + rng.standard_normal(shape) * np.exp(rng.standard_normal(shape[1])),
        5.0 + rng.standard_normal(shape) + 3.0 * rng.standard_normal((shape[0], 1)),
    ):
        result = estimator(rows, alpha=ALPHA)
        assert result.stopped == "spectrum"
        assert result.removed == 0.0
        np.testing.assert_allclose(result.estimate, rows.mean(axis=0), rtol=1e-9)


@both
def test_without_an_attack_no_sparse_row_loses_weight(
    estimator: Estimator, rng: np.random.Generator
) -> None:
    for per_row in (2, 5, 25):
        matrix, _, _ = sparse_rows(rng, per_row=per_row)
        assert estimator(matrix, alpha=ALPHA).removed == 0.0
        # with two entries per row, rows with one huge column are outliers under any scaling
        if per_row > 2:
            unequal = sparse.csr_array(matrix.multiply(np.exp(rng.standard_normal(300))))
            assert estimator(unequal, alpha=ALPHA).removed == 0.0


@both
def test_colluders_in_sparse_rows_are_found(estimator: Estimator, rng: np.random.Generator) -> None:
    matrix, is_good, true_mean = sparse_rows(rng, attack="collusion")
    result = estimator(matrix, alpha=ALPHA)
    oracle = float(np.linalg.norm(matrix[is_good].mean(axis=0) - true_mean))
    plain = float(np.linalg.norm(matrix.mean(axis=0) - true_mean))
    # A colluder's projection is sqrt(25) = 5 deviations from the centre: almost all are removed,
    # and with them the good rows beyond about two deviations on one side, a twentieth.
    assert result.weights[~is_good].mean() < 0.05
    assert result.weights[is_good].mean() > 0.93
    assert float(np.linalg.norm(result.estimate - true_mean)) < 1.5 * oracle
    assert plain > 1.5 * oracle  # negative control


@both
@pytest.mark.parametrize("attack", ["none", "collusion"])
def test_sparse_and_dense_rows_give_the_same_estimate(
    estimator: Estimator, attack: str, rng: np.random.Generator
) -> None:
    matrix, _, _ = sparse_rows(rng, attack=attack)
    dense = estimator(matrix.toarray(), alpha=ALPHA)
    as_matrix = sparse.csr_matrix(matrix)
    wide = matrix.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for rows in (matrix, as_matrix, wide, matrix.tocsc(), matrix.tocoo()):
        result = estimator(rows, alpha=ALPHA)
        np.testing.assert_allclose(result.estimate, dense.estimate, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(result.weights, dense.weights, atol=1e-6)
        assert result.stopped == dense.stopped


@both
def test_duplicate_entries_are_summed_and_explicit_zeros_ignored(
    estimator: Estimator, rng: np.random.Generator
) -> None:
    matrix, _, _ = sparse_rows(rng, attack="collusion", n_rows=500)
    twice = sparse.csr_array(
        (np.repeat(matrix.data / 2.0, 2), np.repeat(matrix.indices, 2), 2 * matrix.indptr),
        shape=matrix.shape,
    )
    n_entries = twice.nnz
    result = estimator(twice, alpha=ALPHA)
    expected = estimator(matrix, alpha=ALPHA)
    np.testing.assert_allclose(result.estimate, expected.estimate, rtol=1e-9, atol=1e-12)
    assert twice.nnz == n_entries  # the caller's matrix is left alone


@both
def test_starting_weights_act_like_repeated_rows(
    estimator: Estimator, rng: np.random.Generator
) -> None:
    sample = normal_rows(rng, attack="far", n_rows=600)
    counts = rng.integers(0, 3, 600)
    weighted = estimator(sample.rows, alpha=ALPHA, row_weights=counts)
    repeated = estimator(np.repeat(sample.rows, counts, axis=0), alpha=ALPHA)
    np.testing.assert_allclose(weighted.estimate, repeated.estimate, atol=0.05)
    assert weighted.weights[counts == 0].sum() == 0.0
    assert weighted.weights.max() <= 1.0


@both
def test_the_spectrum_explains_the_result(estimator: Estimator, rng: np.random.Generator) -> None:
    sample = normal_rows(rng, attack="far")
    result = estimator(sample.rows, alpha=ALPHA)
    first, last = result.spectrum[0], result.spectrum[-1]
    assert first.top_eigenvalue > first.threshold
    assert last.top_eigenvalue <= last.threshold
    assert first.removed == 0.0
    assert last.removed == pytest.approx(result.removed)
    assert result.iterations == len(result.spectrum) - 1
    assert result.removed == pytest.approx(1.0 - result.weights.mean())
    np.testing.assert_allclose(
        result.estimate, np.average(sample.rows, axis=0, weights=result.weights), rtol=1e-9
    )


@both
def test_rounds_end_when_the_budget_is_used_up(
    estimator: Estimator, rng: np.random.Generator
) -> None:
    # A fifth of the rows is six deviations away: detected, not blatant, and more than the budget.
    mild = normal_rows(rng).rows
    mild[:300] += 6.0 / np.sqrt(60.0)
    short = estimator(mild, alpha=0.02)
    assert short.stopped == "budget"
    assert short.removed == pytest.approx(0.04)
    trusting = estimator(mild, alpha=0.0)
    assert (trusting.stopped, trusting.removed) == ("budget", 0.0)


@both
def test_tiny_and_degenerate_matrices_are_supported(estimator: Estimator) -> None:
    one = estimator(np.array([[1.0, 2.0]]), alpha=ALPHA)
    assert one.estimate.tolist() == [1.0, 2.0]
    two = estimator(np.array([[1.0], [3.0]]), alpha=ALPHA)
    assert two.estimate.tolist() == [2.0]
    empty = sparse.csr_array((50, 40))
    assert estimator(empty, alpha=ALPHA).estimate.tolist() == [0.0] * 40
    odd = np.zeros((50, 40))
    odd[0] = 1.0  # one row in fifty differs from all others, which are equal
    assert estimator(odd, alpha=ALPHA).estimate.tolist() == [0.0] * 40


@both
def test_columns_of_zeros_change_nothing(estimator: Estimator, rng: np.random.Generator) -> None:
    sample = normal_rows(rng, attack="far")
    padded = np.hstack([sample.rows, np.zeros((1500, 5))])
    result = estimator(padded, alpha=ALPHA)
    assert result.estimate[-5:].tolist() == [0.0] * 5
    assert float(np.linalg.norm(result.estimate[:-5] - sample.oracle)) < 0.2


@both
def test_weights_are_never_negative(estimator: Estimator, rng: np.random.Generator) -> None:
    """Removed weights are differences of running sums, which have rounding errors."""
    for _ in range(10):
        rows = rng.normal(size=(400, 5))
        rows[:60] += 40.0 + 30.0 * rng.normal(size=(60, 1))
        result = estimator(rows, alpha=ALPHA, row_weights=rng.random(400))
        assert result.weights.min() >= 0.0
