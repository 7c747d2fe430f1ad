"""Drawing of curves with bands, shared by the experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from unswayed.arrays import FloatArray
from unswayed.experiments.claims import mean_interval
from unswayed.experiments.results import Curve, Results
from unswayed.reports.style import GREY, STYLE, label_ends, look_of, new_figure

LOSS = "suboptimality for good users"
FOUR = 4  # Ours: four panels are drawn in two rows to keep text legible


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes: the series shown, labels and scales."""

    title: str
    x_label: str
    series: str = ""
    y_label: str = LOSS
    log_x: bool = True
    log_y: bool = False
    marks: tuple[tuple[float, str], ...] = ()  # vertical lines: position and label
    # A function of x, drawn as a dashed grey line
    bound: Callable[[FloatArray], FloatArray] | None = None


def panels(titles: Mapping[str, str], x_label: str, **look: Any) -> tuple[Panel, ...]:
    """Return panels that differ only in their series and title."""
    return tuple(
        Panel(title=title, x_label=x_label, series=series, **look)
        for series, title in titles.items()
    )


Curves = Callable[[Results, Panel], list[Curve]]  # Extracts the curves of a panel


def all_curves(results: Results, panel: Panel) -> list[Curve]:
    """Return the curves of all algorithms for the panel's series."""
    return [results.curve(name, panel.series) for name in results.algorithms]


def draw_panels(
    results: Results, drawn: Sequence[Panel], curves_of: Curves = all_curves, *, heading: str
) -> Figure:
    """Draw each algorithm's mean with a 95 % band, one panel per series; label the lines."""
    rows = 2 if len(drawn) == FOUR else 1
    width = 7.4 if len(drawn) == 1 else 2.0 + 4.4 * len(drawn) / rows
    height = 4.6 if rows == 1 else 7.4
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(width=width, height=height, panels=len(drawn), rows=rows)
        for ax, panel in zip(axes, drawn, strict=True):
            curves = curves_of(results, panel)
            for curve in curves:
                draw_curve(ax, curve, log_y=panel.log_y)
            xs = np.unique([x for curve in curves for x in curve.xs])
            if panel.bound is not None:
                whole = np.arange(xs[0], xs[-1] + 1)
                ax.plot(whole, panel.bound(whole), color=GREY, linestyle="--", linewidth=1.5)
            _set_axes(ax, panel, xs=xs)
        if not drawn[0].log_y:
            axes[0].set_ylim(bottom=0.0)  # this sets all panels, which share the axis
        # Panels share the vertical axis, so lines are named only in the last one.
        looks = [(float(curve.means[-1]), look_of(curve.algorithm)) for curve in curves]
        label_ends(axes[-1], [(end, look.label, look.colour) for end, look in looks])
        figure.suptitle(heading, x=0.01, horizontalalignment="left", fontweight="bold")
    return figure


def draw_curve(ax: Axes, curve: Curve, *, log_y: bool = False) -> None:
    """Draw mean, markers and band of one algorithm; an error bar if there is a single point.

    On a logarithmic axis, a band that reaches zero is cut off a decade below the mean.
    """
    look = look_of(curve.algorithm)
    if len(curve.values) > 1:
        bands = np.array([mean_interval(column) for column in curve.values.T])
        low = np.maximum(bands[:, 0], curve.means / 10 if log_y else 0.0)
        if curve.xs.size == 1:
            ax.vlines(curve.xs, low, bands[:, 1], color=look.colour, alpha=0.5, linewidth=2)
        else:
            ax.fill_between(curve.xs, low, bands[:, 1], color=look.colour, alpha=0.18, lw=0)
    ax.plot(
        curve.xs,
        curve.means,
        color=look.colour,
        marker=look.marker,
        linestyle=look.dashes,
        linewidth=2,
        markersize=6,
    )


def _set_axes(ax: Axes, panel: Panel, *, xs: FloatArray) -> None:
    """Set scales, ticks at the points of the sweep, limits and labels."""
    if panel.log_x:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_locator(FixedLocator(list(xs)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if panel.log_y:
        ax.set_yscale("log")
    for place, words in panel.marks:
        ax.axvline(place, color=GREY, linewidth=1, linestyle=":")
        ax.annotate(
            words,
            (place, 1.0),
            xycoords=ax.get_xaxis_transform(),
            xytext=(4, -2),
            textcoords="offset points",
            verticalalignment="top",
            color=GREY,
            fontsize=9,
        )
    ax.set_title(panel.title, loc="left", fontsize=11)
    ax.set_xlabel(panel.x_label)
    if ax.get_subplotspec().is_first_col():  # type: ignore[union-attr]  # all panels are in a grid
        ax.set_ylabel(panel.y_label)
