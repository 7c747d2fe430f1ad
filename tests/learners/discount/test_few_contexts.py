"""Coalitions that sink the best action of a few contexts."""

import pytest

from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import simulate

TWO_CELLS_A_USER = {"contexts": 2, "actions": 10, "users": 300, "interactions": 30, "gap": 0.3}
FIVE_CONTEXTS = {"contexts": 5, "actions": 5, "users": 2000, "interactions": 100, "gap": 0.1}


@pytest.mark.parametrize("size", [TWO_CELLS_A_USER, FIVE_CONTEXTS])
def test_sunk_winners_of_few_contexts_are_kept(size: dict[str, float], seed: int) -> None:
    """With two cells per user the paper's means decide; else the deal of means without the group.

    The pooled mean is the negative control.
    """
    settings = Settings(
        **{  # type: ignore[arg-type]  # of several types
            "alpha": 0.1 if size is FIVE_CONTEXTS else 0.2,
            "attack": "nuke",
            "algorithms": ("discount", "naive-mean"),
            "repetitions": 4,
            "seed": seed,
            **size,
        }
    )
    rows = simulate(settings)
    losses = {
        name: [row.loss for row in rows if row.algorithm == name]
        for name in ("discount", "naive-mean")
    }
    assert max(losses["discount"]) == 0.0
    assert sum(loss > size["gap"] / 3.0 for loss in losses["naive-mean"]) >= 3
