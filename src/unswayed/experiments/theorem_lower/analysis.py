"""No learner finds the better action more often than the distance between the worlds allows."""

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from unswayed.experiments.drawing import Panel, name_curves, set_axes
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.results import Results
from unswayed.experiments.theorem_lower.sweep import FEW, MANY, PAPERS
from unswayed.learners.interface import FloatArray
from unswayed.limits import (
    one_sided_distance,
    one_sided_hellinger,
    success_bound,
    two_sided_distance,
    two_sided_hellinger,
)
from unswayed.reports.style import GREY, STYLE, look_of, new_figure

TITLE = "Theorem 4.1: what is hidden stays hidden from every learner"
X_LABEL = "interactions per user T/L"
ALPHA = 0.2
WORLDS = {FEW: (0.1, 100), MANY: (0.1, 1000), PAPERS: (0.05, 2000)}
"""Gap and users of each series."""

HIDDEN_UP_TO = {FEW: 9, MANY: 9, PAPERS: 2}
"""The longest histories that the coalition hides perfectly; a test recomputes them."""

UNBOUND = ("oracle", "independent-ucb")
"""The bound is for one decision by somebody who sees all users alike. The oracle knows the good
users; Independent UCB decides for each user apart and is valued on the good ones only."""

MARGIN = 0.16
"""Ours. At 400 repetitions a share near one half has a standard error of 0.025. Planned for
a level shared by up to 90 intervals: each is 3.6 errors to either side, and the largest of 90
deviations is about 2.6 errors, so an excess of less than 6.2 errors cannot be told from none."""


def bound(series: str, interactions: FloatArray) -> FloatArray:
    """Return the most that any test can succeed with at each number of interactions."""
    gap, n_users = WORLDS[series]
    plays = interactions.astype(np.int64)
    distance, hellinger = (
        (one_sided_distance, one_sided_hellinger)
        if series == PAPERS
        else (two_sided_distance, two_sided_hellinger)
    )
    return np.asarray(
        success_bound(n_users, distance(gap, plays, ALPHA), hellinger(gap, plays, ALPHA))
    )


def draw(results: Results) -> Figure:
    """Draw success against interactions, with the region that no learner can reach."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(width=13.5, height=4.6, panels=3)
        for ax, series in zip(axes, WORLDS, strict=True):
            curves = [results.curve(name, series) for name in results.algorithms]
            for curve in curves:
                look = look_of(curve.algorithm)
                ax.plot(
                    curve.xs,
                    curve.means,
                    color=look.colour,
                    marker=look.marker,
                    linestyle=look.dashes,
                    linewidth=1.4,
                    markersize=5,
                )
            xs = np.arange(1, curves[0].xs[-1] + 1)
            ax.fill_between(xs, bound(series, xs), 1.0, step="mid", color=GREY, alpha=0.15, lw=0)
            gap, n_users = WORLDS[series]
            panel = Panel(
                title=f"{series.split(',')[0]} coalition, gap {gap:g}, {n_users} users",
                x_label=X_LABEL,
                y_label="share of right decisions",
                log_x=True,
            )
            set_axes(ax, panel, xs=curves[0].xs)
        axes[1].annotate(
            "grey: out of reach\nfor all who do not know\nthe good users",
            (1.1, 0.85),
            color=GREY,
            fontsize=9,
            verticalalignment="top",
        )
        axes[0].set_ylim(0.0, 1.03)
        name_curves(axes[-1], curves)
        figure.suptitle(TITLE, x=0.01, horizontalalignment="left", fontweight="bold")
    return figure


def _learners(results: Results) -> list[str]:
    return [name for name in results.algorithms if name not in UNBOUND]


def _bound_minus_success(results: Results) -> dict[str, FloatArray]:
    return {
        f"bound minus success of {name}, {series}, T/L={x:g}": most
        - results.curve(name, series).at(x)
        for name in _learners(results)
        for series in WORLDS
        for x, most in zip(
            results.curve(name, series).xs,
            bound(series, results.curve(name, series).xs),
            strict=True,
        )
        if most < 1
    }


def _oracle_minus_chance(results: Results) -> dict[str, FloatArray]:
    return {
        f"success of the oracle minus ½, {series}, T/L={hidden}": results.curve(
            "oracle", series
        ).at(hidden)
        - 0.5
        for series, hidden in HIDDEN_UP_TO.items()
    }


def _margin_minus_gain(results: Results) -> dict[str, FloatArray]:
    return {
        f"{MARGIN:g} minus the gain of {name} at T/L=9": MARGIN
        - (results.curve(name, MANY).at(9) - results.curve(name, FEW).at(9))
        for name in _learners(results)
    }


ANALYSES = {
    "theorem-lower": Analysis(
        title=TITLE,
        x_label=X_LABEL,
        draw=draw,
        judges=(
            compared(
                "no-learner-beats-the-bound",
                "No learner succeeds more often than ½ + ½·min(1, L·H), up to 0.16.",
                _bound_minus_success,
                margin=MARGIN,
            ),
            compared(
                "oracle-sees-it",
                "Who knows the good users tells the worlds apart where they are hidden (control).",
                _oracle_minus_chance,
            ),
            compared(
                "users-do-not-help",
                "Ten times the users do not help where the difference is hidden, up to 0.16.",
                _margin_minus_gain,
            ),
        ),
    )
}
