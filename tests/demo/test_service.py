"""End-to-end test: customers and colluders over HTTP, learning, serving and the picture."""

import runpy
from pathlib import Path
from types import SimpleNamespace

SCRIPT = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "scripts/demo-service")))


def test_the_service_serves_the_best_items_although_a_naive_mean_is_misled(
    tmp_path: Path,
) -> None:
    outcome = SCRIPT.play_served(n_days=12, learning_days=(10,))
    assert outcome["unswayed"] == outcome["best"]
    assert set(outcome["naive"].values()) == {"MegaCola"}
    shares = outcome["share_of_honest_purchases"]
    # A fifth of the customers continues to explore and gets less than half of the best reward.
    assert shares["unswayed"][-1] > 0.85
    assert shares["naive"][-1] < 0.7
    assert shares["unswayed"][0] < 0.6
    files = SCRIPT.draw_served(outcome, tmp_path)
    assert [file.name for file in files] == ["service.svg", "service.png", "service.json"]
    assert all(file.stat().st_size for file in files)
