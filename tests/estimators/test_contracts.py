"""Contract tests of every exported estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unswayed import estimators
from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.estimators import (
    GroupedEstimates,
    MeanEstimate,
    UnivariateEstimate,
    lugosi_mendelson_mean,
    median_of_means,
    quantum_entropy_mean,
    spectral_filter,
    trimmed_mean,
    trimmed_means,
)
from unswayed.randomness import generator

Result = UnivariateEstimate | GroupedEstimates | MeanEstimate


@dataclass(frozen=True, slots=True)
class Contract:
    """An estimator and the data of its contract tests."""

    function: Callable[..., object]
    run: Callable[[FloatArray, float], Result]
    shape: tuple[int, ...]
    alpha: float = 0.15
    is_split_at_random: bool = False

    def estimate(self, data: FloatArray) -> FloatArray:
        """Return the estimate as an array of shape () or (n_columns,)."""
        result = self.run(data, self.alpha)
        if isinstance(result, GroupedEstimates):
            return np.asarray(result.estimates[0])
        return np.asarray(result.estimate)


def _one_group(data: FloatArray, alpha: float) -> GroupedEstimates:
    return trimmed_means(data, np.zeros(len(data), np.int64), 1, alpha=alpha)


CONTRACTS = [
    Contract(trimmed_mean, lambda data, alpha: trimmed_mean(data, alpha=alpha), (300,)),
    Contract(trimmed_means, _one_group, (300,)),
    Contract(
        lugosi_mendelson_mean,
        lambda data, alpha: lugosi_mendelson_mean(data, alpha=alpha, rng=generator(0)),
        (500,),
        alpha=0.01,
        is_split_at_random=True,
    ),
    Contract(
        median_of_means,
        lambda data, alpha: median_of_means(data, alpha=alpha, rng=generator(0)),
        (300,),
        is_split_at_random=True,
    ),
    Contract(spectral_filter, lambda data, alpha: spectral_filter(data, alpha=alpha), (400, 40)),
    Contract(
        quantum_entropy_mean, lambda data, alpha: quantum_entropy_mean(data, alpha=alpha), (400, 40)
    ),
]

every_estimator = pytest.mark.parametrize(
    "contract", CONTRACTS, ids=[contract.function.__name__ for contract in CONTRACTS]
)


def _attacked(contract: Contract, rng: np.random.Generator) -> FloatArray:
    """Draw normal data with mean 3; the stated share is shifted by 6 in all coordinates."""
    data = 3.0 + rng.standard_normal(contract.shape)
    data[: int(contract.alpha * len(data))] += 6.0
    return data


def test_every_exported_estimator_has_a_contract() -> None:
    no_estimators = {"trim_count", "bounded_mean_intervals", "mean_intervals"}
    exported = {name for name in estimators.__all__ if name.islower()} - no_estimators
    assert exported == {contract.function.__name__ for contract in CONTRACTS}


@every_estimator
def test_order_does_not_matter(contract: Contract, rng: np.random.Generator) -> None:
    data = _attacked(contract, rng)
    shuffled = data[rng.permutation(len(data))]
    np.testing.assert_allclose(contract.estimate(shuffled), contract.estimate(data), rtol=1e-9)


@every_estimator
@pytest.mark.parametrize("shift", [-100.0, 0.5, 1e6])
def test_shifted_data_shift_the_estimate(
    contract: Contract, shift: float, rng: np.random.Generator
) -> None:
    data = _attacked(contract, rng)
    moved = contract.estimate(data + shift) - shift
    np.testing.assert_allclose(moved, contract.estimate(data), rtol=0.0, atol=1e-7)


@every_estimator
@pytest.mark.parametrize("scale", [1e-6, 0.37, 1e6])
def test_scaled_data_scale_the_estimate(
    contract: Contract, scale: float, rng: np.random.Generator
) -> None:
    data = _attacked(contract, rng)
    np.testing.assert_allclose(
        contract.estimate(scale * data) / scale, contract.estimate(data), rtol=1e-7
    )


@every_estimator
def test_mirrored_data_mirror_the_estimate(contract: Contract, rng: np.random.Generator) -> None:
    data = _attacked(contract, rng)
    mirrored, original = -contract.estimate(-data), contract.estimate(data)
    if contract.is_split_at_random:
        # Reflection reverses the ranks and changes the split, so results are equal up to the noise
        # of a split: 5 standard deviations of a difference of two means of at least a third of the
        # points.
        assert abs(mirrored - original) < 5.0 * np.sqrt(2.0 * 3.0 / len(data))
    else:
        np.testing.assert_allclose(mirrored, original, rtol=1e-7)


@every_estimator
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(["constant", "cluster", "spread", "copies", "one column", "two-sided"]),
    size=st.one_of(st.floats(-20.0, 20.0), st.floats(-1e300, 1e300), st.just(0.0)),
    seed=st.integers(0, 10**6),
)
def test_replacing_the_stated_share_has_a_small_effect(
    contract: Contract, kind: str, size: float, seed: int
) -> None:
    """At most alpha of the rows are replaced; good rows are N(3, I)."""
    rng = generator(seed, "contract")
    alpha = contract.alpha
    data = 3.0 + rng.standard_normal(contract.shape)
    clean = contract.estimate(data)
    n_bad = int(alpha * len(data))
    bad = rng.standard_normal((n_bad, *contract.shape[1:]))
    if kind == "constant":
        bad[:] = size
    elif kind == "cluster":
        bad += 3.0 + size
    elif kind == "spread":
        bad *= size
    elif kind == "copies":
        bad[:] = data[0]
    elif kind == "one column":
        bad.reshape(n_bad, -1)[:, 0] = size
    else:
        bad = np.where(np.arange(n_bad).reshape(-1, *[1] * (bad.ndim - 1)) % 2, size, -size) + bad
    data[:n_bad] = bad
    moved = float(np.linalg.norm(contract.estimate(data) - clean))
    if len(contract.shape) == 1:
        # For normal points and a trimmed share of at most .19 (300 points, alpha .15, δ .05), the
        # bias is at most .29σ. Medians of few blocks have 1.3 times the noise of a mean, and 4
        # standard errors are .3.
        assert moved < 0.6
    else:
        # Stability: removing good weight ε and keeping bad weight α move the mean by at most
        # sqrt(λ_good ε/(1−ε)) + sqrt(λ α/(1−α)), where the kept λ is below the threshold. With
        # ε ≤ 2α, λ_good = (1 + sqrt(d/n))² = 1.73, and thresholds up to 2.5 λ_good (the spread of
        # projections with α bad ones is inflated by at most (Φ⁻¹(½ + ¼/.85)/Φ⁻¹(¾))² = 1.5, chance
        # adds 1.3): sqrt(1.73·.3/.7) + sqrt(4.3·.15/.85) = 1.73.
        assert moved < 1.73


@every_estimator
def test_the_mean_fails_where_the_estimator_holds(
    contract: Contract, rng: np.random.Generator
) -> None:
    """Negative control: the plain mean has no bounded influence."""
    data = 3.0 + rng.standard_normal(contract.shape)
    data[: int(contract.alpha * len(data))] = 1e4
    assert np.abs(data.mean(axis=0) - 3.0).min() > 50.0
    assert np.abs(contract.estimate(data) - 3.0).max() < 1.0


@every_estimator
def test_the_estimate_of_equal_rows_is_that_row(contract: Contract) -> None:
    data = np.broadcast_to(np.full(contract.shape[1:], 0.1), contract.shape).copy()
    np.testing.assert_allclose(contract.estimate(data), data[0], rtol=1e-12)


@every_estimator
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_numbers_are_rejected(contract: Contract, value: float) -> None:
    data = np.ones(contract.shape)
    data.reshape(-1)[7] = value
    with pytest.raises(InputError, match="NaN or infinite"):
        contract.estimate(data)


@every_estimator
@pytest.mark.parametrize("fraction", [0.5, 0.9, -0.1, np.nan])
def test_invalid_fractions_are_rejected(contract: Contract, fraction: float) -> None:
    with pytest.raises(InputError, match="alpha"):
        contract.run(np.ones(contract.shape), fraction)


@every_estimator
def test_empty_data_are_rejected(contract: Contract) -> None:
    if contract.function is trimmed_means:
        assert np.isnan(contract.estimate(np.ones(0)))  # a single empty group is valid
        return
    with pytest.raises(InputError):
        contract.estimate(np.ones((0, *contract.shape[1:])))


@every_estimator
def test_input_is_not_modified(contract: Contract, rng: np.random.Generator) -> None:
    data = _attacked(contract, rng)
    before = data.copy()
    data.flags.writeable = False
    contract.estimate(data)
    np.testing.assert_array_equal(data, before)
