"""The knobs of the tailored attack do what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulation.learners import Believer
from tests.simulation.worlds import CROWD, GAP, loss
from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.randomness import generator
from unswayed.simulation.algorithms import OracleMaker
from unswayed.simulation.attacks.base import Turn
from unswayed.simulation.attacks.best_response import Tailored
from unswayed.simulation.instances import RewardLaw


def begun(seed: int, **knobs: Any) -> Tailored:
    """Return an attack that has its briefing from a Gaussian arena."""
    attack = Tailored(**knobs)
    loss(attack, Believer, seed=seed, law=RewardLaw.GAUSSIAN)
    attack.rng = generator(seed, "afterwards")
    return attack


def told(attack: Tailored, *, context: int = 0, plays: int = 40) -> FloatArray:
    """Return all accounts' mean rewards in a context less good users' means."""
    n = attack.briefing.n_accounts
    turn = Turn(round_number=0, accounts=np.arange(n), contexts=np.full(n, context))
    rewards = np.mean([attack.rewards(turn) for _ in range(plays)], axis=0)
    return np.asarray(rewards - attack.briefing.mean_rewards[context])


# Means over 40 plays have a standard error of 0.5 / sqrt(40) = 0.079 for one account, and of 0.0072
# over the 120 accounts; the range of rewards is 3 long.


def test_lies_move_the_runner_up_up_and_the_best_down_by_the_magnitude(seed: int) -> None:
    assert loss(Tailored(magnitude=0.4), Believer, seed=seed) >= GAP / 4 - 1e-12
    assert loss(Tailored(magnitude=0.4), OracleMaker(), seed=seed) == 0.0
    attack = begun(seed, magnitude=0.1)
    ranking = np.argsort(-attack.briefing.mean_rewards[0])
    moved = told(attack).mean(axis=0)
    expected = np.zeros(moved.size)
    expected[ranking[:2]] = -0.3, 0.3
    np.testing.assert_allclose(moved, expected, atol=5 * 0.0072)


def test_honest_plays_dilute_the_lie(seed: int) -> None:
    attack = begun(seed, magnitude=0.1, honest=0.5, direction="down")
    best = attack.briefing.mean_rewards[0].argmax()
    # The coin adds 0.15 / sqrt(4800) = 0.0022.
    assert told(attack).mean(axis=0)[best] == pytest.approx(-0.15, abs=5 * 0.0076)


def test_accounts_that_share_answers_give_the_same_ones(seed: int) -> None:
    attack = begun(seed, shared="answers", opposed=0.25)
    assert np.unique(told(attack, plays=1), axis=0).shape[0] == 2
    assert np.unique(told(begun(seed), plays=1), axis=0).shape[0] == CROWD.n_accounts


@pytest.mark.parametrize(
    "knobs", [{"magnitude": 2.0}, {"direction": "left"}, {"promoted": "me"}, {"shared": "all"}]
)
def test_knobs_that_make_no_sense_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Tailored(**knobs)
