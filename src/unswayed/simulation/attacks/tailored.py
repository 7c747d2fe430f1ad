"""A parametric attack: honest rewards mixed with lies, for searches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.names import find
from unswayed.simulation.attacks.base import Attack, Turn, check_share
from unswayed.simulation.attacks.best_response import DIRECTIONS
from unswayed.simulation.attacks.briefing import Briefing, Knowledge

PROMOTED = ("target", "runner-up")
"""Whom to promote: the aim's target, or the action that needs the least help."""

SHARED = ("nothing", "contexts", "answers")
"""What the accounts have in common, each with all before it."""


@dataclass(kw_only=True)
class Tailored(Attack):
    """Mix honest rewards with rewards whose mean is moved.

    Parameters
    ----------
    magnitude
        How far a lie moves the mean reward, as a share of the range of rewards.
    direction
        "up" moves the promoted action, "down" the best one, "both" both.
    promoted
        "target" or "runner-up".
    honest
        Probability that a reward is honest nevertheless.
    contexts_share
        Share of the contexts in which to lie, at least one of them.
    opposed
        Share of the accounts that move means the other way, so that both tails look heavy; at 0.5
        the two sides are in balance.
    shared
        "nothing": each account draws its own contexts to lie in; "contexts": all lie in the same
        ones; "answers": all accounts of a side also report the same rewards in the same
        context of a round.
    """

    name = "tailored"
    summary = "honest rewards mixed with shifted ones; every part of it is a knob, for searches"
    knows = Knowledge.BANDIT
    magnitude: float = 0.2
    direction: str = "both"
    promoted: str = "runner-up"
    honest: float = 0.0
    contexts_share: float = 1.0
    opposed: float = 0.0
    shared: str = "contexts"

    def __post_init__(self) -> None:
        for knob in ("magnitude", "honest", "contexts_share", "opposed"):
            check_share(getattr(self, knob), knob)
        find(self.direction, DIRECTIONS, kind="direction")
        find(self.promoted, dict.fromkeys(PROMOTED), kind="promoted action")
        find(self.shared, dict.fromkeys(SHARED), kind="thing to share")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Size the moves, and draw who lies where and which way."""
        super().begin(briefing, rng)
        self._moves = self._moved_means(briefing)
        n_lists = briefing.n_accounts if self.shared == "nothing" else min(briefing.n_accounts, 1)
        n_attacked = max(1, round(self.contexts_share * briefing.n_contexts))
        ranks = rng.random((n_lists, briefing.n_contexts)).argsort(axis=1)
        self._is_attacked: BoolArray = np.broadcast_to(
            ranks < n_attacked, (briefing.n_accounts, briefing.n_contexts)
        )
        self._signs: FloatArray = np.ones(briefing.n_accounts)
        n_opposed = round(self.opposed * briefing.n_accounts)
        self._signs[rng.permutation(briefing.n_accounts)[:n_opposed]] = -1.0

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, around moved means where the account lies."""
        briefing, rng = self.briefing, self.rng
        questions, signs = turn.contexts, self._signs[turn.accounts]
        lies = self._is_attacked[turn.accounts, questions]
        if self.shared != "answers":
            lies = lies & (rng.random(questions.size) >= self.honest)
            return self._drawn(questions, signs, lies)
        # One script for each side: rewards for every context, used by all accounts there.
        contexts = np.arange(briefing.n_contexts)
        is_lie = (rng.random(contexts.size) >= self.honest) & self._is_attacked[0]
        scripts = {
            sign: self._drawn(contexts, np.full(contexts.size, sign), is_lie)
            for sign in (1.0, -1.0)
        }
        return np.where((signs > 0)[:, None], scripts[1.0][questions], scripts[-1.0][questions])

    def _moved_means(self, briefing: Briefing) -> FloatArray:
        """Return by how much a lie moves each mean; shape (n_contexts, n_actions)."""
        rows = np.arange(briefing.n_contexts)
        ranking = np.argsort(-briefing.mean_rewards, axis=1, kind="stable")
        best: IntArray = ranking[:, 0]
        promoted = ranking[:, 1] if self.promoted == "runner-up" else briefing.aim.target
        size = self.magnitude * (briefing.highest - briefing.lowest)
        moves = np.zeros_like(briefing.mean_rewards)
        up, down = DIRECTIONS[self.direction]
        moves[rows, promoted] += up * size
        moves[rows, best] += down * size
        return moves

    def _drawn(self, contexts: IntArray, signs: FloatArray, lies: BoolArray) -> FloatArray:
        """Draw rewards around means that are moved in the rows that lie."""
        moves = np.where(lies, signs, 0.0)[:, None] * self._moves[contexts]
        means = self.briefing.mean_rewards[contexts] + moves
        if self.briefing.is_binary:
            means = np.clip(means, 0.0, 1.0)
        return self.briefing.honest_rewards(means, self.rng)
