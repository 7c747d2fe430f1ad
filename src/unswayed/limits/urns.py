"""Sequences with a fixed number of ones in random order, drawn one reward at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.limits.checks import FloatArray, IntArray


class RewardUrns:
    """One urn per member: each play takes a ball without putting it back.

    An urn that started with n balls, k of them ones, yields a uniformly random order of its k ones
    and n − k zeros, whatever the moments at which it is drawn from. An empty urn goes on with
    independent ones of probability `afterwards`.

    Parameters
    ----------
    ones
        Ones in each urn, shape (n_members,).
    interactions
        Balls n in each urn.
    afterwards
        Probability of a one from an empty urn.

    Examples
    --------
    >>> urns = RewardUrns(np.array([3, 0]), 3, afterwards=1.0)
    >>> urns.draw(np.array([0, 1, 0, 0, 0]), np.random.Generator(np.random.PCG64(0)))
    array([1., 0., 1., 1., 1.])
    >>> urns.remaining
    array([0, 2])
    """

    def __init__(self, ones: ArrayLike, interactions: int, *, afterwards: float) -> None:
        self._ones = np.array(ones, dtype=np.int64)
        if self._ones.ndim != 1 or np.any((self._ones < 0) | (self._ones > interactions)):
            raise InputError("ones must list, for each member, a count between 0 and interactions.")
        if not 0 <= afterwards <= 1:
            raise InputError(f"afterwards is {afterwards}: it must be a probability.")
        self._remaining = np.full(self._ones.shape, interactions, dtype=np.int64)
        self._afterwards = float(afterwards)

    @property
    def remaining(self) -> IntArray:
        """Balls left in each urn, shape (n_members,)."""
        return self._remaining.copy()

    @property
    def remaining_ones(self) -> IntArray:
        """Ones left in each urn, shape (n_members,)."""
        return self._ones.copy()

    def draw(self, members: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Draw one reward for each entry of `members`, in their order; members may repeat."""
        drawn = self._checked(members)
        uniforms = rng.random(drawn.size)
        return _draw(drawn, uniforms, self._ones, self._remaining, self._afterwards)

    def draw_sums(self, members: ArrayLike, plays: ArrayLike, rng: np.random.Generator) -> IntArray:
        """Draw how many ones each of some distinct members returns in its next plays.

        The same law as drawing them singly, at a cost that does not depend on the plays.

        Parameters
        ----------
        members
            Distinct members, shape (m,).
        plays
            Plays of each, shape (m,) or a number.
        """
        drawn = self._checked(members)
        if np.unique(drawn).size != drawn.size:
            raise InputError("members must be distinct when sums are drawn: add up their plays.")
        wanted = np.broadcast_to(np.asarray(plays, dtype=np.int64), drawn.shape)
        if np.any(wanted < 0):
            raise InputError("plays must be at least 0.")
        ones, left = self._ones[drawn], self._remaining[drawn]
        taken = np.minimum(wanted, left)
        from_urn = rng.hypergeometric(ones, left - ones, taken)
        self._ones[drawn] -= from_urn
        self._remaining[drawn] -= taken
        return from_urn + rng.binomial(wanted - taken, self._afterwards)

    def _checked(self, members: ArrayLike) -> IntArray:
        drawn = np.asarray(members, dtype=np.int64).ravel()
        if np.any((drawn < 0) | (drawn >= self._ones.size)):
            raise InputError(f"members must be numbered from 0 to {self._ones.size - 1}.")
        return drawn


@compiled
def _draw(
    members: NDArray[np.int64],
    uniforms: NDArray[np.float64],
    ones: NDArray[np.int64],
    remaining: NDArray[np.int64],
    afterwards: float,
) -> NDArray[np.float64]:
    rewards = np.zeros(members.size)
    for i in range(members.size):
        member = members[i]
        left = remaining[member]
        if left == 0:
            if uniforms[i] < afterwards:
                rewards[i] = 1.0
            continue
        if uniforms[i] * left < ones[member]:
            rewards[i] = 1.0
            ones[member] -= 1
        remaining[member] = left - 1
    return rewards
