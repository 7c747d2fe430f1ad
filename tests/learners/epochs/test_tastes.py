"""Tastes while serving: the common policy where there are none, one's own where they are large."""

import numpy as np
import pytest

from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Goal, run_repetition


def regret(algorithm: str, taste: float, seed: int) -> float:
    settings = Settings(
        contexts=3,
        actions=3,
        users=200,
        interactions=128,
        alpha=0.1,
        attack="push",
        algorithms=(algorithm,),
        perturbation=taste,
        seed=seed,
    )
    return run_repetition(settings, algorithm, 0, Goal.REGRET).loss


@pytest.mark.slow
def test_tastes_are_learned_where_they_are_and_cost_little_where_they_are_not(seed: int) -> None:
    none, large = (
        {name: regret(name, taste, seed) for name in ("epochs", "epochs-personal")}
        for taste in (0.0, 0.8)
    )
    assert none["epochs-personal"] < 1.5 * none["epochs"]
    assert large["epochs-personal"] < 0.75 * large["epochs"]
    assert np.isfinite(list(none.values())).all()


def test_regret_is_measured_against_each_users_own_best_action(seed: int) -> None:
    """Whoever plays the common policy loses by tastes alone."""
    assert regret("oracle-ucb", 0.8, seed) > 2.0 * regret("oracle-ucb", 0.0, seed)
    with pytest.raises(ValueError, match="perturbation"):
        regret("oracle-ucb", -0.1, seed)
