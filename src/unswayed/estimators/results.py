"""Result types of the estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from unswayed.arrays import BoolArray, FloatArray, IntArray

UnivariateOutcome: TypeAlias = Literal["mean", "trimmed", "clipped", "blocks", "median"]
"""What a one-dimensional estimator did.

``"mean"``: nothing had to be cut. ``"trimmed"``: both ends were removed. ``"clipped"``: both ends
were pulled in. ``"blocks"``: the median of block means. ``"median"``: there were too few points
for the method, so the median was taken instead.
"""

StopReason: TypeAlias = Literal["spectrum", "tail", "budget", "iterations"]
"""Why a spectral estimator stopped.

``"spectrum"``: no direction spreads more than honest noise does. ``"tail"``: a direction spreads
more, but no row stands out in it. ``"budget"``: as much weight was removed as the adversarial
fraction allows. ``"iterations"``: the round limit was reached.
"""


@dataclass(frozen=True, slots=True, eq=False)
class UnivariateEstimate:
    """The estimate of one mean.

    ``standard_error`` is from the winsorised spread of the points: it holds the sampling noise of
    the good points and not the bias that bad points may cause. ``n_tolerated`` bad points, wherever
    they sit, cannot carry the estimate outside the range of the good points.
    """

    estimate: float
    standard_error: float  # NaN for a single point
    weights: FloatArray  # (n_points,), share of each point that entered as it is; ties share alike
    n_tolerated: int
    is_covered: bool  # whether n_tolerated reaches the upper quantile of the number of bad points
    outcome: UnivariateOutcome


@dataclass(frozen=True, slots=True, eq=False)
class GroupedEstimates:
    """Trimmed means of many groups; every array has shape ``(n_groups,)``."""

    estimates: FloatArray  # NaN for a group without points
    standard_errors: FloatArray  # as in UnivariateEstimate; NaN below two points
    n_points: IntArray  # implicit zeros included
    n_trimmed: IntArray  # points removed at each of the two ends
    is_covered: BoolArray  # else the group was too small, and its median was taken


@dataclass(frozen=True, slots=True)
class SpectrumStep:
    """One look at the spectrum: the largest variance of the kept rows, and the honest limit."""

    top_eigenvalue: float
    threshold: float
    removed: float


@dataclass(frozen=True, slots=True, eq=False)
class MeanEstimate:
    """The estimate of a mean vector."""

    estimate: FloatArray  # shape (n_columns,), the weighted mean of the rows
    weights: FloatArray  # shape (n_rows,), in [0, 1]: what each row was left with
    iterations: int  # rounds in which weight was removed
    spectrum: tuple[SpectrumStep, ...]  # one for each time the spectrum was looked at
    stopped: StopReason
    removed: float  # share of the starting weight
