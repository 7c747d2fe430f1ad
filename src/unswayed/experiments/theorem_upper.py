"""Theorem 5.1: suboptimality against K(B)·sqrt(alpha L/T), whatever the contexts.

Uniform contexts and nu ∝ j^-(1+gamma); S = 20, A = 5, alpha = 0.2, T/L grows.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from unswayed.arrays import FloatArray
from unswayed.experiments.claims import mean_interval
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import (
    OWN_SHARE,
    Point,
    Sweep,
    suboptimality_in_arena,
    with_own,
    world,
)
from unswayed.limits import instance_complexity
from unswayed.reports.style import GREY, STYLE, label_ends, look_of, new_figure
from unswayed.simulation.instances import uniform_probabilities, zipf_probabilities

N_CONTEXTS, N_ACTIONS, ALPHA = 20, 5, 0.2
GAMMAS = (1.0, 2.0)
SERIES = {"uniform": "uniform"} | {f"gamma = {gamma:g}": f"zipf:{1 + gamma:g}" for gamma in GAMMAS}
"""The series by name, and how the simulator calls their context probabilities."""

_POINTS = tuple(
    Point(
        x=interactions,
        series=series,
        settings=world(
            contexts=N_CONTEXTS,
            actions=N_ACTIONS,
            alpha=ALPHA,
            interactions=interactions,
            context_probabilities=law,
        ),
    )
    for series, law in SERIES.items()
    for interactions in (10, 20, 40, 80, 160)
)

SWEEPS = {
    "theorem-upper": Sweep(
        id="theorem-upper",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x <= 40),
        algorithms=with_own("paper", "oracle"),
        measure=suboptimality_in_arena,
        own_share=OWN_SHARE,
    )
}


TITLE = "Theorem 5.1: one bound for all distributions of contexts"
MARKERS = dict(zip(SERIES, ("o", "^", "D"), strict=True))


def complexity(series: str) -> float:
    """Return K(B) of a series."""
    name, _, exponent = SERIES[series].partition(":")
    probabilities = (
        uniform_probabilities(N_CONTEXTS)
        if name == "uniform"
        else zipf_probabilities(N_CONTEXTS, float(exponent))
    )
    return instance_complexity(probabilities, N_ACTIONS)


def bounds(series: str, interactions: FloatArray) -> FloatArray:
    """Return K(B)·sqrt(alpha L/T), with constant one."""
    return complexity(series) * np.sqrt(ALPHA / interactions)


def draw(results: Results) -> Figure:
    """Draw suboptimality against the bound, one marker a distribution of contexts."""
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=7.4, height=4.8)
        for algorithm in results.algorithms:
            look = look_of(algorithm)
            for series in results.series:
                curve = results.curve(algorithm, series)
                bands = np.array([mean_interval(column) for column in curve.values.T])
                xs = bounds(series, curve.xs)
                ax.vlines(xs, np.maximum(bands[:, 0], 0), bands[:, 1], color=look.colour, alpha=0.4)
                ax.plot(
                    xs,
                    curve.means,
                    color=look.colour,
                    marker=MARKERS[series],
                    linestyle=look.dashes,
                    linewidth=1,
                    markersize=6,
                    markerfacecolor="white" if algorithm == "oracle" else look.colour,
                )
        largest = max(bounds(series, results.curve("paper", series).xs).max() for series in SERIES)
        ax.plot([0, largest], [0, largest], color=GREY, linewidth=1, linestyle=":")
        top = 1.3 * max(results.curve(a, s).means.max() for a in results.algorithms for s in SERIES)
        ax.set(
            xlim=(0, 1.03 * largest),
            ylim=(0, top),
            xlabel=r"the bound with constant one, $K(B)\sqrt{\alpha L/T}$",
            ylabel="suboptimality for good users",
        )
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.annotate(
            "loss = bound",
            (0.93 * top, 0.93 * top),
            color=GREY,
            fontsize=9,
            rotation=0,
            xytext=(8, 0),
            textcoords="offset points",
        )
        for series, marker in MARKERS.items():
            ax.plot(
                [],
                [],
                color=GREY,
                marker=marker,
                linestyle="",
                label=f"{series}, K = {complexity(series):.2f}",
            )
        ax.legend(
            frameon=False,
            loc="lower right",
            bbox_to_anchor=(1.0, 0.03),
            title="contexts",
            title_fontsize=10,
            fontsize=10,
        )
        ends = [
            (
                float(
                    max(
                        (bounds(s, c.xs).max(), c.means[0])
                        for s in SERIES
                        for c in [results.curve(a, s)]
                    )[1]
                ),
                look_of(a).label,
                look_of(a).colour,
            )
            for a in results.algorithms
        ]
        label_ends(ax, ends)
        figure.suptitle(TITLE, x=0.01, horizontalalignment="left", fontweight="bold")
    return figure


def _bound_minus_loss(results: Results) -> dict[str, FloatArray]:
    curves = {series: results.curve("paper", series) for series in SERIES}
    return {
        f"bound minus loss for {series} at T/L={x:g}": float(bounds(series, x)) - curve.at(x)
        for series, curve in curves.items()
        for x in curve.xs
    }


def _uniform_minus_steep(results: Results) -> dict[str, FloatArray]:
    flat, steep = (results.curve("paper", series) for series in ("uniform", "gamma = 2"))
    return {
        f"loss for uniform minus loss for gamma = 2 at T/L={x:g}": flat.at(x) - steep.at(x)
        for x in flat.xs
    }


ANALYSES = {
    "theorem-upper": Analysis(
        title=TITLE,
        x_label="interactions per user T/L",
        draw=draw,
        judges=(
            compared(
                "within-the-bound",
                "Robust MCB loses less than K(B)·sqrt(alpha L/T), with constant one, everywhere.",
                _bound_minus_loss,
            ),
            compared(
                "smaller-complexity-smaller-loss",
                "Contexts with a smaller K(B) are easier: nu ∝ j^-3 loses less than uniform.",
                _uniform_minus_steep,
            ),
        ),
    )
}
