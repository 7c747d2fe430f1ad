"""Oblivious attacks with answers at the ends of the range: push and nuke."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.interface import FloatArray
from unswayed.simulation.attacks.base import Attack, Turn, check_share


@dataclass(kw_only=True)
class Push(Attack):
    """Praise the target and damn everything else.

    Parameters
    ----------
    strength
        Probability that an answer is the lie; otherwise it is a coin between the two ends.
    filler
        Share of the answers off the target that are coins as well, for cover.
    """

    name = "push"
    summary = "the highest reward for the target, the lowest for every other action"
    strength: float = 1.0
    filler: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")
        check_share(self.filler, "filler")

    def answers(self, turn: Turn) -> FloatArray:
        """Return the highest reward on the target and the lowest elsewhere, up to filler."""
        n_arrivals, n_actions = turn.contexts.size, self.briefing.n_actions
        is_praised = np.zeros((n_arrivals, n_actions), dtype=np.bool_)
        target = self.briefing.aim.target[turn.contexts]
        is_praised[np.arange(n_arrivals), target] = True
        return _with_coins(self, is_praised, is_praised)


@dataclass(kw_only=True)
class Nuke(Attack):
    """Damn the rival and praise everything else.

    Parameters are those of `Push`, with the rival in the target's place.
    """

    name = "nuke"
    summary = "the lowest reward for the rival (the best action), the highest for all others"
    strength: float = 1.0
    filler: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")
        check_share(self.filler, "filler")

    def answers(self, turn: Turn) -> FloatArray:
        """Return the lowest reward on the rival and the highest elsewhere, up to filler."""
        n_arrivals, n_actions = turn.contexts.size, self.briefing.n_actions
        is_rival = np.zeros((n_arrivals, n_actions), dtype=np.bool_)
        is_rival[np.arange(n_arrivals), self.briefing.aim.rival[turn.contexts]] = True
        return _with_coins(self, ~is_rival, is_rival)


def _with_coins(
    attack: Push | Nuke,
    is_praised: np.typing.NDArray[np.bool_],
    is_aimed: np.typing.NDArray[np.bool_],
) -> FloatArray:
    """Return the ends of the range as praised, with coins for fillers and weak lies."""
    if attack.strength < 1.0 or attack.filler > 0.0:
        lie_probability = np.where(
            is_aimed, attack.strength, attack.strength * (1.0 - attack.filler)
        )
        is_lie = attack.rng.random(is_praised.shape) < lie_probability
        coins = attack.rng.random(is_praised.shape) < 0.5
        is_praised = np.where(is_lie, is_praised, coins)
    return np.where(is_praised, attack.briefing.highest, attack.briefing.lowest)
