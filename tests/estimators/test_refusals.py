"""Invalid input is rejected with a one-sentence error; input at the limit is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.refusals import refusal
from unswayed.estimators import (
    lugosi_mendelson_mean,
    median_of_means,
    quantum_entropy_mean,
    spectral_filter,
    trim_count,
    trimmed_mean,
    trimmed_means,
)
from unswayed.randomness import generator

ALPHA: dict[str, Any] = {"alpha": 0.1}
ROWS = np.ones((4, 3))


@pytest.mark.parametrize(
    ("values", "options", "sentence"),
    [
        ([[1.0]], {}, "values has 2 dimensions: give a one-dimensional array."),
        ([], {}, "values is empty: a mean needs at least one point."),
        (
            [1.0, np.nan, np.inf],
            {},
            "values contains 2 NaN or infinite numbers: remove or replace them first.",
        ),
        (
            [1.0],
            {"failure_probability": 0.0},
            "failure_probability is 0.0: it must lie between 0 and 1.",
        ),
        (
            [1.0],
            {"failure_probability": 1.0},
            "failure_probability is 1.0: it must lie between 0 and 1.",
        ),
        ([1.0], {"n_trimmed": -1}, "n_trimmed is -1: it cannot be negative."),
    ],
)
def test_invalid_points_are_rejected(values: Any, options: dict[str, Any], sentence: str) -> None:
    assert refusal(trimmed_mean, values, **ALPHA, **options) == sentence


@pytest.mark.parametrize("estimator", [spectral_filter, quantum_entropy_mean])
@pytest.mark.parametrize(
    ("rows", "options", "sentence"),
    [
        (np.ones(3), {}, "The rows have 1 dimensions: give a matrix with two."),
        (
            sparse.coo_array((np.ones(1), (np.zeros(1, int),)), shape=(3,)),
            {},
            "The rows must form a two-dimensional matrix.",
        ),
        (np.ones((0, 3)), {}, "The matrix is 0 by 3: a mean needs rows and columns."),
        (np.ones((3, 0)), {}, "The matrix is 3 by 0: a mean needs rows and columns."),
        (
            ROWS * np.nan,
            {},
            "The matrix of rows contains 12 NaN or infinite numbers: remove or replace them first.",
        ),
        (
            sparse.csr_array(ROWS * np.inf),
            {},
            "The matrix of rows contains 12 NaN or infinite numbers: remove or replace them first.",
        ),
        (
            np.diag([1e200] * 3),
            {},
            "Typical entries are about 1e+200: rescale the rows towards 1 first.",
        ),
        (ROWS, {"row_weights": [1.0]}, "row_weights has shape (1,): it must be (4,)."),
        (
            ROWS,
            {"row_weights": [1.0, 1.0, np.nan, 1.0]},
            "row_weights contains 1 NaN or infinite numbers: remove or replace them first.",
        ),
        (
            ROWS,
            {"row_weights": np.zeros(4)},
            "row_weights must be non-negative, and at least one must be positive.",
        ),
        (
            ROWS,
            {"row_weights": [1.0, -0.5, 1.0, 1.0]},
            "row_weights must be non-negative, and at least one must be positive.",
        ),
    ],
)
def test_invalid_rows_are_rejected(
    estimator: Any, rows: Any, options: dict[str, Any], sentence: str
) -> None:
    assert refusal(estimator, rows, **ALPHA, **options) == sentence


def test_the_error_for_an_impossible_split_says_what_would_work() -> None:
    options: dict[str, Any] = {"rng": generator(0), "failure_probability": 0.1}
    assert refusal(lugosi_mendelson_mean, np.ones(200), alpha=0.05, **options) == (
        # 12 · log(40)/(1/2 − 8/20) = 442.7 points in each half.
        "The split trimmed mean cannot use 200 points: it needs at least 886 here; use "
        "trimmed_mean below that."
    )
    assert refusal(lugosi_mendelson_mean, np.ones(200), alpha=0.0625, **options) == (
        "The split trimmed mean cannot use 200 points at alpha 0.0625: it only "
        "works below 1/16, so use trimmed_mean or median_of_means."
    )
    assert refusal(trim_count, [3, -1], **ALPHA, failure_probability=0.1) == (
        "n_points is -1: the size of a group cannot be negative."
    )


def test_the_median_of_means_equals_its_definition(rng: np.random.Generator) -> None:
    """Blocks are drawn by the generator from the sorted points, and differ by one in size."""
    points = rng.standard_normal(1000)
    options: dict[str, Any] = {"alpha": 0.02, "failure_probability": 0.1}
    n_bad = trim_count(1000, **options)
    n_blocks = 2 * n_bad + 1 + int(np.ceil(8 * np.log(10)))
    found = median_of_means(points, rng=generator(3), **options)
    by_rank = np.sort(points)[generator(3).permutation(1000)]
    blocks = [by_rank[start::n_blocks] for start in range(n_blocks)]
    means = np.array([block.mean() for block in blocks])
    assert found.estimate == pytest.approx(np.median(means), rel=1e-12)
    assert found.is_covered


def test_the_split_trimmed_mean_equals_its_definition(rng: np.random.Generator) -> None:
    """Each half is clipped at the order statistics floor(ε·n) of the other half, at both ends."""
    points = rng.standard_normal(2001)
    options: dict[str, Any] = {"alpha": 0.01, "failure_probability": 0.1}
    found = lugosi_mendelson_mean(points, rng=generator(5), **options)
    split = generator(5).permutation(2001)
    ordered = np.sort(points)
    averaged, reference = ordered[split[:1000]], np.sort(ordered[split[1000:2000]])
    n_cut = int(np.floor((8 * 0.01 + 12 * np.log(40) / 1000) * 1000))
    clipped = np.clip(averaged, reference[n_cut], reference[999 - n_cut])
    assert found.estimate == pytest.approx(clipped.mean(), rel=1e-12)
    assert found.is_covered


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (
            ([1.0], [0, 1], 2),
            {},
            "values has shape (1,) and groups (2,): give one group for each value.",
        ),
        (
            ([[1.0]], [[0]], 2),
            {},
            "values has shape (1, 1) and groups (1, 1): give one group for each value.",
        ),
        (([1.0], [2], 2), {}, "groups must lie between 0 and 1."),
        (([1.0, 1.0], [0, -1], 2), {}, "groups must lie between 0 and 1."),
        (
            ([1.0, np.inf], [0, 1], 2),
            {},
            "values contains 1 NaN or infinite numbers: remove or replace them first.",
        ),
        (([1.0], [0], 2), {"n_zeros": [1]}, "n_zeros must hold 2 counts, none of them negative."),
        (
            ([1.0], [0], 2),
            {"n_zeros": [0, -1]},
            "n_zeros must hold 2 counts, none of them negative.",
        ),
    ],
)
def test_invalid_groups_are_rejected(
    arguments: Any, options: dict[str, Any], sentence: str
) -> None:
    assert refusal(trimmed_means, *arguments, **ALPHA, **options) == sentence
