from __future__ import annotations

import numpy as np

from unswayed.experiments.sweeps import world
from unswayed.simulation.simulate import run_repetition


def test_tastes_are_fixed_bounded_and_uniform() -> None:
    """Rewards are means plus noise; with hardly any noise they show each user's own mean."""
    settings = world(
        users=2000, contexts=10, actions=5, alpha=0.0, perturbation=0.2, deviation=1e-9
    )
    match = settings.match("naive-mean", 0)
    shifts = np.full((2000, 10, 5), np.nan)
    for played in match.rounds():
        place = played.users, played.contexts, played.actions
        shift = played.rewards - match.instance.mean_rewards[played.contexts, played.actions]
        known = ~np.isnan(shifts[place])
        np.testing.assert_allclose(shift[known], shifts[place][known], atol=1e-6)
        shifts[place] = shift
    seen = shifts[~np.isnan(shifts)]
    assert len(seen) > 40_000
    assert np.abs(seen).max() <= 0.2 + 1e-6
    # The mean of 40,000 uniform numbers on [-1, 1] has standard error 0.0029; that of their
    # squares, with mean 1/3 and variance 4/45, has 0.0015.
    assert abs((seen / 0.2).mean()) < 5 * 0.0029
    assert abs(((seen / 0.2) ** 2).mean() - 1 / 3) < 5 * 0.0015
    # Tastes of neighbouring users are independent; their products have variance 1/9.
    products = (shifts[:-1] * shifts[1:] / 0.04)[~np.isnan(shifts[:-1] * shifts[1:])]
    assert abs(products.mean()) < 5 * np.sqrt(1 / 9 / len(products))


def test_regret_is_measured_against_each_users_own_best_action(seed: int) -> None:
    """Because of tastes, every single policy for all users has a positive regret."""
    common, own = (
        run_repetition(world(users=150, perturbation=taste, seed=seed), "oracle-ucb", 0, "regret")
        for taste in (0.0, 0.8)
    )
    assert own.loss > 2.0 * common.loss
