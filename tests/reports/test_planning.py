from __future__ import annotations

import json
from pathlib import Path

from unswayed.reports.planning import draw_plays, planned_plays, write_picture

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_the_picture_of_the_page_shows_what_the_planner_says(tmp_path: Path) -> None:
    """Half the loss takes four times the plays, and no plan lies below its lower bound."""
    rows = planned_plays()
    assert json.loads((IMAGES / "planning-plays.json").read_text())["plans"] == rows
    plays = {(row["alpha"], row["epsilon"]): row["plays_per_user"] for row in rows}
    assert 3.8 < plays[0.1, 0.02] / plays[0.1, 0.04] < 4.2
    assert all(row["plays_per_user"] > row["lower_bound"] for row in rows)
    files = write_picture(tmp_path)
    assert sorted(path.suffix for path in files) == [".json", ".png", ".svg"]
    assert all((IMAGES / path.name).is_file() for path in files)


def test_every_share_of_colluders_has_a_line_and_a_bound() -> None:
    (ax,) = draw_plays(planned_plays()).axes
    assert len(ax.lines) == 6
