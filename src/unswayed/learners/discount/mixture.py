"""A mixture of two populations: those who share the mean, and a coalition with its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.kernels import accuse, cell_sums
from unswayed.learners.interface import FloatArray

MASS_MARGIN = 1.25
"""Ours: the coalition's share of the users is at most this many times the stated one."""

MASS_EXCESS = 1.1
"""Ours: a fit whose coalition stays this far above the limit tells another story; it is void."""

SHRINKAGE_RAMP = 8
"""Ours: steps until full shrinkage; full at once it collapses weak signals."""

VOID = -np.inf
"""Gain of a fit that is not to be used."""

_LIMIT = 600.0  # log-odds beyond this are certain in double precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a fit is free to do.

    Attributes
    ----------
    largest_mass
        Largest share of users in the coalition.
    shrinkage
        c: shifts of c standard errors and less are taken for zero.
    allows_tastes
        Whether good users differ along the accused direction, as far as the other side shows.
    cells
        Shape (n_cells,); one for the cells where the coalition may differ.
    """

    largest_mass: float
    shrinkage: float
    allows_tastes: bool
    cells: FloatArray


class Data(NamedTuple):
    """What a fit reads: rows, worth and centred answers of entries, variances, weights, sums."""

    answers: Answers
    worth: FloatArray
    residuals: FloatArray
    variances: FloatArray
    weights: FloatArray
    sums: FloatArray


def fit_data(
    answers: Answers,
    worth: FloatArray,
    residuals: FloatArray,
    variances: FloatArray,
    weights: FloatArray,
) -> Data:
    """Gather what fits read, with the sums over all users that every step needs."""
    sums = cell_sums(answers.indptr, answers.cells, worth, residuals, weights, answers.n_cells)
    return Data(answers, worth, residuals, variances, weights, sums)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accusation:
    """A fitted coalition.

    Attributes
    ----------
    means, shifts
        Shape (n_cells,); the good users' mean and how far the coalition's lies from it.
    probabilities
        Shape (n_users,); γ, the probability to belong to the coalition.
    scores, strengths
        Shape (n_users,); s = Σ e·δ·(r − μ)/v and D² = Σ e·δ²/v. A good user's s has mean 0 and
        variance D² + τ²·D⁴, a colluder's has mean D².
    taste
        τ², how much good users differ along the accused direction.
    spread_of_the_good
        Variance of s/D on the side that is not accused, less the one that noise gives; above zero
        if good users differ along the accused direction.
    mass
        Share of the users' weight that is accused.
    gain
        Log-likelihood over that of a single population; ``VOID`` for a fit not to be used.
    """

    means: FloatArray
    shifts: FloatArray
    probabilities: FloatArray
    scores: FloatArray
    strengths: FloatArray
    taste: float
    spread_of_the_good: float
    mass: float
    gain: float


def fit_coalition(data: Data, start: FloatArray, model: Model, n_steps: int) -> Accusation:
    """Fit the mixture by EM.

    Parameters
    ----------
    data
        Answers under the users' present weights.
    start
        Shape (n_users,); probabilities to begin with.
    model
        What the fit is free to do.
    n_steps
        Steps of EM; each is one pass over the entries.

    Notes
    -----
    A user's log-ratio is (s − D²/2)/(1 + τ²·D²): normal answers with the cell's variance, whatever
    the rewards are. Shifts shrink by (1 − c²/z²)₊ with c ramped up. τ² is read off the users on the
    side of the good, mirrored: a continuum of taste is roughly two-sided, a coalition is not.
    """
    answers, worth, residuals, variances, weights, sums = data
    _, mass, total, _ = sums
    smallest = 2.0 / max(answers.n_users, 4)
    everybody = weights.sum()
    share = float(np.clip((start * weights).sum() / everybody, smallest, model.largest_mass))
    log_odds = float(np.log(share / (1.0 - share)))
    taste = 0.0
    accused = cell_sums(
        answers.indptr, answers.cells, worth, residuals, start * weights, answers.n_cells
    )[1:3]
    for step in range(n_steps):
        means = (total - accused[1]) / np.maximum(mass - accused[0], 1e-9)
        shifts = accused[1] / np.maximum(accused[0], 1e-9) - means
        c = model.shrinkage * min(1.0, (step + 1) / SHRINKAGE_RAMP)
        z_squared = np.maximum(shifts * shifts * accused[0] / variances, 1e-12)
        shifts = shifts * np.maximum(1.0 - c * c / z_squared, 0.0) * model.cells
        slope = shifts / variances
        scores, strengths, accused = accuse(
            answers.indptr,
            answers.cells,
            worth,
            residuals,
            weights,
            means,
            slope,
            slope * shifts,
            taste,
            log_odds,
        )
        ratios = np.clip((scores - 0.5 * strengths) / (1.0 + taste * strengths), -_LIMIT, _LIMIT)
        probabilities = 1.0 / (1.0 + np.exp(-np.clip(log_odds + ratios, -_LIMIT, _LIMIT)))
        accused_share = float((weights * probabilities).sum() / everybody)
        if accused_share > model.largest_mass:
            log_odds -= float(np.log(accused_share / model.largest_mass))
        else:
            share = max(accused_share, smallest)
            log_odds = float(np.log(share / (1.0 - share)))
        if model.allows_tastes:
            taste = _taste_of_the_good(scores, strengths, weights, taste)
    share = 1.0 / (1.0 + np.exp(-log_odds))
    if accused_share > MASS_EXCESS * model.largest_mass:
        gain = VOID
    elif model.allows_tastes:
        gain = _gain_along_line(scores, strengths, weights, share, taste)
    else:
        one_mean = total**2 / np.maximum(mass, 1e-9)
        good = 2.0 * total * means - mass * means**2
        gain = float(
            (weights * np.logaddexp(np.log1p(-share), np.log(share) + ratios)).sum()
            + 0.5 * ((good - one_mean) / variances).sum()
        )
    return Accusation(
        means=means,
        shifts=shifts,
        probabilities=probabilities,
        scores=scores,
        strengths=strengths,
        taste=taste,
        spread_of_the_good=_spread_of_the_good(scores, strengths, weights),
        mass=accused_share,
        gain=gain,
    )


def _taste_of_the_good(
    scores: FloatArray, strengths: FloatArray, weights: FloatArray, taste: float
) -> float:
    """Return τ² from the users on the side that is not accused: E[s²/D²] = 1 + τ²·D²."""
    lies_opposite = (scores < 0.0) & (strengths > 1e-9)
    if lies_opposite.sum() < 20:
        return taste
    s, d, w = scores[lies_opposite], strengths[lies_opposite], weights[lies_opposite]
    for _ in range(2):
        q = w / (1.0 + taste * d)
        taste = max(0.0, float((q * (s * s / d - 1.0)).sum() / max((q * d).sum(), 1e-9)))
    return taste


def _spread_of_the_good(scores: FloatArray, strengths: FloatArray, weights: FloatArray) -> float:
    """Return E[s²/D²] − 1 over the users on the side that is not accused."""
    lies_opposite = (scores < 0.0) & (strengths > 1e-9)
    w = weights[lies_opposite]
    if w.sum() < 20:
        return 0.0
    squares = scores[lies_opposite] ** 2 / strengths[lies_opposite]
    return float((w * squares).sum() / w.sum()) - 1.0


def _gain_along_line(
    scores: FloatArray, strengths: FloatArray, weights: FloatArray, share: float, taste: float
) -> float:
    """Return the log-likelihood of two populations on the accused line over one normal one.

    t = s/D² estimates where a user lies on the line from the good mean (0) to the coalition (1).
    The single population may have any mean and any spread of tastes, so spread alone gains nothing.
    """
    used = (strengths > 1e-9) & (weights > 1e-6)
    if used.sum() < 20:
        return 0.0
    noise, w = 1.0 / strengths[used], weights[used]
    t = scores[used] * noise
    spread = noise + taste
    two = np.logaddexp(
        np.log1p(-share) - 0.5 * t * t / spread, np.log(share) - 0.5 * (t - 1.0) ** 2 / spread
    ) - 0.5 * np.log(spread)
    centre, wide = 0.0, taste
    for _ in range(15):
        q = w / (noise + wide)
        centre = float((q * t).sum() / q.sum())
        q = q / (noise + wide)
        wide = max(0.0, float((q * ((t - centre) ** 2 - noise)).sum() / q.sum()))
    one = -0.5 * (t - centre) ** 2 / (noise + wide) - 0.5 * np.log(noise + wide)
    return float((w * (two - one)).sum())
