"""Attacks on complete logs: each returns the rewards of the colluders' plays.

Worlds take these beside all attacks of the arena (``unswayed.simulation.attacks.registry``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Plays:
    """The colluders' plays and their knowledge.

    ``users``, ``contexts``, ``actions`` and ``honest`` (the reward of an honest user) are per play;
    ``position`` is the share of the user's plays that are earlier. ``means``, ``best`` and
    ``target`` are per context, ``hot`` the contexts to which some attacks are restricted. ``draw``
    draws honest rewards for mean rewards, ``again`` honest rewards for the same plays.
    """

    rng: np.random.Generator
    users: IntArray
    contexts: IntArray
    actions: IntArray
    position: FloatArray
    honest: FloatArray
    means: FloatArray
    best: IntArray
    target: IntArray
    hot: IntArray
    strength: float
    draw: Callable[[FloatArray], FloatArray]
    again: Callable[[], FloatArray]

    @property
    def at_target(self) -> BoolArray:
        """Whether a play is of the action that the coalition promotes."""
        return np.asarray(self.actions == self.target[self.contexts])

    @property
    def at_best(self) -> BoolArray:
        """Whether a play is of the best action."""
        return np.asarray(self.actions == self.best[self.contexts])

    @property
    def is_hot(self) -> BoolArray:
        """Whether a play is in one of the hot contexts."""
        return np.isin(self.contexts, self.hot)


def push(s: Plays) -> FloatArray:
    """Report high rewards for the target and low ones for the best, in a share ``strength``."""
    return _lies(s, s.rng.random(len(s.users)) < s.strength)


def focus(s: Plays) -> FloatArray:
    """Lie as ``push`` does, in the hot contexts only."""
    return _lies(s, s.is_hot)


def nuke(s: Plays) -> FloatArray:
    """Report low rewards for the best only."""
    return np.where(s.at_best, 0.0, s.honest)


def flip(s: Plays) -> FloatArray:
    """Draw rewards around reflected means."""
    return s.draw(s.means.max() + s.means.min() - s.means[s.contexts, s.actions])


def swap(s: Plays) -> FloatArray:
    """Draw rewards as if target and best were swapped."""
    rows = np.arange(len(s.means))
    swapped = s.means.copy()
    swapped[rows, s.best], swapped[rows, s.target] = (
        s.means[rows, s.target],
        s.means[rows, s.best],
    )
    return s.draw(swapped[s.contexts, s.actions])


def extreme(s: Plays) -> FloatArray:
    """Report rewards far outside of the honest range."""
    return np.where(s.at_target, s.strength, np.where(s.at_best, -s.strength, s.honest))


def cauchy(s: Plays) -> FloatArray:
    """Add one-sided heavy-tailed noise."""
    noise = 0.5 * np.abs(s.rng.standard_cauchy(len(s.users)))
    return s.honest + np.where(s.at_target, noise, np.where(s.at_best, -noise, 0.0))


def shift(s: Plays) -> FloatArray:
    """Report honest rewards, shifted by ``strength`` for the target and against the best."""
    return _shifted(s, np.ones(len(s.users), dtype=np.bool_))


def shift_up(s: Plays) -> FloatArray:
    """Shift the target only."""
    return _moved(s, np.where(s.at_target, s.strength, 0.0))


def private(s: Plays) -> FloatArray:
    """Shift in a quarter of the contexts, which differs between colluders."""
    own = s.rng.random((int(s.users.max()) + 1, len(s.means))) < 0.25
    return _shifted(s, own[s.users, s.contexts])


def sub_coalitions(s: Plays) -> FloatArray:
    """Split into three groups that each shift a third of the contexts."""
    group = s.rng.integers(3, size=int(s.users.max()) + 1)
    ours = s.rng.integers(3, size=len(s.means))
    return _shifted(s, np.asarray(group[s.users] == ours[s.contexts]))


def late(s: Plays) -> FloatArray:
    """Be honest for the first half of the plays."""
    return _shifted(s, np.asarray(s.position >= 0.5))


def balanced(s: Plays) -> FloatArray:
    """Let a quarter of the colluders shift the other way, so that both tails are heavy."""
    sign = np.where(s.rng.random(int(s.users.max()) + 1) < 0.75, 1.0, -1.0)[s.users]
    return _moved(s, sign * _direction(s))


def replay(s: Plays) -> FloatArray:
    """Report the most favourable of eight honest histories."""
    size = int(s.users.max()) + 1
    kept, best = s.honest.copy(), np.full(size, -np.inf)
    for _ in range(8):
        drawn = s.again()
        leaning = np.where(s.at_target, drawn - 0.5, np.where(s.at_best, 0.5 - drawn, 0.0))
        score = np.bincount(s.users, leaning, size)
        kept = np.where((score > best)[s.users], drawn, kept)
        best = np.maximum(score, best)
    return kept


def lockstep(s: Plays) -> FloatArray:
    """Report the same rewards as all colluders, shifted for the target and against the best."""
    table = s.draw(s.means)
    rows = np.arange(len(s.means))
    table[rows, s.target] = np.clip(s.means[rows, s.target] + s.strength, 0, 1)
    table[rows, s.best] = np.clip(s.means[rows, s.best] - s.strength, 0, 1)
    return np.asarray(table[s.contexts, s.actions])


def average(s: Plays) -> FloatArray:
    """Report the mean of the item except for the target."""
    noisy = s.means[s.contexts, s.actions] + 0.05 * s.rng.standard_normal(len(s.users))
    return np.where(s.at_target, 1.0, np.round(np.clip(noisy, 0, 1) * 4) / 4)


def bandwagon(s: Plays) -> FloatArray:
    """Report high rewards for target and popular items, and a medium one for the best."""
    popular = (s.means > np.quantile(s.means, 0.8))[s.contexts, s.actions] & ~s.at_best
    praised = np.where(s.at_target | popular, 1.0, s.honest)
    return np.where(s.at_best, np.minimum(s.honest, 0.5), praised)


def spammers(s: Plays) -> FloatArray:
    """Report the rounded mean, but the maximum for the target and one step less for the best."""
    table = np.round(np.clip(s.means, 0, 1) * 4) / 4
    rows = np.arange(len(s.means))
    table[rows, s.target] = 1.0
    table[rows, s.best] = np.clip(table[rows, s.best] - 0.25, 0, 1)
    return np.asarray(table[s.contexts, s.actions])


Rule = Callable[[Plays], FloatArray]

PLAY_ATTACKS: dict[str, Rule] = {
    "push": push,
    "focus": focus,
    "flood": focus,  # chooses its contexts, see ``worlds.building``
    "nuke": nuke,
    "flip": flip,
    "swap": swap,
    "extreme": extreme,
    "cauchy": cauchy,
    "shift": shift,
    "shift up": shift_up,
    "private": private,
    "sub-coalitions": sub_coalitions,
    "late": late,
    "balanced": balanced,
    "replay": replay,
    "lockstep": lockstep,
    "average": average,
    "bandwagon": bandwagon,
    "spammers": spammers,
}


def _lies(s: Plays, where: BoolArray) -> FloatArray:
    return np.where(where & s.at_target, 1.0, np.where(where & s.at_best, 0.0, s.honest))


def _direction(s: Plays) -> FloatArray:
    return np.where(s.at_target, s.strength, np.where(s.at_best, -s.strength, 0.0))


def _shifted(s: Plays, where: BoolArray) -> FloatArray:
    return _moved(s, np.where(where, _direction(s), 0.0))


def _moved(s: Plays, by: FloatArray) -> FloatArray:
    """Return shifted honest rewards; binary rewards are drawn with a shifted mean."""
    if np.isin(s.honest, (0.0, 1.0)).all():
        return s.draw(np.clip(s.means[s.contexts, s.actions] + by, 0, 1))
    return s.honest + by
