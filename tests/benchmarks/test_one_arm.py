"""What one arm in one context shows of the tightness in alpha."""

from __future__ import annotations

import numpy as np
import pytest

from one_arm import ALPHAS, contaminated, largest_turned_gap, median, slope, worst
from unswayed.estimators import trimmed_mean


@pytest.mark.parametrize(("alpha", "bias"), [(0.05, 0.066012), (0.1, 0.139710), (0.2, 0.318639)])
def test_the_bias_of_the_median_agrees_with_its_goldens(alpha: float, bias: float) -> None:
    """Source: notes on the paper, section 4. 20,000 points place a median to 1e-4."""
    assert worst(median, alpha, 20_000)[0] == pytest.approx(bias, abs=1e-4)


@pytest.mark.parametrize(
    ("alpha", "share", "bias"),
    [(0.05, 0.1, 0.088747), (0.1, 0.2, 0.162609), (0.1, 0.1, 0.213069), (0.2, 0.3, 0.346683)],
)
def test_the_bias_of_trimming_agrees_with_its_goldens(
    alpha: float, share: float, bias: float
) -> None:
    """Source: notes on the paper, section 4; the worst place is the edge of what is kept."""

    def trimming(points: np.ndarray, alpha: float) -> float:
        cut = round(share * points.size)
        return trimmed_mean(points, alpha=alpha, n_trimmed=cut).estimate

    # Places are .02 apart, of which a share of at most alpha/(1 - 2 share) is felt.
    assert worst(trimming, alpha, 20_000)[0] == pytest.approx(bias, abs=0.02 * 0.5)


def test_the_median_loses_in_proportion_to_alpha() -> None:
    biases = np.array([worst(median, alpha, 20_000)[0] for alpha in ALPHAS])
    assert 0.95 < slope(np.array(ALPHAS), biases) < 1.1


def test_two_arms_are_turned_by_twice_the_bias() -> None:
    bias, place = worst(median, 0.1, 20_000)
    assert np.median(contaminated(20_000, 0.1, place)) == pytest.approx(bias)
    assert largest_turned_gap(median, 0.1) == pytest.approx(2 * bias, abs=1e-6)
