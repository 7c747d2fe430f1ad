"""The propositions of Section 3: errors fall like sqrt(alpha L/T), whatever A or S."""

from __future__ import annotations

from functools import partial

import numpy as np

from unswayed.experiments.base_cases.sweep import ALPHA, ARMS, CONTEXTS, series_of
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared, falls_like_a_root
from unswayed.experiments.results import Results
from unswayed.learners.interface import FloatArray

X_LABEL = "interactions per user T/L"
N_ACTIONS = 2
"""Actions of base case 2."""

RELATIVE_MARGIN = 0.25
"""Ours: errors that differ by less than this share count as alike."""


def _bound_minus_error(results: Results, *, scale: float) -> dict[str, FloatArray]:
    curves = (results.curve("paper", series) for series in results.series)
    return {
        f"bound minus error at {curve.series}, T/L={x:g}": scale * np.sqrt(ALPHA / x) - curve.at(x)
        for curve in curves
        for x in curve.xs
    }


def _few_minus_many(results: Results) -> dict[str, FloatArray]:
    """Return by how much errors with the fewest exceed those with the most, as shares."""
    few, many = (results.curve("paper", results.series[end]) for end in (0, -1))
    return {
        f"share by which errors at {few.series} exceed those at {many.series}, T/L={x:g}": (
            few.at(x) - many.at(x)
        )
        / few.at(x).mean()
        for x in few.xs
    }


def _analysis(
    title: str, symbol: str, numbers: tuple[int, ...], *, error: str, words: str, scale: float
) -> Analysis:
    return Analysis(
        title=title,
        x_label=X_LABEL,
        panels=tuple(
            Panel(
                title=series_of(symbol, number),
                x_label=X_LABEL,
                y_label=error,
                series=series_of(symbol, number),
                log_x=True,
                log_y=True,
            )
            for number in numbers
        ),
        judges=(
            partial(
                falls_like_a_root,
                series=series_of(symbol, numbers[0]),
                name="slope",
                statement=f"At {series_of(symbol, numbers[0])}, {words} falls at least like "
                "(T/L)^-1/2.",
            ),
            compared(
                "within-the-bound",
                f"At every {symbol}, {words} is below "
                f"{'' if scale == 1 else f'sqrt({N_ACTIONS})·'}2·sqrt(alpha L/T).",
                partial(_bound_minus_error, scale=2 * scale),
            ),
            compared(
                "size-does-not-matter",
                f"With more of {symbol}, {words} does not grow by more than a quarter.",
                _few_minus_many,
                margin=RELATIVE_MARGIN,
            ),
        ),
    )


ANALYSES = {
    "base-case-1": _analysis(
        "Base case 1: many arms, one context",
        "A",
        ARMS,
        error="largest error of an arm",
        words="the largest error of an arm",
        scale=1.0,
    ),
    "base-case-2": _analysis(
        "Base case 2: many contexts, two actions",
        "S",
        CONTEXTS,
        error=r"$\ell_2$ error over $\sqrt{S}$",
        words="the l2 error over sqrt(S)",
        scale=float(np.sqrt(N_ACTIONS)),
    ),
}
