"""Two populations in one log: honest users with one mean for a cell, and members who tilt it.

A member's rewards in a class k of cells are tilted by exp(δ_k·reward), one tilt for each class;
honest users have one mean for a cell. Both are fitted by EM. With T rewards and n plays in a cell,
a user's log-ratio is Σ (δ_k·T − n·A(δ_k)), where A is the log of the mean of exp(δ·reward).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray, IntArray
from unswayed.tallies import Tallies, entry_users

CLASSES = 4
"""What the policy plays, the naive winner, the naive runner-up, and all others."""

LARGEST_TILT = 6.0
"""Ours: in log-odds or deviations; lies as loud as that are as loud as any."""

FAR = 4.0
"""Ours: rewards that are not binary are clipped at this many deviations from their cell's mean."""


class Data(NamedTuple):
    """Entries of users: cells, plays and rewards; what class each cell is of."""

    users: IntArray
    cells: IntArray
    plays: FloatArray
    rewards: FloatArray
    classes: IntArray
    n_users: int
    is_binary: bool

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.classes)


class Sums(NamedTuple):
    """Plays and rewards of each cell."""

    plays: FloatArray
    rewards: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Honest means, tilts of the coalition, its share, and what is gained by it.

    ``members`` has every user's probability to belong to it.
    """

    means: FloatArray
    tilts: FloatArray
    share: float
    gain: float
    members: FloatArray


def data_of(tallies: Tallies, classes: IntArray) -> Data:
    """Return entries in units: 0 and 1 for two values, else deviations from the cells' means."""
    users, cells = entry_users(tallies.indptr), tallies.cells.astype(np.int64)
    plays, sums = tallies.plays, tallies.sums
    spread = tallies.squares - sums**2 / np.maximum(plays, 1.0)
    low, high = float((sums / plays).min()), float((sums / plays).max())
    width = high - low
    ones = (sums - plays * low) / (width or 1.0)
    squares = (tallies.squares - 2 * low * sums + plays * low**2) / (width or 1.0) ** 2
    is_binary = bool(np.abs(squares - ones).max(initial=0.0) < 1e-6 * max(plays.max(), 1.0))
    if is_binary:
        return Data(users, cells, plays, ones, classes, tallies.n_users, True)
    mass = np.maximum(np.bincount(cells, plays, tallies.n_cells), 1e-9)
    means = np.bincount(cells, sums, tallies.n_cells) / mass
    far = sums / plays - means[cells]
    total = float((spread + plays * far**2).sum())
    deviation = np.sqrt(total / max(float(plays.sum()), 1.0)) or 1.0
    scores = plays * np.clip(far / deviation, -FAR, FAR)
    return Data(users, cells, plays, scores, classes, tallies.n_users, False)


def started(data: Data, tilts: FloatArray, most: float) -> Fit:
    """Return where EM starts: the means of all users, and half of the largest mass."""
    of_all = _sums(data, np.ones(data.n_users))
    means = _means(data, of_all)
    return Fit(means, tilts, most / 2.0, 0.0, np.zeros(data.n_users))


def fitted(
    data: Data,
    start: Fit,
    most: float,
    n_steps: int,
    user_weights: FloatArray | None = None,
    *,
    share: float | None = None,
) -> Fit:
    """Return the fit after some steps of EM, with a given share or the likeliest up to ``most``."""
    own = np.ones(data.n_users) if user_weights is None else user_weights
    of_all = _sums(data, own)
    fit = start
    for _ in range(n_steps):
        members, gains = membership(data, fit)
        kept = _sums(data, own * (1.0 - members))
        theirs = Sums(of_all.plays - kept.plays, of_all.rewards - kept.rewards)
        mass = min(max(float(own @ members / own.sum()), 1e-6), most)
        # What is gained over one population, whose means are those of all users.
        gain = (
            float(own @ gains)
            + _log_likelihood(data, of_all, fit.means)
            - _log_likelihood(data, of_all, _means(data, of_all))
        )
        tilts = _tilts(data, fit.means, theirs)
        fit = Fit(_means(data, kept), tilts, mass if share is None else share, gain, members)
    return fit


def _sums(data: Data, weights: FloatArray) -> Sums:
    own = weights[data.users]
    return Sums(
        np.asarray(np.bincount(data.cells, own * data.plays, data.n_cells), np.float64),
        np.asarray(np.bincount(data.cells, own * data.rewards, data.n_cells), np.float64),
    )


def membership(data: Data, fit: Fit) -> tuple[FloatArray, FloatArray]:
    """Return probabilities of members, and log-likelihoods over those of honest users."""
    of_cell = fit.tilts[data.classes]
    per_play = _log_mean(of_cell, fit.means, is_binary=data.is_binary)
    terms = of_cell[data.cells] * data.rewards - per_play[data.cells] * data.plays
    ratios = np.minimum(np.bincount(data.users, terms, data.n_users), 300.0)
    odds = fit.share * np.exp(ratios)
    total = 1.0 - fit.share + odds
    return odds / total, np.log(total)


def _log_mean(tilts: FloatArray, means: FloatArray, *, is_binary: bool) -> FloatArray:
    """Return log of the mean of exp(tilt·reward) in each cell."""
    result: FloatArray = (
        np.log1p(means * np.expm1(tilts)) if is_binary else tilts * means + tilts**2 / 2.0
    )
    return result


def _tilts(data: Data, means: FloatArray, theirs: Sums) -> FloatArray:
    """Return the tilts at which members' rewards are as expected, class by class."""
    total = np.bincount(data.classes, theirs.rewards, CLASSES)
    low, high = np.full(CLASSES, -LARGEST_TILT), np.full(CLASSES, LARGEST_TILT)
    odds = special.logit(means) if data.is_binary else means
    for _ in range(25):
        middle = (low + high) / 2.0
        expected = odds + middle[data.classes]
        if data.is_binary:
            expected = special.expit(expected)
        is_below = np.bincount(data.classes, theirs.plays * expected, CLASSES) < total
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray((low + high) / 2.0, np.float64)


def _means(data: Data, kept: Sums) -> FloatArray:
    """Return mean rewards; one play more at one half for binary ones."""
    if data.is_binary:
        return np.clip((kept.rewards + 0.5) / (kept.plays + 1.0), 1e-4, 1.0 - 1e-4)
    return np.asarray(kept.rewards / np.maximum(kept.plays, 1.0), np.float64)


def _log_likelihood(data: Data, sums: Sums, means: FloatArray) -> float:
    """Return the log-likelihood of one population, up to what does not depend on the means."""
    if data.is_binary:
        terms = special.xlogy(sums.rewards, means)
        terms += special.xlog1py(sums.plays - sums.rewards, -means)
    else:
        terms = sums.rewards * means - sums.plays * means**2 / 2.0
    return float(terms.sum())
