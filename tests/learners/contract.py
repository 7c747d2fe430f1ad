"""The contract of every learner, as checks that any test can call."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import IntArray
from unswayed.learners.interface import LearnerMaker, Setting
from unswayed.randomness import generator

N_USERS, N_CONTEXTS, N_ACTIONS, N_ROUNDS = 40, 3, 4, 12


def check_learner(make: LearnerMaker, *, seed: int) -> None:
    """Let a learner play in a small world, and check the whole contract of ``Learner``.

    Actions exist, recommendations are probabilities, the same stream gives the same actions, and
    only the outcomes of played actions are read.
    """
    first = _played(make, seed=seed, spoil_unplayed=False)
    again = _played(make, seed=seed, spoil_unplayed=False)
    spoiled = _played(make, seed=seed, spoil_unplayed=True)
    np.testing.assert_array_equal(first, again, err_msg="the same stream gave other actions")
    np.testing.assert_array_equal(first, spoiled, err_msg="outcomes of unplayed actions were read")


def _played(make: LearnerMaker, *, seed: int, spoil_unplayed: bool) -> IntArray:
    """Return the actions of a run; ``spoil_unplayed`` replaces the outcomes of others.

    A copy of the learner with the same random stream plays each round first, so its actions are
    known. If the learner reads spoiled outcomes, the two diverge.
    """
    world = generator(seed, "contract")
    learner, twin = (make(_setting(seed)) for _ in range(2))
    actions = []
    for number in range(N_ROUNDS):
        users = world.integers(0, N_USERS, N_USERS)
        contexts = world.integers(0, N_CONTEXTS, N_USERS)
        outcomes = (world.random((N_USERS, N_ACTIONS)) < 0.5).astype(np.float64)
        expected = twin.play(users, contexts, outcomes.copy())
        if spoil_unplayed:
            spoiled = world.normal(100.0, 50.0, outcomes.shape)
            rows = np.arange(N_USERS)
            spoiled[rows, expected] = outcomes[rows, expected]
            outcomes = spoiled
        else:
            # keeps the random streams of both runs in step
            world.normal(size=outcomes.shape)
        played = learner.play(users, contexts, outcomes)
        assert played.shape == users.shape
        assert np.issubdtype(played.dtype, np.integer)
        assert ((played >= 0) & (played < N_ACTIONS)).all()
        actions.append(played)
        if number not in (
            0,
            N_ROUNDS // 2,
            N_ROUNDS - 1,
        ):  # recommending a policy includes learning
            continue
        recommended = learner.action_probabilities(np.arange(N_USERS))
        twin.action_probabilities(np.arange(N_USERS))
        assert recommended.shape == (N_CONTEXTS, N_ACTIONS)
        assert (recommended >= 0).all()
        np.testing.assert_allclose(recommended.sum(axis=1), 1.0)
    return np.concatenate(actions)


def _setting(seed: int) -> Setting:
    return Setting(
        n_users=N_USERS,
        n_contexts=N_CONTEXTS,
        n_actions=N_ACTIONS,
        interactions_per_user=N_ROUNDS,
        alpha=0.2,
        rng=generator(seed, "contract", "learner"),
    )
