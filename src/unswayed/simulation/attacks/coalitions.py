"""How a coalition divides its work: in lockstep, in private, or in parts with aims of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.simulation.attacks.base import Attack, Turn, check_share
from unswayed.simulation.attacks.briefing import Briefing
from unswayed.simulation.attacks.crafting import honest_table, lie
from unswayed.simulation.attacks.knowledge import Knowledge


@dataclass(kw_only=True)
class Lockstep(Attack):
    """Give all accounts one and the same history: one script, many names.

    The script is a good user's draws with target and rival exchanged for the ends of the range.

    Parameters
    ----------
    strength
        Probability, round by round, that the script lies.
    """

    name = "lockstep"
    summary = "identical histories from one script: honest, except on target and rival"
    knows = Knowledge.BANDIT
    strength: float = 1.0

    def __post_init__(self) -> None:
        check_share(self.strength, "strength")

    def contexts(self, turn: Turn) -> IntArray:
        """Return the first account's context for all."""
        return np.full(turn.contexts.size, turn.contexts[0])

    def answers(self, turn: Turn) -> FloatArray:
        """Return one row for all."""
        script = Turn(
            round_number=turn.round_number, accounts=turn.accounts[:1], contexts=turn.contexts[:1]
        )
        row = honest_table(self.briefing, script, self.rng)
        _lie_on_aim(row, script, self.briefing, self.strength, self.rng)
        return np.repeat(row, turn.contexts.size, axis=0)


@dataclass(kw_only=True)
class PrivateSubsets(Attack):
    """Let each account lie in contexts of its own only, and be honest elsewhere.

    Parameters
    ----------
    share
        Share of the contexts in which an account lies; each draws its own.
    """

    name = "private-subsets"
    summary = "each account lies about target and rival in a private random subset of contexts"
    knows = Knowledge.BANDIT
    share: float = 0.5

    def __post_init__(self) -> None:
        check_share(self.share, "share")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Draw the subsets."""
        super().begin(briefing, rng)
        self._lies = rng.random((briefing.n_accounts, briefing.n_contexts)) < self.share

    def answers(self, turn: Turn) -> FloatArray:
        """Return honest draws, with lies in each account's own contexts."""
        answers = honest_table(self.briefing, turn, self.rng)
        lying = np.flatnonzero(self._lies[turn.accounts, turn.contexts])
        contexts = turn.contexts[lying]
        answers[lying, self.briefing.aim.target[contexts]] = self.briefing.highest
        answers[lying, self.briefing.aim.rival[contexts]] = self.briefing.lowest
        return answers


@dataclass(kw_only=True)
class SubCoalitions(Attack):
    """Split into parts that each promote another action against the same rival.

    Parameters
    ----------
    parts
        How many parts; at most one for each action but the rival.
    """

    name = "sub-coalitions"
    summary = "parts of the coalition promote different actions; all demote the rival"
    knows = Knowledge.BANDIT
    parts: int = 3

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise InputError(f"parts is {self.parts}: at least 1 is needed.")

    def answers(self, turn: Turn) -> FloatArray:
        """Return honest draws, with each part's own target praised and the rival damned."""
        briefing = self.briefing
        answers = honest_table(briefing, turn, self.rng)
        rows = np.arange(turn.contexts.size)
        rival = briefing.aim.rival[turn.contexts]
        # Steps of 1 to n_actions - 1 from the rival never lead back to it.
        step = 1 + turn.accounts % min(self.parts, briefing.n_actions - 1)
        answers[rows, (rival + step) % briefing.n_actions] = briefing.highest
        answers[rows, rival] = briefing.lowest
        return answers


def _lie_on_aim(
    answers: FloatArray, turn: Turn, briefing: Briefing, strength: float, rng: np.random.Generator
) -> None:
    aim = briefing.aim
    lie(answers, aim.target[turn.contexts], briefing.highest, strength=strength, rng=rng)
    lie(answers, aim.rival[turn.contexts], briefing.lowest, strength=strength, rng=rng)
