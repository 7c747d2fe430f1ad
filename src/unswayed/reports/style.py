"""The style of figures: colours, names of algorithms, labels; and saving them with their data."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from unswayed.storage import make_folder, whole_file
from unswayed.visible import visible

# Okabe and Ito's colours, which are distinguishable with any kind of colour vision.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
# Ours: greys and a brown beside them; Okabe and Ito's yellow is too pale for lines on white.
GREY, PALE_GREY, BROWN = "#555555", "#999999", "#7A5C1E"

STYLE: dict[Any, Any] = {  # matplotlib types the keys as literals
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "unswayed",  # the same picture gives the same bytes
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The style of one algorithm in all figures: its name, colour, marker and dashes."""

    label: str
    colour: str
    marker: str
    dashes: str = "-"


LOOKS = {
    "paper": Look(label="Robust MCB", colour=BLUE, marker="o"),
    "paper-literal": Look(label="Robust MCB as printed", colour=BLUE, marker="D", dashes=":"),
    "paper-literal-on-log": Look(
        label="Robust MCB as printed, on a log", colour=BLUE, marker="P", dashes=":"
    ),
    "paper-per-visit": Look(label="Robust MCB per visit", colour=SKY, marker="d", dashes="--"),
    "paper-on-log": Look(label="Robust MCB on a log", colour=BLUE, marker="h", dashes="-."),
    "bounded-on-log": Look(label="Bounded on a log", colour=VERMILION, marker="p", dashes="-."),
    "sticky": Look(label="one action for good", colour=PURPLE, marker="o"),
    "uniform": Look(label="uniform play", colour=GREEN, marker="s"),
    "naive-ucb": Look(label="Naive UCB", colour=ORANGE, marker="s"),
    "independent-ucb": Look(label="Independent UCB", colour=GREEN, marker="^"),
    "oracle": Look(label="Oracle", colour=BLACK, marker=".", dashes=":"),
    "liu": Look(label="Liu-style", colour=SKY, marker="D", dashes="--"),
    "barbar": Look(label="BARBAR", colour=PURPLE, marker="v", dashes="--"),
    "active-arm-elimination": Look(
        label="Layered elimination", colour=PALE_GREY, marker="P", dashes="--"
    ),
    "naive-mean": Look(label="Naive mean", colour=BROWN, marker="X"),
    "epochs": Look(label="Ours (epochs)", colour=VERMILION, marker="o"),
    "oracle-ucb": Look(label="UCB on good users", colour=BLACK, marker="+", dashes=":"),
    "thompson": Look(label="Thompson", colour=GREY, marker=">", dashes="-."),
}


def look_of(algorithm: str) -> Look:
    """Return the style of an algorithm; unknown names get that of the project's own learner."""
    own = Look(label=f"Ours ({algorithm})", colour=VERMILION, marker="*")
    return LOOKS.get(algorithm, own)


def new_figure(
    *,
    width: float,
    height: float,
    panels: int = 1,
    rows: int = 1,
    share_y: bool = True,
    width_ratios: Sequence[float] | None = None,
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with its panels side by side, or in rows; call it in ``STYLE``."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        rows, panels // rows, sharey=share_y, squeeze=False, width_ratios=width_ratios
    )
    return figure, list(axes.ravel())


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG and PNG, the same bytes each time, and return the files."""
    written = []
    for ending, metadata in ((".svg", {"Date": None}), (".png", {"Software": None})):
        path = folder / f"{name}{ending}"
        with mpl.rc_context(STYLE), whole_file(path) as draft:
            figure.savefig(draft, format=ending[1:], dpi=130, metadata=metadata)
        written.append(path)
    return written


def label_ends(ax: Axes, ends: Sequence[tuple[float, str, str]], *, font_size: float = 9.5) -> None:
    """Name lines at their right ends, in their colours, pushed apart where they would overlap.

    Parameters
    ----------
    ends
        For each line its last value, its name and its colour. Set the limits of the axes first.
    """
    # Names need 1.25 lines of text each, as a share of the height of the axes.
    apart = 1.25 * font_size * ax.figure.dpi / 72.0 / ax.get_window_extent().height
    to_share = ax.transData + ax.transAxes.inverted()
    (low, high), right = ax.get_ylim(), ax.get_xlim()[1]
    shares = [
        (float(to_share.transform((right, min(max(value, low), high)))[1]), name, colour)
        for value, name, colour in ends
    ]
    shares.sort(key=lambda end: end[0])
    places = spread([share for share, _, _ in shares], apart=apart, most=1.0)
    for place, (_, name, colour) in zip(places, shares, strict=True):
        ax.annotate(
            name,
            (1.0, place),
            xycoords="axes fraction",
            xytext=(7, 0),
            textcoords="offset points",
            color=colour,
            fontsize=font_size,
            fontweight="bold",
            verticalalignment="center",
            annotation_clip=False,
        )


def spread(places: Sequence[float], *, apart: float, most: float = math.inf) -> list[float]:
    """Move ascending positions by the least amounts that keep them ``apart`` and within ``most``.

    >>> [round(place, 2) for place in spread([0.5, 0.5, 1.5], apart=0.5)]
    [0.25, 0.75, 1.5]
    >>> spread([0.0, 0.0], apart=0.5)
    [0.0, 0.5]
    >>> spread([1.0, 1.0], apart=0.5, most=1.0)
    [0.5, 1.0]
    """
    # Isotonic regression: places minus multiples of the distance must not decrease.
    steps = apart * np.arange(len(places))
    moved = isotonic_regression(np.array(places) - steps).x if places else steps
    highest = most - (len(places) - 1) * apart
    return list(map(float, np.maximum(np.minimum(moved, highest), 0.0) + steps))


MOST_LETTERS = 28
"""Ours: maximum length of an axis label."""


def label_rows(ax: Axes, labels: Sequence[object]) -> None:
    """Name the rows of a chart from the top; labels are shown as they are, never as formulas."""
    names = [visible(str(label), most=MOST_LETTERS) for label in labels]
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)


def write_figure(figure: Figure, folder: Path, name: str, data: object) -> list[Path]:
    """Write a figure and its data as JSON, and return the files."""
    make_folder(folder)
    file = folder / f"{name}.json"
    with whole_file(file) as draft:
        text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
        draft.write_text(text + "\n", encoding="utf-8")
    with warnings.catch_warnings():
        # Labels may have characters that the font lacks; they are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        return [*save(figure, folder, name), file]
