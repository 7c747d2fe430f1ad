"""How rewards and visits come about, as far as a plan depends on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unswayed.errors import InputError, option
from unswayed.limits.checks import check_positive

CALIBRATED_DEVIATION = 0.5
"""Standard deviation of one reward in the calibration: the largest that rewards of 0 and 1 have."""

SMALLEST_ARRIVAL_RATIO = 2.0
"""The smallest that any order of arrivals can keep, and the one of the calibration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What users do besides choosing sides.

    Attributes
    ----------
    base
        Mean reward of a runner-up where rewards are 0 or 1, such as a click rate; None for others.
    deviation
        Standard deviation of one reward. None: that of ``base``, or 0.5 without one.
    arrival_ratio
        c_L, the plays of the busiest user over those of the least busy one; at least 2.
    is_heavy_tailed
        Whether activity is heavy-tailed instead: a tenth of the users has most of the visits.
    exploration
        Share of the plays that are uniform over the actions; the others play what looks best. One
        plans for exploration, less for a log with propensities.
    """

    base: float | None = None
    deviation: float | None = None
    arrival_ratio: float = SMALLEST_ARRIVAL_RATIO
    is_heavy_tailed: bool = False
    exploration: float = 1.0

    def __post_init__(self) -> None:
        if self.base is not None and not 0.0 < self.base < 1.0:
            raise InputError(
                f"{option('--base')} is {self.base}: a click rate lies between 0 and 1."
            )
        if self.deviation is not None:
            check_positive(self.deviation, option("--deviation"))
        if not 0.0 < self.exploration <= 1.0:
            raise InputError(
                f"{option('--exploration')} is {self.exploration}: it is a share of the "
                "plays, above 0 and at most 1."
            )
        if not (SMALLEST_ARRIVAL_RATIO <= self.arrival_ratio < math.inf):
            raise InputError(
                f"{option('--arrival-ratio')} is {self.arrival_ratio}: it is the plays of the "
                "busiest user over those of the least busy one, and at least "
                f"{SMALLEST_ARRIVAL_RATIO:g} as soon as one has come twice and another once."
            )

    @property
    def scale(self) -> float:
        """Return the deviation of one reward in units of the calibration's.

        >>> round(Traffic(base=0.02).scale, 2), Traffic().scale
        (0.28, 1.0)
        """
        if self.deviation is not None:
            return self.deviation / CALIBRATED_DEVIATION
        if self.base is None:
            return 1.0
        return math.sqrt(self.base * (1.0 - self.base)) / CALIBRATED_DEVIATION
