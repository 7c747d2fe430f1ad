"""Analyses, and claims that several figures share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from matplotlib.figure import Figure

from unswayed.arrays import FloatArray
from unswayed.experiments.claims import Claim, all_positive, log_slope, resampled
from unswayed.experiments.drawing import LOSS, Panel, draw_panels
from unswayed.experiments.results import Results
from unswayed.learners.methods import DEFAULT_METHOD

Judge = Callable[[Results], Claim]

NAIVE = ("naive-ucb", "independent-ucb")
"""The paper's two naive approaches."""

MARGIN = 0.03
"""Ours: a tenth of the paper's gap; smaller differences count as none."""

ROOT_SLOPE = -0.45
"""Ours: a slope of -1/2, up to a tenth of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What to make of results: panels to draw and claims to judge.

    Attributes
    ----------
    x_label, y_label
        What is swept, and what is measured.
    judges
        One for each claim.
    panels
        Curves along one series each, where that is the picture.
    draw
        Where it is another.
    """

    title: str
    x_label: str
    judges: tuple[Judge, ...]
    y_label: str = LOSS
    panels: tuple[Panel, ...] = ()
    draw: Callable[[Results], Figure] | None = None

    def picture(self, results: Results) -> Figure:
        """Draw the results."""
        if self.draw is not None:
            return self.draw(results)
        return draw_panels(results, self.panels, heading=self.title)

    def judge(self, results: Results) -> list[Claim]:
        """Judge every claim."""
        return [judge(results) for judge in self.judges]


def compared(
    name: str,
    statement: str,
    differences: Callable[[Results], dict[str, FloatArray]],
    *,
    margin: float = 0.0,
) -> Judge:
    """Return a judge of the claim that all differences have a mean above ``-margin``."""
    return lambda results: all_positive(name, statement, differences(results), margin=margin)


def paper_beats(
    results: Results,
    *,
    rivals: Iterable[str],
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


def own_is_no_worse(
    results: Results,
    *,
    x_symbol: str,
    series: str = "",
    up_to: float = float("inf"),
    name: str = "own-is-no-worse",
) -> Claim:
    """Judge that the project's own learner loses no more than Robust MCB, up to the margin."""
    paper, own = (results.curve(learner, series) for learner in ("paper", DEFAULT_METHOD))
    return all_positive(
        name,
        f"Ours ({DEFAULT_METHOD}) loses no more than Robust MCB at any {x_symbol}"
        f"{f' up to {up_to:g}' if up_to < float('inf') else ''}"
        f"{f' ({series})' if series else ''}.",
        {
            f"paper minus ours at {x_symbol}={x:g}": paper.minus(own, x)
            for x in paper.xs
            if x <= up_to
        },
        margin=MARGIN,
    )


def falls_like_a_root(results: Results, *, series: str, name: str, statement: str) -> Claim:
    """Judge that Robust MCB's error falls at least as fast as the square root of x."""
    curve = results.curve("paper", series)
    return resampled(
        name,
        statement,
        f"log-log slope over all points; at most {ROOT_SLOPE:g}",
        curve.values,
        lambda values: log_slope(curve.xs, values.mean(axis=0)),
        below=ROOT_SLOPE,
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
