"""Figures: places of names, looks of learners, and arbitrary labels."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
from hypothesis import given
from hypothesis import strategies as st

from unswayed.learners.players import learner_specs
from unswayed.reports.style import (
    LOOKS,
    STYLE,
    label_ends,
    label_rows,
    look_of,
    new_figure,
    spread,
    write_figure,
)

UNIT = st.floats(0, 1)


@given(st.lists(UNIT, max_size=12).map(sorted), st.floats(0.01, 0.2))
def test_names_keep_their_order_and_do_not_overlap(places: list[float], apart: float) -> None:
    moved = spread(places, apart=apart, most=1.0)
    assert all(later - earlier >= apart - 1e-9 for earlier, later in pairwise(moved))
    assert all(place >= 0 for place in moved)
    if (len(places) - 1) * apart < 1:
        assert all(place <= 1 + 1e-9 for place in moved)


def test_no_two_algorithms_look_alike() -> None:
    looks = [look_of(name) for name in {*LOOKS, *learner_specs()}]
    assert len({(look.colour, look.marker) for look in looks}) == len(looks)
    assert len({look.label for look in looks}) == len(looks)


def test_names_do_not_overlap_in_a_drawn_figure() -> None:
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=6, height=4)
        ax.set_ylim(0, 1)
        label_ends(ax, [(0.5, "one", "k"), (0.5, "two", "k"), (0.51, "three", "k")])
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


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
