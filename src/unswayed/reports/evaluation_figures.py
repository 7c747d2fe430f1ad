"""The figures of an evaluation as files: the uplift by every estimator, and by context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unswayed.evaluation import Evaluation
from unswayed.reports.style import (
    BLUE,
    GREY,
    STYLE,
    VERMILION,
    label_rows,
    new_figure,
    write_figure,
)


def write_evaluation_figures(found: Evaluation, folder: Path) -> list[Path]:
    """Write the figures and their data, and return the files."""
    data = found.to_json()
    files = write_figure(_estimates(data["estimates"]), folder, "uplift", data["estimates"])
    if data["contexts"]:
        files += write_figure(_contexts(data["contexts"]), folder, "contexts", data["contexts"])
    return files


def _estimates(rows: Sequence[Mapping[str, Any]]) -> Figure:
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=7.6, height=3.4)
        for place, row in enumerate(rows):
            _interval(ax, place, row["uplift"], BLUE if row["robust"] else VERMILION)
        users = {True: "honest users", False: "all users"}
        label_rows(ax, [f"{row['estimator'].upper()}, {users[row['robust']]}" for row in rows])
        ax.axvline(0.0, color=GREY, linewidth=1)
        ax.set_xlabel("uplift over the baseline, a visit (95%)")
        ax.set_title("Is the policy better?", loc="left", fontweight="bold")
    return figure


def _contexts(rows: Sequence[Mapping[str, Any]]) -> Figure:
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=7.6, height=1.3 + 0.34 * max(len(rows), 3))
        for place, row in enumerate(rows):
            _interval(ax, place, row["uplift"], BLUE)
        label_rows(ax, [row["context"] for row in rows])
        ax.axvline(0.0, color=GREY, linewidth=1)
        ax.set_xlabel("uplift for honest users in the context, by DR (95%)")
        ax.set_title("Where it is better", loc="left", fontweight="bold")
    return figure


def _interval(ax: Axes, place: int, found: Mapping[str, float | None], colour: str) -> None:
    """Draw an estimate and its interval; nothing where nothing is known."""
    value, low, high = found["estimate"], found["low"], found["high"]
    if value is None:
        return
    if low is not None and high is not None:
        ax.plot([low, high], [place, place], color=colour, linewidth=2.5)
    ax.plot([value], [place], "o", color=colour, markersize=7)
