"""A mixture of two populations: those who share the mean, and a coalition with its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.discount.responses.kernels import RealArray
from unswayed.learners.discount.responses.line_kernels import (
    gain_of_a_second_mean,
    posteriors,
    shrunken_lines,
    spread_of_the_good,
)
from unswayed.learners.discount.responses.residuals import BlockedResiduals
from unswayed.learners.discount.settings import MASS_EXCESS

SHRINKAGE_RAMP = 8
"""Ours: steps until full shrinkage; full at once it collapses weak signals."""

SETTLED = 1e-3
"""Ours: a fit ends once a step moves less than this share of what it accuses."""

LANES = 8
"""Lines that vector instructions take at a time; panels are filled up to a multiple of it."""

NARROW = 16
"""Ours: panels may always have this many lines; a line costs more in narrower ones."""

PANEL_NUMBERS = 500_000
"""Ours: numbers in one array of shape (n_users, n_lines), unless that were narrow; more lines are
fitted one panel after another, to bound memory."""

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
        c: shifts of at most c standard errors are set to zero.
    cells
        Shape (n_cells,); one for the cells where the coalition may differ.
    rivals_only
        Whether these are the rivals for decisions.
    """

    largest_mass: float
    shrinkage: float
    cells: FloatArray
    rivals_only: bool = False

    def among(self, rivals: FloatArray) -> Model:
        """Return the same model of responses with other rivals."""
        return replace(self, cells=rivals) if self.rivals_only else self


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accusation:
    """A fitted coalition.

    Attributes
    ----------
    means, shifts
        Shape (n_cells,); the good users' mean and how far the coalition's lies from it, both from
        the mean of all and in standard deviations of a response.
    probabilities
        Shape (n_users,); γ, the probability to belong to the coalition.
    scores, strengths
        Shape (n_users,); s = Σ e·δ·(x − μ) and D² = Σ e·δ². A good user's s has mean 0, a
        colluder's has mean D², both variance D².
    spread_of_the_good
        Variance of s/D on the side that is not accused, less the one that noise gives; above zero
        if good users differ along the accused direction.
    mass
        Share of the users' weight that is accused.
    raw_gain
        Log-likelihood over that of a single population.
    is_void
        Whether it accuses too many to be used.
    """

    means: RealArray
    shifts: RealArray
    probabilities: FloatArray
    scores: RealArray
    strengths: RealArray
    spread_of_the_good: float
    mass: float
    raw_gain: float
    is_void: bool

    @property
    def gain(self) -> float:
        """What counts for the accusation: the raw gain, or ``VOID``."""
        return VOID if self.is_void else self.raw_gain


