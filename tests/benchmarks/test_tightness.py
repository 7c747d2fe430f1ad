from __future__ import annotations

import numpy as np
import pytest

from tightness import ALPHAS, Row, shifts, slope, worst


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_slope_of_a_power_is_its_exponent(power: float) -> None:
    rows = [
        Row("100", alpha, shift, seed, "paper", alpha**power * shift)
        for alpha in ALPHAS
        for shift in (1.0, 2.0)
        for seed in (0, 1, 2)
    ]
    assert slope(rows) == pytest.approx((power, power, power))
    np.testing.assert_array_equal(worst(rows).shifts, np.full(len(ALPHAS), 2.0))


def test_the_grid_has_what_hides_in_the_covariance_for_every_alpha() -> None:
    for alpha in ALPHAS:
        assert round(1.0 / float(np.sqrt(alpha)), 3) in shifts(alpha)
