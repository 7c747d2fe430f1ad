"""What colluders answer. Each attack returns the rewards of the colluders' plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worlds.world import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The colluders' plays, and what they know.

    ``users``, ``contexts``, ``actions`` and ``honest`` (what an honest user would have answered)
    are per play; ``position`` is the share of the user's plays that came before. ``means``,
    ``best`` and ``target`` are per context, ``hot`` the contexts a few attacks keep to. ``answer``
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
    answer: Callable[[FloatArray], FloatArray]
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


def push(s: Scene) -> FloatArray:
    """Praise the target and run down the best, in a share ``strength`` of the plays."""
    return _lies(s, s.rng.random(len(s.users)) < s.strength)


def focus(s: Scene) -> FloatArray:
    """Do as ``push``, in the hot contexts only."""
    return _lies(s, s.is_hot)


def nuke(s: Scene) -> FloatArray:
    """Run down the best only."""
    return np.where(s.at_best, 0.0, s.honest)


def flip(s: Scene) -> FloatArray:
    """Answer as if good were bad."""
    return s.answer(s.means.max() + s.means.min() - s.means[s.contexts, s.actions])


def swap(s: Scene) -> FloatArray:
    """Answer as if target and best had changed places."""
    rows = np.arange(len(s.means))
    swapped = s.means.copy()
    swapped[rows, s.best], swapped[rows, s.target] = (
        s.means[rows, s.target],
        s.means[rows, s.best],
    )
    return s.answer(swapped[s.contexts, s.actions])


def extreme(s: Scene) -> FloatArray:
    """Report rewards far outside of the honest range."""
    return np.where(s.at_target, s.strength, np.where(s.at_best, -s.strength, s.honest))


def cauchy(s: Scene) -> FloatArray:
    """Add one-sided heavy-tailed noise."""
    noise = 0.5 * np.abs(s.rng.standard_cauchy(len(s.users)))
    return s.honest + np.where(s.at_target, noise, np.where(s.at_best, -noise, 0.0))


def shift(s: Scene) -> FloatArray:
    """Answer honestly, shifted by ``strength`` for the target and against the best."""
    return _shifted(s, np.ones(len(s.users), dtype=np.bool_))


def shift_up(s: Scene) -> FloatArray:
    """Shift the target only."""
    return _moved(s, np.where(s.at_target, s.strength, 0.0))


def private(s: Scene) -> FloatArray:
    """Shift in a private quarter of the contexts, another one for every colluder."""
    own = s.rng.random((int(s.users.max()) + 1, len(s.means))) < 0.25
    return _shifted(s, own[s.users, s.contexts])


def sub_coalitions(s: Scene) -> FloatArray:
    """Split into three groups that each shift a third of the contexts."""
    group = s.rng.integers(3, size=int(s.users.max()) + 1)
    ours = s.rng.integers(3, size=len(s.means))
    return _shifted(s, np.asarray(group[s.users] == ours[s.contexts]))


def late(s: Scene) -> FloatArray:
    """Be honest for the first half of the plays."""
    return _shifted(s, np.asarray(s.position >= 0.5))


def balanced(s: Scene) -> FloatArray:
    """Let a quarter of the colluders shift the other way, so that both tails are heavy."""
    sign = np.where(s.rng.random(int(s.users.max()) + 1) < 0.75, 1.0, -1.0)[s.users]
    return _moved(s, sign * _direction(s))


def replay(s: Scene) -> FloatArray:
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


def lockstep(s: Scene) -> FloatArray:
    """Give the same answers as all other colluders, shifted for the target, against the best."""
    table = s.answer(s.means)
    rows = np.arange(len(s.means))
    table[rows, s.target] = np.clip(s.means[rows, s.target] + s.strength, 0, 1)
    table[rows, s.best] = np.clip(s.means[rows, s.best] - s.strength, 0, 1)
    return np.asarray(table[s.contexts, s.actions])


def average(s: Scene) -> FloatArray:
    """Agree with the item's mean except on the target."""
    noisy = s.means[s.contexts, s.actions] + 0.05 * s.rng.standard_normal(len(s.users))
    return np.where(s.at_target, 1.0, np.round(np.clip(noisy, 0, 1) * 4) / 4)


def bandwagon(s: Scene) -> FloatArray:
    """Praise popular items together with the target, and give the best a middling answer."""
    popular = (s.means > np.quantile(s.means, 0.8))[s.contexts, s.actions] & ~s.at_best
    praised = np.where(s.at_target | popular, 1.0, s.honest)
    return np.where(s.at_best, np.minimum(s.honest, 0.5), praised)


def spammers(s: Scene) -> FloatArray:
    """Agree with the rounded mean, all alike; praise the target and mark the best down a step."""
    table = np.round(np.clip(s.means, 0, 1) * 4) / 4
    rows = np.arange(len(s.means))
    table[rows, s.target] = 1.0
    table[rows, s.best] = np.clip(table[rows, s.best] - 0.25, 0, 1)
    return np.asarray(table[s.contexts, s.actions])


ATTACKS: dict[str, Callable[[Scene], FloatArray]] = {
    "push": push,
    "focus": focus,
    "flood": focus,  # with contexts of their own choice, see ``building``
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


def _lies(s: Scene, where: BoolArray) -> FloatArray:
    return np.where(where & s.at_target, 1.0, np.where(where & s.at_best, 0.0, s.honest))


def _direction(s: Scene) -> FloatArray:
    return np.where(s.at_target, s.strength, np.where(s.at_best, -s.strength, 0.0))


def _shifted(s: Scene, where: BoolArray) -> FloatArray:
    return _moved(s, np.where(where, _direction(s), 0.0))


def _moved(s: Scene, by: FloatArray) -> FloatArray:
    """Return honest answers moved by so much; binary answers are drawn with a moved mean."""
    if np.isin(s.honest, (0.0, 1.0)).all():
        return s.answer(np.clip(s.means[s.contexts, s.actions] + by, 0, 1))
    return s.honest + by
