from __future__ import annotations

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.estimators import lugosi_mendelson_mean, median_of_means


def test_the_number_of_points_it_asks_for_is_enough(rng: np.random.Generator) -> None:
    with pytest.raises(InputError) as refusal:
        lugosi_mendelson_mean(np.ones(10), alpha=0.03, rng=rng)
    n_needed = int(str(refusal.value).split("at least ")[1].split()[0])
    lugosi_mendelson_mean(np.ones(n_needed), alpha=0.03, rng=rng)
    with pytest.raises(InputError, match="at least"):
        lugosi_mendelson_mean(np.ones(n_needed - 1), alpha=0.03, rng=rng)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_both_withstand_extreme_points_of_either_sign(
    sign: float, rng: np.random.Generator
) -> None:
    n_points, alpha = 6000, 0.02
    points = rng.normal(5.0, 1.0, n_points)
    points[: int(alpha * n_points)] = sign * 1e9
    good_mean = points[int(alpha * n_points) :].mean()
    # Lugosi and Mendelson clip eps = 8·.02 + 12·log(80)/3000 = .178 of each tail at good points. A
    # clipped bad point has at most the effect of the .178 quantile, .93σ, and the asymmetry of the
    # clipping is at most the same share: 2·.02·.93 = .04; noise is 4/sqrt(3000) = .07.
    split = lugosi_mendelson_mean(points, alpha=alpha, rng=rng)
    assert abs(split.estimate - good_mean) < 0.11
    # At most 120 of the 301 blocks contain a bad point, so the median is at worst the 83.1 %
    # quantile of 181 means of 19.9 good points: .96/sqrt(19.9) = .215; noise is 5/sqrt(6000) =
    # .065.
    blocks = median_of_means(points, alpha=alpha, rng=rng)
    assert abs(blocks.estimate - good_mean) < 0.28
    assert blocks.is_covered
    assert abs(points.mean() - good_mean) > 1e6  # negative control


def test_with_too_few_points_for_blocks_the_median_is_returned(rng: np.random.Generator) -> None:
    result = median_of_means([1.0, 2.0, 1e9], alpha=0.1, rng=rng)
    assert result.estimate == 2.0
