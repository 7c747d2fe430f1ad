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

    Attributes
    ----------
    estimate
        The estimated mean.
    standard_error
        Standard error from the winsorised spread of the points; it holds the sampling noise of the
        good points and not the bias that bad points may cause. NaN for a single point.
    weights
        Shape ``(n_points,)``, in [0, 1]: the share of each point that entered with its own value.
        Tied points share alike.
    n_tolerated
        The number of bad points, wherever they sit, that cannot carry the estimate outside the
        range of the good points.
    is_covered
        Whether ``n_tolerated`` reaches the upper quantile of the number of bad points.
    outcome
        What was done.
    """

    estimate: float
    standard_error: float
    weights: FloatArray
    n_tolerated: int
    is_covered: bool
    outcome: UnivariateOutcome


@dataclass(frozen=True, slots=True, eq=False)
class GroupedEstimates:
    """Trimmed means of many groups; every array has shape ``(n_groups,)``.

    Attributes
    ----------
    estimates
        The trimmed mean of each group; NaN for a group without points.
    standard_errors
        As in :class:`UnivariateEstimate`; NaN below two points.
    n_points
        Points in each group, implicit zeros included.
    n_trimmed
        Points removed at each of the two ends.
    is_covered
        Whether ``n_trimmed`` reaches the upper quantile of the number of bad points; where it does
        not, the group was too small and its median was taken.
    """

    estimates: FloatArray
    standard_errors: FloatArray
    n_points: IntArray
    n_trimmed: IntArray
    is_covered: BoolArray


@dataclass(frozen=True, slots=True)
class SpectrumStep:
    """One look at the spectrum: the largest variance of the kept rows, and the honest limit."""

    top_eigenvalue: float
    threshold: float
    removed: float


@dataclass(frozen=True, slots=True, eq=False)
class MeanEstimate:
    """The estimate of a mean vector.

    Attributes
    ----------
    estimate
        Shape ``(n_columns,)``: the weighted mean of the rows.
    weights
        Shape ``(n_rows,)``, in [0, 1]: what each row was left with.
    iterations
        Rounds in which weight was removed.
    spectrum
        One step for each time the spectrum was looked at, in order.
    stopped
        Why the rounds ended.
    removed
        The share of the starting weight that was removed.
    """

    estimate: FloatArray
    weights: FloatArray
    iterations: int
    spectrum: tuple[SpectrumStep, ...]
    stopped: StopReason
    removed: float
