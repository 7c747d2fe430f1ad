from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unswayed.estimators import mean_ranges

points = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=7)


@given(points=points, n_bad=st.integers(0, 3))
def test_the_range_is_that_over_every_choice_of_bad_points(points: list[float], n_bad: int) -> None:
    """Zeros are left implicit, as in sparse data."""
    stored = [point for point in points if point]
    result = mean_ranges(
        np.array(stored),
        np.zeros(len(stored), np.int64),
        1,
        n_bad=np.array([n_bad]),
        n_zeros=np.array([len(points) - len(stored)]),
    )
    n_kept = max(len(points) - n_bad, 1)
    means = [np.mean(kept) for kept in combinations(points, n_kept)]
    np.testing.assert_allclose([result.low[0], result.high[0]], [min(means), max(means)])
    if len(points) > 1:
        error = np.std(points, ddof=1) / np.sqrt(len(points))
        np.testing.assert_allclose(result.standard_errors[0], error, atol=1e-12)


def test_groups_do_not_mix_and_an_empty_group_has_no_range() -> None:
    result = mean_ranges(
        np.array([1.0, 10.0, 3.0]),
        np.array([0, 1, 0]),
        3,
        n_bad=np.array([1, 0, 2]),
        n_zeros=np.zeros(3, np.int64),
    )
    np.testing.assert_array_equal(result.low, [1.0, 10.0, np.nan])
    np.testing.assert_array_equal(result.high, [3.0, 10.0, np.nan])
