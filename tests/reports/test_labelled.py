"""Figures with arbitrary labels: files and data are complete."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from unswayed.reports.style import label_rows, new_figure, write_figure

HOSTILE = [
    "<script>alert(1)</script>",
    "$\\frac{1}{$",
    "a -- > b",
    "x" * 10_000,
    "\u05e9\u05dc\u05d5\u05dd \u202egnp.exe",
    "\N{GRINNING FACE} \N{PILE OF POO}",
    "null\x00 and bell\x07",
    "",
]


def test_hostile_labels_are_drawn_and_kept_as_data(tmp_path: Path) -> None:
    figure, (ax,) = new_figure(width=6, height=4)
    ax.barh(range(len(HOSTILE)), range(len(HOSTILE)))
    label_rows(ax, HOSTILE)
    rows = [{"label": label, "value": 0.5} for label in HOSTILE]
    svg, png, data = write_figure(figure, tmp_path / "new", "bars", rows)
    assert png.read_bytes().startswith(b"\x89PNG")
    tags = {element.tag.rpartition("}")[2] for element in ET.parse(svg).iter()}
    assert "script" not in tags
    assert {"svg", "path"} <= tags
    assert json.loads(data.read_text(encoding="utf-8")) == rows
