"""Algorithm 1's error falls like sqrt(alpha L/T0), whatever contexts the coalition claims."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim, all_positive, log_slope, resampled
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.lemma_nu.sweep import FLOODED, QUIET
from unswayed.experiments.results import Results
from unswayed.learners.interface import FloatArray

TITLE = "The lemma on context probabilities: Algorithm 1"
X_LABEL = r"interactions per user $T_0/L$"
ROOT_SLOPE = -0.45
"""Ours: a slope of -1/2, up to a tenth of it."""

ALPHA = 0.2


def draw(results: Results) -> Figure:
    """Draw the l1 error against T0/L, with and without flooding, both logarithmic."""
    panels = [
        Panel(
            title=title,
            x_label=X_LABEL,
            y_label=r"$\ell_1$ error of context probabilities",
            series=series,
            log_x=True,
            log_y=True,
        )
        for series, title in (
            (QUIET, "20 % of users under suspicion, all honest"),
            (FLOODED, "20 % colluders flood the rarest context"),
        )
    ]
    return draw_panels(results, panels, heading=TITLE)


def _slope(xs: FloatArray, values: FloatArray) -> float:
    return log_slope(xs, values.mean(axis=0))


def judge(results: Results) -> list[Claim]:
    """Judge the lemma: error O(sqrt(alpha L/T0))."""
    claims = []
    for series, name in ((QUIET, "slope-quiet"), (FLOODED, "slope-flooded")):
        curve = results.curve("paper", series)
        claims.append(
            resampled(
                name,
                f"With {series}, Algorithm 1's l1 error falls at least like (T0/L)^-1/2.",
                f"log-log slope over all T0/L; at most {ROOT_SLOPE:g}",
                curve.values,
                partial(_slope, curve.xs),
                below=ROOT_SLOPE,
            )
        )
    flooded, plain = results.curve("paper", FLOODED), results.curve("naive-mean", FLOODED)
    return [
        *claims,
        all_positive(
            "within-the-bound",
            "Under flooding the l1 error stays below sqrt(alpha L/T0), with constant one.",
            {
                f"bound minus error at T0/L={x:g}": np.sqrt(ALPHA / x) - flooded.at(x)
                for x in flooded.xs
            },
        ),
        all_positive(
            "beats-plain-shares",
            "Under flooding Algorithm 1 beats the plain share of visits at every T0.",
            {
                f"plain minus Algorithm 1 at T0/L={x:g}": plain.at(x) - flooded.at(x)
                for x in flooded.xs
            },
        ),
    ]
