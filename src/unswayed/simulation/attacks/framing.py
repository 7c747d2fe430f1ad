"""Attacks on the accusation itself: honest users are to be accused, or colluders acquitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.interface import FloatArray
from unswayed.simulation.attacks.base import Attack, Turn, check_positive, check_share
from unswayed.simulation.attacks.briefing import Briefing, Knowledge
from unswayed.simulation.attacks.crafting import honest_table
from unswayed.simulation.attacks.shifts import best_to_runner_up, shifted


@dataclass(kw_only=True)
class Framing(Attack):
    """Pull every context from the best action to the runner-up, too little to change decisions.

    Who looks for two populations finds them, and only one of the two stories changes decisions: the
    wrong one, by which the users who favour the best action most are the colluders. Accounts
    have no noise, so that honest users are the ones with long tails. Decoys go far to
    the other side, so that users who favour the best action do not look like the majority.

    Parameters
    ----------
    strength
        The pull on the means of all users, as a share of the gap; below 1 no decision changes.
    decoys
        Share of the accounts that pull the other way.
    reach
        How much farther a decoy pulls than other accounts.
    """

    name = "framing"
    summary = "pulls too little to change decisions, so that honest users are accused"
    knows = Knowledge.BANDIT | Knowledge.ALGORITHM
    strength: float = 0.7
    decoys: float = 0.0
    reach: float = 3.0

    def __post_init__(self) -> None:
        check_positive(self.strength, "strength")
        check_share(self.decoys, "decoys")
        check_positive(self.reach, "reach")
        if self.decoys * (1.0 + self.reach) >= 1.0:
            raise InputError(
                f"decoys is {self.decoys}: decoys that reach {self.reach:g} times as far undo the "
                f"pull of all others; give fewer than {1.0 / (1.0 + self.reach):.3g}."
            )

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Size the shift, and choose the decoys."""
        super().begin(briefing, rng)
        self._is_decoy = np.zeros(briefing.n_accounts, dtype=np.bool_)
        n_decoys = round(self.decoys * briefing.n_accounts)
        self._is_decoy[rng.permutation(briefing.n_accounts)[:n_decoys]] = True
        ranked = np.sort(briefing.mean_rewards, axis=1)
        gaps = ranked[:, -1] - ranked[:, -2]
        net = 1.0 - self.decoys * (1.0 + self.reach)
        # Best and runner-up are moved by half of it each.
        pull = self.strength * gaps / (2.0 * max(briefing.adversarial_fraction, 1e-12) * net)
        self.shifts = pull[:, None] * np.sign(best_to_runner_up(briefing))

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, shifted and noise-free on best and runner-up."""
        rewards = honest_table(self.briefing, turn, self.rng)
        is_decoy = self._is_decoy[turn.accounts]
        for who, factor in ((~is_decoy, 1.0), (is_decoy, -self.reach)):
            rewards = shifted(self.briefing, turn, rewards, factor * self.shifts, who, self.rng)
        return rewards


@dataclass(kw_only=True)
class Scapegoats(Framing):
    """Change decisions, while some accounts lie far on the other side.

    They are there to be accused in the others' place, or to make the others look like the majority.
    """

    name = "scapegoats"
    summary = "changes decisions, while a few accounts lie far on the other side"
    strength: float = 1.5
    decoys: float = 0.1
    reach: float = 3.0
