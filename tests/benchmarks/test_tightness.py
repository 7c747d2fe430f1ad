from __future__ import annotations

import numpy as np
import pytest

from tightness import ALPHAS, GAP_SHARE, PLAYS, Row, crowd, shifts, slope, worst


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


def test_the_instance_is_chosen_for_the_attack(seed: int) -> None:
    """The pooled mean loses the gap in every context where the shift is large.

    A contrast of 400 · 50 / 50 = 400 plays an action has standard error .07; the attack moves it
    by gap / .75, so that the wrong action leads by a third of the gap.
    """
    alpha, shift = 0.2, 30.0
    world = crowd(400, seed).attacked(alpha, shift)
    gap = GAP_SHARE * 2.0 * alpha * shift / np.sqrt(2.0 * PLAYS / 5)
    assert world.is_bad.mean() == pytest.approx(alpha)
    assert world.suboptimality(world.naive()) == pytest.approx(gap)
    assert world.suboptimality(world.oracle()) == 0.0


def test_the_grid_has_what_hides_in_the_covariance_for_every_alpha() -> None:
    for alpha in ALPHAS:
        assert round(1.0 / float(np.sqrt(alpha)), 3) in shifts(alpha)
