"""How regret scales: one quantity at a time is changed in one world.

Held against (α + 1/√L)·√(T min(S, A)), the rate that Mitra et al. (2022) prove for linear bandits,
with T in interactions per user.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from unswayed.arrays import FloatArray
from unswayed.experiments.claims import Claim, log_slope, mean_interval, resampled
from unswayed.experiments.drawing import Panel, set_axes
from unswayed.experiments.judging import Analysis, Judge, compared
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import Point, Sweep, regret_in_arena, world
from unswayed.reports.style import GREY, STYLE, look_of, new_figure
from unswayed.simulation.settings import Settings

OURS = "epochs"
ATTACK = "variance-shell"
"""Ours: the worst for epochs in benchmarks/regret.py; it lies the less the longer users stay."""


def _world(
    *, size: tuple[int, int] = (5, 5), users: int = 500, interactions: int = 500, alpha: float = 0.1
) -> Settings:
    return world(
        contexts=size[0], actions=size[1], users=users, interactions=interactions, alpha=alpha
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One quantity that is changed: its name, its value in the common world, and other worlds."""

    name: str
    label: str
    middle: float
    worlds: dict[float, Settings]


COMMON = "common"
AXES = (
    Axis(
        name="T",
        label="interactions per user T/L",
        middle=500,
        worlds={x: _world(interactions=x) for x in (125, 2000)},
    ),
    Axis(
        name="L",
        label="users L",
        middle=500,
        worlds={x: _world(users=x) for x in (125, 2000)},
    ),
    Axis(
        name="alpha",
        label="share of colluders",
        middle=0.1,
        worlds={x: _world(alpha=x) for x in (0.025, 0.2)},
    ),
    Axis(
        name="S=A",
        label="contexts and actions S = A",
        middle=5,
        worlds={x: _world(size=(x, x)) for x in (3, 10)},
    ),
    Axis(
        name="A",
        label="actions A, with S = 5",
        middle=5,
        worlds={x: _world(size=(5, x)) for x in (20,)},
    ),
)

_POINTS = (
    Point(x=0.0, series=COMMON, settings=_world(), attacks=(ATTACK,)),
    *(
        Point(x=x, series=axis.name, settings=settings, attacks=(ATTACK,))
        for axis in AXES
        for x, settings in axis.worlds.items()
    ),
)

SWEEPS = {
    "regret-rate": Sweep(
        id="regret-rate",
        points=_POINTS,
        quick=_POINTS,
        algorithms=(OURS,),
        measure=regret_in_arena,
    )
}


def bound(settings: Settings) -> float:
    """Return (α + 1/√L)·√(T min(S, A)) with constant one."""
    size = min(settings.contexts, settings.actions)
    return (settings.alpha + 1.0 / sqrt(settings.users)) * sqrt(settings.interactions * size)


def _along(results: Results, axis: Axis) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the places on an axis, regrets (n_repetitions, n_places), and the bound there."""
    curve = results.curve(OURS, axis.name)
    middle = results.curve(OURS, COMMON).values[:, :1]
    xs = np.append(curve.xs, axis.middle)
    order = np.argsort(xs)
    worlds = {**axis.worlds, axis.middle: _world()}
    values = np.hstack([curve.values, middle])[:, order]
    return xs[order], values, np.array([bound(worlds[x]) for x in xs[order]])


def _slope(axis: Axis, statement: str) -> Judge:
    """Return a judge of the claim that regret grows no faster than the bound along an axis."""

    def judge(results: Results) -> Claim:
        xs, values, bounds = _along(results, axis)
        slope = log(bounds[-1] / bounds[0]) / log(xs[-1] / xs[0])
        return resampled(
            f"rate-in-{axis.name}",
            statement,
            f"log-log slope of regret; that of the rate is {slope:.2f}",
            values,
            lambda drawn: log_slope(xs, drawn.mean(axis=0)),
            below=slope,
        )

    return judge


def _below_the_bound(results: Results) -> dict[str, FloatArray]:
    found = {}
    for axis in AXES:
        xs, values, bounds = _along(results, axis)
        for x, column, most in zip(xs, values.T, bounds, strict=True):
            if x != axis.middle:
                found[f"rate minus epochs at {axis.name}={x:g}"] = most - column
    return found


ROWS, COLUMNS = 2, 3
"""Ours: the panels of the axes, and one for the legend; in one row words are too small to read."""


def _picture(results: Results) -> Figure:
    look = look_of(OURS)
    with mpl.rc_context(STYLE):
        figure, panels = new_figure(width=10.0, height=6.4, panels=ROWS * COLUMNS, rows=ROWS)
        for ax, axis in zip(panels, AXES, strict=False):
            xs, values, bounds = _along(results, axis)
            bands = np.array([mean_interval(column) for column in values.T])
            ax.fill_between(xs, bands[:, 0], bands[:, 1], color=look.colour, alpha=0.18, lw=0)
            ax.plot(xs, values.mean(axis=0), color=look.colour, marker=look.marker, linewidth=2)
            ax.plot(xs, bounds, color=GREY, linestyle="--", linewidth=1.5)
            panel = Panel(title="", x_label=axis.label, y_label=Y_LABEL, log_x=True, log_y=True)
            set_axes(ax, panel, xs=xs)
        panels[-1].set_axis_off()
        panels[-1].legend(
            panels[0].lines,
            ["epochs", "the rate, with constant one"],
            frameon=False,
            loc="center",
        )
        figure.suptitle(TITLE, x=0.01, horizontalalignment="left", fontweight="bold")
    return figure


TITLE = "Regret of a good user against (alpha + 1/√L)·√(T min(S, A))"
Y_LABEL = "regret of a good user, mean"
_STATEMENTS = {
    "T": "Regret grows no faster than the square root of interactions.",
    "L": "With more users regret falls at least as fast as alpha + 1/√L.",
    "alpha": "With more colluders regret grows no faster than alpha + 1/√L.",
    "S=A": "With larger worlds regret grows no faster than √min(S, A).",
    "A": "With more actions than contexts regret does not grow.",
}

ANALYSES = {
    "regret-rate": Analysis(
        title=TITLE,
        x_label="one quantity at a time",
        y_label=Y_LABEL,
        draw=_picture,
        judges=(
            compared(
                "within-the-rate",
                "Everywhere epochs lose less than (alpha + 1/√L)·√(T min(S, A)).",
                _below_the_bound,
            ),
            *(_slope(axis, _STATEMENTS[axis.name]) for axis in AXES),
        ),
    )
}
