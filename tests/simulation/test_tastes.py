from __future__ import annotations

import numpy as np

from unswayed.experiments.sweeps import world
from unswayed.simulation.arena import Tastes
from unswayed.simulation.simulate import run_repetition


def test_a_taste_is_fixed_bounded_and_spread_evenly(rng: np.random.Generator) -> None:
    tastes = Tastes(magnitude=0.2, n_contexts=10, n_actions=5, key=np.uint64(rng.integers(2**62)))
    users, contexts = np.divmod(np.arange(20_000), 10)
    shift = tastes.shift(users, contexts)
    assert shift.shape == (20_000, 5)
    assert np.abs(shift).max() <= 0.2
    order = rng.permutation(20_000)
    np.testing.assert_array_equal(tastes.shift(users[order], contexts[order]), shift[order])
    # 100,000 uniforms on [-1, 1] have standard error 0.0018 for the mean; their squares, with
    # mean 1/3 and variance 4/45, 0.00094.
    assert abs((shift / 0.2).mean()) < 5 * 0.0018
    assert abs(((shift / 0.2) ** 2).mean() - 1 / 3) < 5 * 0.00094
    # Neighbouring users' tastes are unrelated: 99,950 products of variance 1/9.
    assert abs((shift[:-10] * shift[10:] / 0.04).mean()) < 5 * np.sqrt(1 / 9 / 99_950)


def test_regret_is_measured_against_each_users_own_best_action(seed: int) -> None:
    """Whoever plays the common policy loses by tastes alone."""
    common, own = (
        run_repetition(world(users=150, perturbation=taste, seed=seed), "oracle-ucb", 0, "regret")
        for taste in (0.0, 0.8)
    )
    assert own.loss > 2.0 * common.loss
