"""Coalitions that sink the best action of a few contexts."""

from dataclasses import replace

import pytest

from unswayed.learners.design import design_of_log
from unswayed.learners.discount import learn_discounted
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import simulate
from worlds.production import build_production, production_specs

TWO_CELLS_A_USER = {"contexts": 2, "actions": 10, "users": 300, "interactions": 30, "gap": 0.3}
FIVE_CONTEXTS = {"contexts": 5, "actions": 5, "users": 2000, "interactions": 100, "gap": 0.1}


@pytest.mark.parametrize("size", [TWO_CELLS_A_USER, FIVE_CONTEXTS])
def test_sunk_winners_of_few_contexts_are_kept(size: dict[str, float], seed: int) -> None:
    """With two cells per user the paper's means are tried; else a permutation test decides.

    One of four may be lost. The pooled mean is the negative control.
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
    assert sum(loss > 0.0 for loss in losses["discount"]) <= 1
    assert sum(loss > size["gap"] / 3.0 for loss in losses["naive-mean"]) >= 3


def test_in_peace_two_plays_a_user_are_no_reason_to_trim() -> None:
    """The paper's means would cost .28 of what can be won here, where the plain mean is right."""
    (spec,) = (s for s in production_specs("development") if s.name.startswith("stars 3.67"))
    world = build_production(replace(spec, events_per_user=2, n_users=30_000), 32)
    design = design_of_log(world.tallies, "auto")
    learned = learn_discounted(world.tallies, design, adversarial_fraction=0.1)
    assert world.score(world.decide(learned.mean_rewards)) < world.score(world.naive()) + 0.02
