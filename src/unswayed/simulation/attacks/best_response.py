"""Attacks for searches: one with parameters, and one that tries lies on the algorithm first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    PlayedRound,
    Replaying,
    Turn,
    at_least,
    fraction,
    one_of,
)

KEPT_SHARE = 3
"""Ours: each round of the search keeps one candidate in three and doubles its rehearsals."""

MAGNITUDES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Ours: grid of lie sizes, denser near the detection limit."""

DIRECTIONS = {"up": (1.0, 0.0), "down": (0.0, -1.0), "both": (1.0, -1.0)}
"""Signs of the lie on target and rival."""

PROMOTED = ("target", "runner-up")
"""Which action to promote: the aim's target, or the runner-up."""

SHARED = ("nothing", "contexts", "answers")
"""Levels of coordination; each includes those before it."""


class ShiftedReplay(Replaying):
    """Replays good users' rewards, moved up on the target and down on the rival.

    Parameters
    ----------
    magnitude
        How far, as a share of the range of rewards; for binary rewards the probability of a lie.
    direction
        "up" moves the target, "down" the rival, "both" both.
    """

    name = "shifted-replay"
    magnitude: float = fraction(0.3, (0.01, 1.0), is_log=True)
    direction: str = one_of(DIRECTIONS, "both", kind="direction")

    def rewards(self, turn: Turn) -> FloatArray:
        """Return replays, shifted on target and rival."""
        rewards = self.replayed(turn.contexts)
        rows = np.arange(turn.contexts.size)
        aim = self.briefing.aim
        for actions, sign in zip((aim.target, aim.rival), DIRECTIONS[self.direction], strict=True):
            chosen = actions[turn.contexts]
            moved = rewards[rows, chosen] + sign * self._steps(rows.size)
            rewards[rows, chosen] = np.clip(moved, self.briefing.lowest, self.briefing.highest)
        return rewards

    def _steps(self, n: int) -> FloatArray:
        if self.briefing.is_binary:
            return (self.rng.random(n) < self.magnitude).astype(np.float64)
        return np.full(n, self.magnitude * (self.briefing.highest - self.briefing.lowest))


class BestResponse(Attack):
    """Rehearse shifted replays of all directions and sizes against the algorithm; play the worst.

    Rehearsals run the learner's algorithm in private worlds of the same sizes and difficulty.

    Parameters
    ----------
    rehearsals
        Private worlds in which every candidate is tried first.
    """

    name = "best-response"
    summary = (
        "searches direction and size of a shifted replay in private rehearsals, plays the worst"
    )
    knows = Knowledge.ALGORITHM | Knowledge.HISTORIES
    rehearsals: int = at_least(1, 1)

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Search by successive halving, then brief the chosen attack."""
        super().begin(briefing, rng)
        left = [(size, way) for way in DIRECTIONS for size in MAGNITUDES]
        harms: dict[tuple[float, str], list[float]] = {candidate: [] for candidate in left}
        n_worlds = self.rehearsals
        while len(left) > 1:
            for candidate in left:
                for world in range(len(harms[candidate]), n_worlds):
                    harms[candidate].append(briefing.rehearse(_shifted_replay(candidate), world))
            left.sort(key=lambda candidate: -np.mean(harms[candidate]))
            left = left[: max(1, len(left) // KEPT_SHARE)]
            n_worlds *= 2
        self.chosen = _shifted_replay(left[0])
        self.chosen.begin(replace(briefing, knows=self.chosen.knows), rng)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return the chosen attack's rewards."""
        return self.chosen.rewards(turn)

    def observe(self, played: PlayedRound) -> None:
        """Show the round to the chosen attack."""
        self.chosen.observe(played)


def _shifted_replay(candidate: tuple[float, str]) -> ShiftedReplay:
    magnitude, direction = candidate
    return ShiftedReplay(magnitude=magnitude, direction=direction)


class Tailored(Attack):
    """Honest rewards mixed with shifted ones; every part of it is a knob, for searches.

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
    knows = Knowledge.BANDIT
    magnitude: float = fraction(0.2, (0.01, 1.0), is_log=True)
    direction: str = one_of(DIRECTIONS, "both", kind="direction")
    promoted: str = one_of(PROMOTED, "runner-up", kind="promoted action")
    honest: float = fraction(0.0, (0.0, 0.9))
    contexts_share: float = fraction(1.0)
    opposed: float = fraction(0.0, (0.0, 0.5))
    shared: str = one_of(SHARED, "contexts", kind="thing to share")

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
