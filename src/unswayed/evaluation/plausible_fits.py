"""Explanations that fit a log about as well as the best one, between which it does not decide.

What many members say a little and what few say loudly look alike: the log fixes the share times the
square of the tilt, and the value of a policy hangs on the share times the tilt. So a coalition is
fitted again with shares from a quarter of the stated one to the largest, and every fit counts
whose gain is close to that of the best.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.evaluation.population import CLASSES, LARGEST_TILT, Data, Fit, fitted, started

SHARES = (0.25, 0.5, 0.75, 1.0, 1.25)
"""Ours: shares of members that are tried, in units of the stated one."""

STEPS = 15
"""Ours: steps of EM with a given share."""

CLOSE, WRONG = 3.0, 0.05
"""Ours: a fit is plausible if it gains at most this many nats less than the best (1.9 is half the
.95 quantile of χ² with one degree of freedom; the best of several directions gains more by chance),
and this share of the best gain less: no model of lies is quite true, and the gain of a wrong one
grows with the log."""


def fits_with_other_shares(data: Data, fit: Fit, alpha: float, most: float) -> list[Fit]:
    """Return a fit with every share that is tried."""
    found = []
    for share in SHARES:
        scale = np.sqrt(max(fit.share, 1e-3) / (share * alpha))
        tilts = np.clip(scale * fit.tilts, -LARGEST_TILT, LARGEST_TILT)
        start = replace(fit, tilts=tilts, share=share * alpha)
        found.append(fitted(data, start, most, STEPS, share=share * alpha))
    return found


def fits_about_the_policy(data: Data, alpha: float, most: float) -> list[Fit]:
    """Return coalitions that raise or lower what the policy plays, and nothing else at first."""
    found = []
    for tilt in (1.0, -1.0, 3.0, -3.0):
        for share in (0.5 * alpha, alpha):
            tilts = np.zeros(CLASSES)
            tilts[0] = tilt
            start = replace(started(data, tilts, most), share=share)
            found.append(fitted(data, start, most, STEPS, share=share))
    return found


def plausible(fits: list[Fit], least_gain: float = -np.inf) -> list[Fit]:
    """Return the fits that gain about as much as the best, or as a gain that is known."""
    best = max(least_gain, *(fit.gain for fit in fits))
    least = best - _slack(best)
    return [fit for fit in fits if fit.gain >= least]


def averaged(fits: list[Fit], weights: list[FloatArray]) -> FloatArray:
    """Return the mean of users' weights over fits, each as likely as its gain has it."""
    gains = np.array([fit.gain for fit in fits])
    likely = np.exp((gains - gains.max()) / (_slack(float(gains.max())) / CLOSE))
    return np.asarray(np.average(np.stack(weights), axis=0, weights=likely), np.float64)


def _slack(best_gain: float) -> float:
    return CLOSE + WRONG * max(best_gain, 0.0)
