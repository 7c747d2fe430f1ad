"""The whole of it: a server, customers and colluders over HTTP, learning, serving."""

from pathlib import Path

import numpy as np

from unswayed.demo.service import ServedOutcome, draw_served, play_served


def test_the_service_serves_what_honest_customers_like_where_a_naive_one_is_fooled() -> None:
    outcome = play_served(n_days=12, learning_days=(10,))
    assert outcome.served == outcome.best
    assert set(outcome.naive_policy.values()) == {"MegaCola"}
    # A fifth of the customers goes on exploring, and gets less than half of the best.
    assert outcome.robust[-1] > 0.85
    assert outcome.naive[-1] < 0.7
    assert outcome.robust[0] < 0.6


def test_the_picture_comes_with_its_data(tmp_path: Path) -> None:
    outcome = ServedOutcome(np.linspace(0.4, 0.9, 30), np.full(30, 0.5), {}, {})
    files = draw_served(outcome, tmp_path)
    assert [file.name for file in files] == ["service.svg", "service.png", "service.json"]
    assert all(file.stat().st_size for file in files)
