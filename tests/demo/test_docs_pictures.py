from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from unswayed.demo.shop import play
from unswayed.errors import InputError

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SCRIPT = SimpleNamespace(**runpy.run_path(str(ROOT / "scripts/draw-pictures")))


def test_the_picture_shows_an_attack_that_misleads_the_mean_but_not_the_learner() -> None:
    """The reference is the honest customers' rates."""
    rows = SCRIPT.estimates(play().log)

    def best(name: str) -> str:
        return str(max(rows, key=lambda row: float(row[name]))["item"])

    assert (best("naive"), best("mean"), best("truth")) == ("MegaCola", "soup", "soup")
    assert all(float(row["low"]) <= float(row["truth"]) <= float(row["high"]) for row in rows)
    (ax,) = SCRIPT.draw_estimates(rows).axes
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == "soup"


def test_the_picture_on_the_page_agrees_with_the_planner() -> None:
    """Half the loss needs four times the plays, and no plan is below its lower bound."""
    rows = SCRIPT.planned_plays()
    assert json.loads((IMAGES / "planning-plays.json").read_text())["plans"] == rows
    plays = {(row["alpha"], row["epsilon"]): row["plays_per_user"] for row in rows}
    assert 3.8 < plays[0.1, 0.02] / plays[0.1, 0.04] < 4.2
    assert all(row["plays_per_user"] > row["lower_bound"] for row in rows)


def test_every_share_of_colluders_has_a_line_and_a_bound() -> None:
    (ax,) = SCRIPT.draw_plays(SCRIPT.planned_plays()).axes
    assert len(ax.lines) == 6


def test_the_two_worlds_are_drawn_with_bars_of_the_same_height() -> None:
    left, right = SCRIPT.draw_hidden_worlds().axes
    heights = [
        np.array([bar.get_y() + bar.get_height() for bar in ax.patches[10:20]])
        for ax in (left, right)
    ]
    assert np.allclose(heights[0], heights[1], atol=1e-12)
    assert heights[0].sum() == pytest.approx(1)


def test_a_gap_that_cannot_be_hidden_is_not_drawn_as_hidden() -> None:
    with pytest.raises(InputError, match="Draw fewer plays"):
        SCRIPT.draw_hidden_worlds(interactions=10)


def test_a_gap_that_the_coalition_cannot_hide_is_not_marked() -> None:
    (ax,) = SCRIPT.draw_smallest_coalitions(alpha=0.1).axes
    assert sorted(text.get_text() for text in ax.texts)[:2] == ["2 plays", "7 plays"]
    assert len(ax.texts) == 3


@pytest.mark.slow
def test_pictures_are_reproducible_byte_by_byte(tmp_path: Path) -> None:
    first, second = SCRIPT.write_pictures(tmp_path / "a"), SCRIPT.write_pictures(tmp_path / "b")
    assert [path.suffix for path in first] == [".svg", ".png", ".json"] * 2 + [".svg", ".png"] * 2
    assert all((IMAGES / path.name).is_file() for path in first)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
