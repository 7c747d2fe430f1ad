from __future__ import annotations

from pathlib import Path

from unswayed.demo.estimates import NAME, draw_estimates, estimates
from unswayed.demo.shop import play

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_the_picture_shows_a_lie_that_the_mean_believes_and_the_learner_does_not() -> None:
    """The honest customers' rates are the yardstick."""
    rows = estimates(play().log)

    def best(name: str) -> str:
        return str(max(rows, key=lambda row: float(row[name]))["item"])

    assert (best("naive"), best("mean"), best("truth")) == ("MegaCola", "soup", "soup")
    assert all(float(row["low"]) <= float(row["truth"]) <= float(row["high"]) for row in rows)
    (ax,) = draw_estimates(rows).axes
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == "soup"
    for ending in (".svg", ".png", ".json"):
        assert (IMAGES / f"{NAME}{ending}").is_file()
