"""How a coalition divides its work: in lockstep, in private, or in parts with aims of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.names import find
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    Turn,
    check_positive,
    check_share,
    honest_table,
)
from unswayed.simulation.attacks.shifts import best_to_runner_up, shifted


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

    def rewards(self, turn: Turn) -> FloatArray:
        """Return one row for all."""
        script = Turn(
            round_number=turn.round_number, accounts=turn.accounts[:1], contexts=turn.contexts[:1]
        )
        row = honest_table(self.briefing, script, self.rng)
        is_lying = self.rng.random(1) < self.strength
        _damn_and_praise(row, script, is_lying, self.briefing)
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

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, with lies in each account's own contexts."""
        rewards = honest_table(self.briefing, turn, self.rng)
        _damn_and_praise(rewards, turn, self._lies[turn.accounts, turn.contexts], self.briefing)
        return rewards


@dataclass(kw_only=True)
class Focus(Attack):
    """Lie in a few contexts only, all accounts in the same ones, and be honest elsewhere.

    Too few coordinates move for a spectrum to show it.

    Parameters
    ----------
    share
        Share of the contexts that are attacked, at least one of them.
    mode
        "frequent": the most frequent contexts; "rare": the least frequent, where searches that
        look at frequent ones first see nothing; "random": any.
    """

    name = "focus"
    summary = "honest except on target and rival in a few contexts, the same for all accounts"
    knows = Knowledge.BANDIT
    share: float = 0.1
    mode: str = "frequent"

    def __post_init__(self) -> None:
        check_share(self.share, "share")
        find(self.mode, dict.fromkeys(("frequent", "rare", "random")), kind="mode of focus")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Choose the contexts."""
        super().begin(briefing, rng)
        order = rng.permutation(briefing.n_contexts)
        if self.mode != "random":
            # Of equally frequent contexts any: the sort is stable on the shuffled order.
            frequencies = briefing.context_probabilities[order]
            sign = -1.0 if self.mode == "frequent" else 1.0
            order = order[np.argsort(sign * frequencies, kind="stable")]
        self._is_attacked = np.zeros(briefing.n_contexts, dtype=np.bool_)
        self._is_attacked[order[: max(1, round(self.share * order.size))]] = True

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, with lies in the chosen contexts."""
        rewards = honest_table(self.briefing, turn, self.rng)
        _damn_and_praise(rewards, turn, self._is_attacked[turn.contexts], self.briefing)
        return rewards


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

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, with each part's own target praised and the rival damned."""
        briefing = self.briefing
        rewards = honest_table(briefing, turn, self.rng)
        rows = np.arange(turn.contexts.size)
        rival = briefing.aim.rival[turn.contexts]
        # Steps of 1 to n_actions - 1 from the rival never lead back to it.
        step = 1 + turn.accounts % min(self.parts, briefing.n_actions - 1)
        rewards[rows, (rival + step) % briefing.n_actions] = briefing.highest
        rewards[rows, rival] = briefing.lowest
        return rewards


@dataclass(kw_only=True)
class Ladder(Attack):
    """Spread the accounts' lies over evenly spaced sizes.

    Clustering that joins users who look alike, link by link, puts everybody into one
    cluster: the first rung looks like a good user, each rung like the next, and the accounts on the
    top pull as far as they like. Accounts have no noise where they lie, so that neighbours look
    alike for longer.

    Parameters
    ----------
    height
        Shift of the top from best to runner-up, in deviations of a reward.
    rungs
        Share of the accounts that stand on rungs, evenly spaced; all others stand on the top.
    """

    name = "ladder"
    summary = "best-to-runner-up shifts of all sizes, so that each account looks like the next"
    knows = Knowledge.BANDIT | Knowledge.ALGORITHM
    height: float = 8.0
    rungs: float = 0.5

    def __post_init__(self) -> None:
        check_positive(self.height, "height")
        check_share(self.rungs, "rungs")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Assign each account its position on the ladder."""
        super().begin(briefing, rng)
        n_rungs = round(self.rungs * briefing.n_accounts)
        places = np.minimum((1.0 + np.arange(briefing.n_accounts)) / (1.0 + n_rungs), 1.0)
        self.heights = self.height * rng.permutation(places)
        self._signs = best_to_runner_up(briefing)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, shifted and noise-free on best and runner-up."""
        rewards = honest_table(self.briefing, turn, self.rng)
        shifts = self.heights[turn.accounts, None] * self._signs[turn.contexts]
        return shifted(self.briefing, turn, rewards, shifts, self.rng)


def _damn_and_praise(
    rewards: FloatArray, turn: Turn, is_lying: BoolArray, briefing: Briefing
) -> None:
    """Set target and rival to the ends of the range in the rows that lie."""
    rows = np.flatnonzero(is_lying)
    contexts = turn.contexts[rows]
    rewards[rows, briefing.aim.target[contexts]] = briefing.highest
    rewards[rows, briefing.aim.rival[contexts]] = briefing.lowest
