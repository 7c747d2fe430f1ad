"""Claims that several figures share."""

from __future__ import annotations

from collections.abc import Iterable

from unswayed.experiments.claims import Claim, all_positive
from unswayed.experiments.results import Results

NAIVE = ("naive-ucb", "independent-ucb")
"""The paper's two naive approaches."""

MARGIN = 0.03
"""Ours: a tenth of the paper's gap; smaller differences count as none."""


def paper_beats(
    results: Results,
    rivals: Iterable[str],
    *,
    name: str,
    statement: str,
    series: str = "",
    x_symbol: str,
    above: float = float("-inf"),
    up_to: float = float("inf"),
) -> Claim:
    """Judge that Robust MCB loses less than every rival at all points with above < x <= up_to."""
    paper = results.curve("paper", series)
    return all_positive(
        name,
        statement,
        {
            f"{rival} minus paper at {x_symbol}={x:g}": results.curve(rival, series).at(x)
            - paper.at(x)
            for rival in rivals
            for x in paper.xs
            if above < x <= up_to
        },
    )


def does_not_degrade(
    results: Results,
    *,
    name: str,
    statement: str,
    x_symbol: str,
    start: float,
    up_to: float = float("inf"),
    algorithm: str = "paper",
) -> Claim:
    """Judge that an algorithm loses at no x beyond ``start`` more than there, up to the margin."""
    curve = results.curve(algorithm)
    first = float(curve.xs[curve.xs >= start][0])
    return all_positive(
        name,
        statement,
        {
            f"loss at {x_symbol}={first:g} minus loss at {x_symbol}={x:g}": curve.at(first)
            - curve.at(x)
            for x in curve.xs
            if first < x <= up_to
        },
        margin=MARGIN,
    )