def fit_coalitions(
    rows: BlockedResiduals, starts: RealArray, models: Sequence[Model], n_steps: int
) -> list[Accusation]:
    """Fit the mixture by EM, from many starts side by side.

    Parameters
    ----------
    rows
        Responses under the users' present weights.
    starts
        Shape (n_users, n_fits); probabilities to begin with.
    models
        What each fit is free to do.
    n_steps
        Largest number of steps; each is one pass over the entries for all fits. Fits that have
        settled end before.

    Returns
    -------
    One accusation for each start, up to rounding the same whatever is fitted beside it.

    Notes
    -----
    A user's log-ratio is s − D²/2: normal responses with the cell's variance, whatever the rewards
    are. Shifts shrink by (1 − c²/z²)₊ with c ramped up.
    """
    n_lines = max(NARROW, PANEL_NUMBERS // max(rows.n_users, 1) // NARROW * NARROW)
    fits = []
    for first in range(0, len(models), n_lines):
        panel = slice(first, first + n_lines)
        fits += _fit_panel(rows, starts[:, panel], models[panel], n_steps)
    return fits


def _fit_panel(
    rows: BlockedResiduals, starts: RealArray, models: Sequence[Model], n_steps: int
) -> list[Accusation]:
    """Fit as many lines as fit in memory."""
    weights = rows.weights
    total_weight = weights.sum()
    smallest = 2.0 / max(rows.n_users, 4)
    largest = np.array([model.largest_mass for model in models])
    shrinkages = np.array([model.shrinkage for model in models])
    allowed = np.stack([model.cells.astype(rows.dtype) for model in models], axis=1)
    gammas: RealArray = starts.astype(rows.dtype, copy=False) * weights[:, None].astype(rows.dtype)
    accused_shares = np.clip(gammas.sum(axis=0, dtype=float) / total_weight, smallest, largest)
    log_odds = special.logit(accused_shares)
    fits: dict[int, Accusation] = {}
    # The first n_open columns are fits in progress; copies of them fill the panel.
    names, n_open = np.arange(len(models)), len(models)
    is_ending = np.zeros(n_open, dtype=np.bool_)
    chosen = _filled(names)
    for step in range(n_steps):
        if step == 0 or is_ending.any():
            names, largest, shrinkages = names[chosen], largest[chosen], shrinkages[chosen]
            # take, unlike an index, leaves rows together: loops are faster and compiled once.
            gammas, allowed = gammas.take(chosen, axis=1), allowed.take(chosen, axis=1)
            log_odds = log_odds[chosen]
        ramp = min(1.0, (step + 1) / SHRINKAGE_RAMP)
        sums = rows.line_sums(gammas)
        means, shifts = shrunken_lines(rows.mass, rows.total, *sums, allowed, ramp * shrinkages)
        scores, strengths = rows.line_scores(means, shifts)
        odds_before = log_odds
        gammas, accused, moved = posteriors(scores, strengths, weights, log_odds, gammas)
        accused_shares = accused / total_weight
        log_odds = np.where(
            accused_shares > largest,
            log_odds - np.log(np.maximum(accused_shares, largest) / largest),
            special.logit(np.clip(accused_shares, smallest, largest)),
        )
        is_ending = (moved < SETTLED * accused)[:n_open] & (ramp == 1.0)
        is_ending |= step == n_steps - 1
        ending = np.flatnonzero(is_ending)
        ended = (a[:, ending].T.copy() for a in (means, shifts, scores, strengths))
        for c, *line in zip(ending, *ended, strict=True):
            fits[int(names[c])] = _accusation(
                rows,
                models[names[c]],
                line,
                (odds_before[c], log_odds[c]),
                float(accused_shares[c]),
            )
        still_open = np.flatnonzero(~is_ending)
        if len(still_open) == 0:
            break
        n_open, chosen = len(still_open), _filled(still_open)
    return [fits[c] for c in range(len(models))]


def _filled(columns: IntArray) -> IntArray:
    """Return the columns, repeated up to a multiple of what vector instructions take."""
    width = 1 if len(columns) == 1 else -(-len(columns) // LANES) * LANES
    return np.resize(columns, width)


def _accusation(
    rows: BlockedResiduals,
    model: Model,
    line: Sequence[RealArray],
    log_odds: tuple[float, float],
    accused_share: float,
) -> Accusation:
    """Return what a fit found; log-odds are those before and after its last step."""
    means, _, scores, strengths = (column.astype(np.float64, copy=False) for column in line)
    weights, mass, total = rows.weights, rows.mass, rows.total
    ratios = np.clip(scores - 0.5 * strengths, -_LIMIT, _LIMIT)
    share = float(special.expit(log_odds[1]))
    one_mean = total**2 / np.maximum(mass, 1e-9)
    good = 2.0 * total * means - mass * means**2
    gain = gain_of_a_second_mean(ratios, weights, share) + 0.5 * float((good - one_mean).sum())
    return Accusation(
        means=line[0],
        shifts=line[1],
        probabilities=special.expit(log_odds[0] + ratios),
        scores=line[2],
        strengths=line[3],
        spread_of_the_good=spread_of_the_good(scores, strengths, weights),
        mass=accused_share,
        raw_gain=gain,
        is_void=accused_share > MASS_EXCESS * model.largest_mass,
    )
