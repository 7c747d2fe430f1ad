"""Figures with labels of a log, written as SVG and PNG with their data as JSON beside them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unswayed.reports.style import save
from unswayed.storage import make_folder, whole_file
from unswayed.visible import visible

MOST_LETTERS = 28
"""Ours: letters of a label at an axis."""


def label_rows(ax: Axes, labels: Sequence[object]) -> None:
    """Name the rows of a chart from the top; labels are shown as they are, never as formulas."""
    names = [visible(str(label), most=MOST_LETTERS) for label in labels]
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)


def write_figure(
    figure: Figure, folder: Path, name: str, rows: Sequence[Mapping[str, Any]]
) -> list[Path]:
    """Write a figure and its data, and return the files."""
    make_folder(folder)
    data = folder / f"{name}.json"
    with whole_file(data) as draft:
        text = json.dumps(list(rows), indent=1, allow_nan=False, ensure_ascii=False)
        draft.write_text(text + "\n", encoding="utf-8")
    with warnings.catch_warnings():
        # Labels may have letters that the font lacks; a box stands for each.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        return [*save(figure, folder, name), data]
