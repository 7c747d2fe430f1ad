"""How far each user's own means lie from the common ones, in units of chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.errors import InputError, option
from unswayed.learners.interface import BoolArray, FloatArray, IntArray
from unswayed.tallies import Tallies, entry_users, row_sums

LEVEL = 0.01
"""Ours: a user of common taste is taken for a different one with at most this probability."""


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """One entry for each (user, cell) that was played and whose common mean is known.

    Attributes
    ----------
    users, cells, plays
        Shape (n_entries,); ascending by user.
    values
        Shape (n_entries,); the user's mean minus the common one.
    noise
        The standard deviation of one reward around its user's mean.
    p_values
        Shape (n_users,); of "this user's taste is the common one", 1 where nothing was played.
    """

    users: IntArray
    cells: IntArray
    plays: FloatArray
    values: FloatArray
    noise: float
    p_values: FloatArray

    @property
    def is_different(self) -> BoolArray:
        """Whether each user's taste differs from the common one; shape (n_users,)."""
        differs: BoolArray = self.p_values < LEVEL
        return differs


def residuals_of(
    tallies: Tallies, mean_rewards: FloatArray, *, adversarial_fraction: float
) -> Residuals:
    """Compare every user with the common means.

    A user's entry depends on that user's rewards, the common means and the noise: the first is the
    user's own, the second is what a robust method learned, and the third is a trimmed mean. So a
    coalition distorts its own tastes and nobody else's.

    Parameters
    ----------
    mean_rewards
        Shape (n_contexts, n_actions); what the good users have in common. NaN where nothing is.
    adversarial_fraction
        The share of users whose variances are trimmed at either end.

    Notes
    -----
    Two tests share the level: the sum of squares (many small differences) and the largest of them
    (a few large ones), both as if rewards were normal.
    """
    users, cells = entry_users(tallies.indptr).astype(np.int64), tallies.cells.astype(np.int64)
    plays = tallies.plays
    own = tallies.sums / tallies.counts
    spread = np.maximum(tallies.squares / tallies.counts - own**2, 0.0) * plays
    noise = _noise(tallies, spread, plays, adversarial_fraction)
    values = own - mean_rewards.reshape(-1)[cells]
    known = np.isfinite(values)
    users, cells, plays, values = users[known], cells[known], plays[known], values[known]
    scores = plays * (values / noise) ** 2
    n_cells = np.bincount(users, minlength=tallies.n_users)
    total = np.bincount(users, scores, minlength=tallies.n_users)
    largest = np.zeros(tallies.n_users)
    np.maximum.at(largest, users, scores)
    of_sum = special.chdtrc(np.maximum(n_cells, 1), total)
    of_largest = n_cells * special.chdtrc(1, largest)
    p_values = np.minimum(1.0, 2.0 * np.minimum(of_sum, of_largest))
    p_values[n_cells == 0] = 1.0
    return Residuals(users, cells, plays, values, noise, p_values)


def _noise(
    tallies: Tallies, spread: FloatArray, plays: FloatArray, adversarial_fraction: float
) -> float:
    """Return the deviation of a reward around its user's mean, trimmed over users."""
    freedom = row_sums(tallies.indptr, np.maximum(plays - 1.0, 0.0))
    squares = row_sums(tallies.indptr, np.where(plays > 1.0, spread, 0.0))
    has = freedom > 0
    if not has.any():
        raise InputError(
            "no user played an action in a context twice, so tastes cannot be told from chance; "
            f"learn without {option('--personal')}."
        )
    variances = squares[has] / freedom[has]
    low, high = np.quantile(variances, [adversarial_fraction, 1.0 - adversarial_fraction])
    kept = (variances >= low) & (variances <= high)
    variance = float((variances[kept] * freedom[has][kept]).sum() / freedom[has][kept].sum())
    if not variance > 0.0:
        raise InputError(
            "rewards of a user never vary, so tastes cannot be told from chance; learn without "
            f"{option('--personal')}."
        )
    return float(np.sqrt(variance))
