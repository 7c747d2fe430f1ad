from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.reports.limits import draw_hidden_worlds, draw_smallest_coalitions, write_pictures


def test_the_two_worlds_are_drawn_with_bars_of_the_same_height() -> None:
    left, right = draw_hidden_worlds().axes
    heights = [
        np.array([bar.get_y() + bar.get_height() for bar in ax.patches[10:20]])  # type: ignore[attr-defined]  # bars are rectangles
        for ax in (left, right)
    ]
    assert np.allclose(heights[0], heights[1], atol=1e-12)
    assert heights[0].sum() == pytest.approx(1)


def test_a_gap_that_cannot_be_hidden_is_not_drawn_as_hidden() -> None:
    with pytest.raises(InputError, match="Draw fewer plays"):
        draw_hidden_worlds(interactions=10)


def test_a_gap_that_the_coalition_never_hides_gets_no_mark() -> None:
    (ax,) = draw_smallest_coalitions(adversarial_fraction=0.1).axes
    assert sorted(text.get_text() for text in ax.texts)[:2] == ["2 plays", "7 plays"]
    assert len(ax.texts) == 3


def test_the_pictures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    first, second = write_pictures(tmp_path / "a"), write_pictures(tmp_path / "b")
    assert [path.suffix for path in first] == [".svg", ".png"] * 2
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
