"""The parallelization gain: interactions per user for a target, as users grow.

A grid of users and interactions, with and without colluders; S = A = 10.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unswayed.arrays import FloatArray
from unswayed.experiments.claims import Claim, log_slope, resampled
from unswayed.experiments.drawing import Panel, set_axes
from unswayed.experiments.judging import Analysis
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import (
    OBLIVIOUS_ATTACKS,
    Point,
    Sweep,
    suboptimality_in_arena,
    world,
)
from unswayed.reports.style import GREY, STYLE, label_ends, look_of, new_figure

USERS = (125, 250, 500, 1000, 2000)
INTERACTIONS = (1, 2, 5, 10, 20, 40, 80, 160)
ALPHAS = (0.0, 0.2)
MOST_PLAYS = 160_000
"""Ours: beyond so many plays in all, every world here is learned long since."""


def series_of(alpha: float, users: int) -> str:
    """Return the name of the series with a share of colluders and a number of users."""
    return f"alpha={alpha:g}, L={users}"


_POINTS = tuple(
    Point(
        x=interactions,
        series=series_of(alpha, users),
        settings=world(users=users, interactions=interactions, alpha=alpha),
        attacks=OBLIVIOUS_ATTACKS if alpha else ("honest",),
    )
    for alpha in ALPHAS
    for users in USERS
    for interactions in INTERACTIONS
    if users * interactions <= MOST_PLAYS
)

SWEEPS = {
    "parallel-gain": Sweep(
        id="parallel-gain",
        points=_POINTS,
        quick=tuple(
            point for point in _POINTS if point.settings.users in (250, 500, 1000) and point.x <= 80
        ),
        algorithms=("paper", "naive-ucb", "independent-ucb", "oracle"),
        measure=suboptimality_in_arena,
    )
}


TITLE = "The parallelization gain: what each user must give"
TARGET = 0.1
"""Ours: a third of the paper's gap."""

THRESHOLD = 500
"""SA/alpha at S = A = 10, alpha = 0.2."""

FLAT = -0.25
"""Ours: a log-log slope above this is "users stop helping"; a perfect gain has slope -1."""


def users_of(results: Results, alpha: float) -> list[int]:
    """Return the numbers of users that were run with a share of colluders."""
    return [users for users in USERS if series_of(alpha, users) in results.series]


def losses(results: Results, algorithm: str, alpha: float) -> FloatArray:
    """Return losses, shape (n_repetitions, n_user_numbers, n_interactions); NaN where not run."""
    curves = [
        results.curve(algorithm, series_of(alpha, users)) for users in users_of(results, alpha)
    ]
    n_repetitions = min(curve.values.shape[0] for curve in curves)
    table = np.full((n_repetitions, len(curves), len(INTERACTIONS)), np.nan)
    for row, curve in enumerate(curves):
        columns = np.searchsorted(INTERACTIONS, curve.xs)
        table[:, row, columns] = curve.values[:n_repetitions]
    return table


def interactions_needed(means: FloatArray) -> FloatArray:
    """Return where each row of mean losses first reaches the target, between grid points by logs.

    NaN where it never does, or does so from the smallest number of interactions on.
    """
    grid = np.log(INTERACTIONS)
    needed = np.full(len(means), np.nan)
    for row, losses_of_row in enumerate(means):
        reached = np.flatnonzero(losses_of_row <= TARGET)
        if reached.size and reached[0] > 0:
            after = reached[0]
            worse, better = losses_of_row[after - 1], losses_of_row[after]
            share = (worse - TARGET) / (worse - better)
            needed[row] = np.exp(grid[after - 1] + share * (grid[after] - grid[after - 1]))
    return needed


def gain_slope(users: FloatArray, table: FloatArray) -> float:
    """Return the log-log slope of the interactions needed against the users."""
    needed = interactions_needed(table.mean(axis=0))
    known = np.isfinite(needed)
    return log_slope(users[known], needed[known])


def draw(results: Results) -> Figure:
    """Draw interactions per user for the target against users, both logarithmic."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(width=11, height=4.6, panels=2)
        for ax, alpha in zip(axes, ALPHAS, strict=True):
            _draw_share(ax, results, alpha)
        figure.suptitle(
            f"{TITLE} for a suboptimality of {TARGET:g}",
            x=0.01,
            horizontalalignment="left",
            fontweight="bold",
        )
    return figure


def full_gain(results: Results) -> Claim:
    """Judge the gain without colluders."""
    users = np.array(users_of(results, 0.0), dtype=float)
    return resampled(
        "full-gain-without-colluders",
        "Without colluders L users share the work: the log-log slope is about -1.",
        "log-log slope of interactions needed against L, alpha = 0",
        losses(results, "paper", 0.0),
        lambda table: gain_slope(users, table),
        above=-1.25,
        below=-0.75,
    )


def stopped_gain(results: Results) -> Claim:
    """Judge the gain with colluders, beyond SA/alpha users."""
    users = np.array(users_of(results, 0.2), dtype=float)
    many = users >= THRESHOLD
    return resampled(
        "gain-stops-with-colluders",
        "With 20% colluders the gain stops: beyond SA/alpha the slope is above -1/4.",
        f"log-log slope for L >= {THRESHOLD}, alpha = 0.2",
        losses(results, "paper", 0.2)[:, many],
        lambda table: gain_slope(users[many], table),
        above=FLAT,
    )


def _draw_share(ax: Axes, results: Results, alpha: float) -> None:
    users = np.array(users_of(results, alpha), dtype=float)
    ends = []
    for algorithm in results.algorithms:
        look = look_of(algorithm)
        needed = interactions_needed(losses(results, algorithm, alpha).mean(axis=0))
        known = np.flatnonzero(np.isfinite(needed))
        if known.size:
            ax.plot(
                users[known],
                needed[known],
                color=look.colour,
                marker=look.marker,
                linestyle=look.dashes,
                linewidth=2,
            )
            ends.append((float(needed[known[-1]]), look.label, look.colour))
    panel = Panel(
        title="without colluders" if alpha == 0 else f"{100 * alpha:g}% colluders",
        x_label="users L",
        y_label="interactions per user",
        log_x=True,
        log_y=True,
        marks=((THRESHOLD, r"$SA/\alpha$"),) if alpha else (),
    )
    set_axes(ax, panel, xs=users)
    ax.set_ylim(INTERACTIONS[0], 2.5 * INTERACTIONS[-1])  # room for words
    absent = [
        name for name in results.algorithms if look_of(name).label not in {e[1] for e in ends}
    ]
    if absent:
        ax.annotate(
            "never in this range:\n" + "\n".join(look_of(name).label for name in absent),
            (0.02, 0.98),
            xycoords="axes fraction",
            verticalalignment="top",
            color=GREY,
            fontsize=9,
        )
    label_ends(ax, ends)


ANALYSES = {
    "parallel-gain": Analysis(
        title=TITLE,
        x_label="interactions per user T/L",
        draw=draw,
        judges=(full_gain, stopped_gain),
    )
}
