"""The figures of an evaluation and of a policy, as files with their data."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

from unswayed.evaluation import Evaluation
from unswayed.learners.explaining import decision_rows
from unswayed.policy import Policy
from unswayed.policy.policy import MOST_SHOWN
from unswayed.reports.style import (
    BLUE,
    GREY,
    STYLE,
    VERMILION,
    label_rows,
    new_figure,
    write_figure,
)

DRAWN = 12
"""Maximum number of rows in a chart; its data file has all of them."""


def write_policy_figures(policy: Policy, folder: Path) -> list[Path]:
    """Write the estimates of a policy, and its tree if it was learned from features."""
    rows = decision_rows(policy)
    n_drawn = len(policy.action_labels) * min(len(rows), MOST_SHOWN)
    drawn = [("estimates", policy.plot, 8.0, 1.0 + 0.22 * n_drawn)]
    if policy.partition is not None:
        width = max(8.0, 2.7 * (1 + max(policy.partition.depths)))
        drawn.append(("tree", policy.plot_tree, width, 1.0 + 0.42 * len(rows)))
    files = []
    for name, draw, width, height in drawn:
        with mpl.rc_context(STYLE):
            figure, (ax,) = new_figure(width=width, height=height)
            draw(ax)
        files += write_figure(figure, folder, name, rows)
    return files


def write_evaluation_figures(found: Evaluation, folder: Path) -> list[Path]:
    """Write the values of logging, naive and robust estimates and their data."""
    data = found.to_json()
    naive, robust = data["estimates"]
    everywhere = {"logged": data["logged"], "naive": naive["value"], "robust": robust["value"]}
    rows = [{"context": "all visits", **everywhere}, *data["contexts"][:DRAWN]]
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=7.6, height=1.3 + 0.64 * max(len(rows), 3))
        ax.set_title("Mean reward per visit", loc="left", fontweight="bold")
        ax.set_xlabel(f"with 95% intervals, {data['condition']}")
        for place, row in enumerate(rows):
            for shift, (name, _, colour) in zip((-0.25, 0.0, 0.25), SEEN, strict=True):
                drawn = row[name]["estimate"], row[name]["low"], row[name]["high"]
                mean, *ends = (np.nan if x is None else x for x in drawn)
                ax.plot(ends, [place + shift] * 2, color=colour, linewidth=2.5)
                ax.plot([mean], [place + shift], "o", color=colour, markersize=6)
        for _, name, colour in SEEN:
            ax.plot([], [], "o-", color=colour, label=name)
        label_rows(ax, [row["context"] for row in rows])
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return write_figure(figure, folder, "values", data)


SEEN = (("logged", "logging", GREY), ("naive", "naive", VERMILION), ("robust", "robust", BLUE))
"""Series that are drawn side by side: name in the data, name in the legend, colour."""
