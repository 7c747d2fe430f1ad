"""The figures of an audit, an evaluation and a policy, as files with their data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from unswayed.audit.redteam import RedTeam
from unswayed.audit.results import Audit
from unswayed.evaluation import Evaluation
from unswayed.learners.explaining import decision_rows
from unswayed.policy import Policy
from unswayed.policy.policy import MOST_SHOWN
from unswayed.reports.style import (
    BLUE,
    GREY,
    STYLE,
    VERMILION,
    label_ends,
    label_rows,
    new_figure,
    write_figure,
)
from unswayed.visible import number

DRAWN = 12
"""Maximum number of rows in a chart; the data hold all of them."""

Drawn = tuple[str, Figure, Sequence[Mapping[str, Any]]]


def write_audit_figures(audit: Audit, red_team: RedTeam | None, folder: Path) -> list[Path]:
    """Write every figure that the audit has something for, and return the files."""
    with mpl.rc_context(STYLE):
        drawn = list(_drawn(audit, red_team))
    return [
        file for name, figure, rows in drawn for file in write_figure(figure, folder, name, rows)
    ]


def _drawn(audit: Audit, red_team: RedTeam | None) -> Iterator[Drawn]:
    data = audit.to_json()
    if rows := data["items"]:
        shown = _bars(
            rows, "action", {"shift": ""}, "Shift of items' means", "all minus robust mean"
        )
        yield "items", shown, rows
    if rows := data["changed"]:
        shown = _bars(
            rows, "context", {"cost": ""}, "Naive decisions that differ", "loss per visit"
        )
        yield "decisions", shown, rows
    yield "null", _null(data["null"]), [data["null"]]
    if data["timeline"] is not None:
        yield "time", _time(data["timeline"]), [data["timeline"]]
    if audit.n_contexts > 1:
        names = {"claimed": "as logged", "believed": "robust estimate"}
        shown = _bars(data["contexts"], "context", names, "Contexts", "share of visits")
        yield "contexts", shown, data["contexts"]
    if red_team is not None:
        sizes = red_team.to_json()["sizes"]
        yield "red-team", _red_team(red_team, sizes), sizes


def _chart(title: str, rows: int, *, xlabel: str) -> tuple[Figure, Axes]:
    figure, (ax,) = new_figure(width=7.6, height=1.3 + 0.32 * max(rows, 3))
    ax.set_title(title, loc="left", fontweight="bold")
    ax.set_xlabel(xlabel)
    return figure, ax


def _bars(
    rows: Sequence[Mapping[str, Any]],
    label: str,
    series: Mapping[str, str],
    title: str,
    xlabel: str,
) -> Figure:
    """Draw one bar for each row and series; of a single series, negative ones in another colour."""
    some = rows[:DRAWN]
    figure, ax = _chart(title, len(some) * len(series), xlabel=xlabel)
    height = 0.76 / len(series)
    for place, (name, words) in enumerate(series.items()):
        values = [row[name] for row in some]
        is_alone = len(series) == 1
        colours = [BLUE if place or (is_alone and value < 0.0) else VERMILION for value in values]
        at = np.arange(len(some)) + (place - (len(series) - 1) / 2.0) * height
        bars = ax.barh(at, values, 0.9 * height, color=colours, label=words)
        ax.bar_label(bars, [number(value) for value in values], padding=3, fontsize=9)
    ax.axvline(0.0, color=GREY, linewidth=1)
    ax.margins(x=0.15)
    label_rows(ax, [row[label] for row in some])
    if len(series) > 1:
        figure.legend(loc="outside lower center", ncols=len(series), frameon=False)
    return figure


def _null(null: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(width=7.6, height=3.6)
    edges = np.array(null["edges"])
    ax.stairs(null["seen"], edges, fill=True, color=BLUE, label="accounts")
    ax.stairs(null["expected"], edges, color=GREY, linestyle="--", label="honest accounts (null)")
    if null["threshold"] is not None:
        ax.axvline(null["threshold"], color=VERMILION, label="flagged from here")
    # Square roots show a few accounts far out beside thousands.
    ax.set_yscale("function", functions=(_root, np.square))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set(xlabel=null["name"], ylabel="share of accounts", ylim=(0.0, None))
    ax.set_title("Scores of accounts, and of honest ones", loc="left", fontweight="bold")
    ax.legend(frameon=False)
    return figure


def _root(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.maximum(values, 0.0)))


def _time(line: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(width=7.6, height=3.2)
    for counts, name, colour in (
        (line["others"], "all others", BLUE),
        (line["flagged"], "flagged accounts", VERMILION),
    ):
        shares = np.array(counts) / max(sum(counts), 1)
        ax.stairs(shares, fill=True, alpha=0.55, color=colour, label=name)
    last = len(line["starts"]) - 1
    ends = [line["starts"][place].partition("T")[0] for place in (0, last)]
    ax.set_xticks([0, last], ends, parse_math=False)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set(ylabel="share of their events", xlim=(0, last + 1))
    ax.set_title("Activity over time", loc="left", fontweight="bold")
    ax.legend(frameon=False)
    return figure


def _red_team(found: RedTeam, rows: Sequence[Mapping[str, Any]]) -> Figure:
    figure, axes = new_figure(width=9.6, height=3.8, panels=2, share_y=False)
    shares = [row["share"] for row in rows]
    for ax, what, title in (
        (axes[0], "shift", "Shift of the target's mean"),
        (axes[1], "hits", "Decisions in its interest"),
    ):
        ends = []
        for kind, colour in (("naive", VERMILION), ("robust", BLUE)):
            values = [row[f"{kind}_{what}"] for row in rows]
            ax.plot(shares, values, "o-", color=colour, linewidth=2)
            ends.append((values[-1], kind, colour))
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set_xlabel("share of colluding accounts")
        ax.set_title(title, loc="left", fontweight="bold")
        label_ends(ax, ends)
    axes[1].yaxis.set_major_formatter(PercentFormatter(1.0))
    axes[1].set_ylim(-0.02, 1.02)
    figure.suptitle(f"Red team: {found.kind}", x=0.01, ha="left", fontsize=10, color=GREY)
    return figure


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
    """Write the figures and their data, and return the files."""
    data = found.to_json()
    with mpl.rc_context(STYLE):
        files = write_figure(_estimates(data), folder, "uplift", data["estimates"])
        if data["contexts"]:
            figure = _by_context(data["contexts"])
            files += write_figure(figure, folder, "contexts", data["contexts"])
    return files


SEEN = (("logged", "logging", GREY), ("naive", "naive", VERMILION), ("robust", "robust", BLUE))
"""What is drawn side by side: name in the data, name in the legend, colour."""


def _estimates(data: Mapping[str, Any]) -> Figure:
    """Draw values beside what was logged, and uplifts."""
    rows = data["estimates"]
    figure, axes = new_figure(width=9.6, height=3.8, panels=2)
    users = {True: "robust", False: "naive"}
    names = [f"{row['estimator'].upper()}, {users[row['robust']]}" for row in rows]
    for ax, what, title in (
        (axes[0], "value", "Mean reward per visit"),
        (axes[1], "uplift", "Uplift over the baseline"),
    ):
        for place, row in enumerate(rows):
            _interval(ax, place, row[what], BLUE if row["robust"] else VERMILION)
        ax.set_title(title, loc="left", fontweight="bold")
        ax.set_xlabel(f"95%, {data['condition']}")
    _interval(axes[0], len(rows), data["logged"], GREY)
    axes[1].axvline(0.0, color=GREY, linewidth=1)
    for ax in axes:
        label_rows(ax, [*names, "logging"])
    return figure


def _by_context(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the values of logging, naive and robust estimates side by side."""
    some = rows[:DRAWN]
    figure, ax = _chart("Mean reward per visit", 2 * len(some), xlabel="by DR, with 95% intervals")
    for place, row in enumerate(some):
        for shift, (name, _, colour) in zip((-0.25, 0.0, 0.25), SEEN, strict=True):
            _interval(ax, place + shift, row[name], colour)
    for _, name, colour in SEEN:
        ax.plot([], [], "o-", color=colour, label=name)
    label_rows(ax, [row["context"] for row in some])
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _interval(ax: Axes, place: float, found: Mapping[str, float | None], colour: str) -> None:
    """Draw an estimate and its interval; nothing where nothing is known."""
    value, low, high = found["estimate"], found["low"], found["high"]
    if value is None:
        return
    if low is not None and high is not None:
        ax.plot([low, high], [place, place], color=colour, linewidth=2.5)
    ax.plot([value], [place], "o", color=colour, markersize=6)
