"""What a round of accusations found, in plain numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from unswayed.learners.discount.settings import CLEAR_ALIGNMENT
from unswayed.learners.interface import FloatArray

TOO_MANY = "too many accused"
LIKE_A_TASTE = "like the tail of a taste"
WITHIN_CHANCE = "within chance"
DISCOUNTED = "discounted"

ABSTAINED = (TOO_MANY, LIKE_A_TASTE)
"""Verdicts that leave a stake on the table because the data cannot tell."""


Stage = Literal["loud", "mean", "tastes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round found.

    Attributes
    ----------
    stage
        "loud" lies; coalitions among users who share one "mean", or who have "tastes".
    model
        What the coalition was free to do.
    taste_share
        Between-user share of the variance.
    gain, null_gain, opposite_gain
        Evidence for a coalition in nats, what the nulls reached (NaN if an earlier test failed),
        and the evidence for the opposite story (−inf if there is none).
    alignment
        Deviations by which the accused favour standing decisions; NaN if it was not asked for.
    accused, removed
        Share of users accused with more than even odds; weight gone if believed.
    stake
        Reward per decision at stake.
    verdict
        "discounted", or the test that failed.
    """

    stage: Stage
    model: str
    taste_share: float
    gain: float
    null_gain: float
    opposite_gain: float
    alignment: float
    accused: float
    removed: float
    stake: float
    verdict: str

    def told(self) -> dict[str, Any]:
        """Return the round as JSON can hold it."""
        values = asdict(self)
        return {
            k: (None if isinstance(v, float) and not np.isfinite(v) else v)
            for k, v in values.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class Discounted:
    """Weights after all rounds, whether good users may differ, and the story of the rounds."""

    weights: FloatArray
    allows_tastes: bool
    rounds: list[Round]

    @property
    def is_aimed(self) -> bool:
        """Whether somebody was discounted who clearly favoured standing decisions."""
        return any(r.verdict == DISCOUNTED and r.alignment > CLEAR_ALIGNMENT for r in self.rounds)

    @property
    def n_coalitions(self) -> int:
        """How many were discounted."""
        return sum(r.verdict == DISCOUNTED for r in self.rounds)
