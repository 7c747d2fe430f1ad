"""What the rounds of every stage leave behind: verdicts, and weights after discounting."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.learners.discount.responses.responses import Responses
from unswayed.learners.discount.settings import AIM_LEVEL, CLEAR_ALIGNMENT
from unswayed.learners.discount.trial.aims import aims_by_chance


class Verdict(StrEnum):
    """Outcome of an accusation: it was believed, or it failed a test."""

    DISCOUNTED = "discounted"
    TOO_MANY = "too many accused"
    LIKE_A_TASTE = "like the tail of a taste"
    WITHIN_CHANCE = "within chance"
    CONTRADICTED = "contradicted by the majority"


ABSTAINED = (Verdict.TOO_MANY, Verdict.LIKE_A_TASTE)
"""Verdicts by which rewards stay at stake because the data do not decide."""

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
        and the evidence for the opposite accusation (−inf if there is none).
    alignment
        Deviations by which the accused favour standing decisions; NaN if it was not asked for.
    accused, removed
        Share of users accused with more than even odds; weight gone if believed.
    stake
        Reward per decision at stake.
    verdict
        Whether it was believed, or the test that failed.
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
    verdict: Verdict

    @property
    def is_accepted(self) -> bool:
        """Whether the accused were discounted."""
        return self.verdict == Verdict.DISCOUNTED

    def overruled(self) -> Round:
        """Return the round as a later stage leaves it: what it believed was a taste."""
        return replace(self, verdict=Verdict.LIKE_A_TASTE) if self.is_accepted else self

    def to_json(self) -> dict[str, Any]:
        """Return the round as plain JSON values; None for numbers that are not finite."""
        values = {**asdict(self), "verdict": self.verdict.value}
        return {
            k: (None if isinstance(v, float) and not np.isfinite(v) else v)
            for k, v in values.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class Discounted:
    """Weights after all rounds, whether good users may differ, and what each round found."""

    weights: FloatArray
    allows_tastes: bool
    rounds: list[Round]

    @property
    def is_aimed(self) -> bool:
        """Whether somebody was discounted who clearly favoured standing decisions."""
        return any(
            r.verdict == Verdict.DISCOUNTED and r.alignment > CLEAR_ALIGNMENT for r in self.rounds
        )

    def contradicted(self, weights: FloatArray) -> Discounted:
        """Return the same with the weights before it, and nothing believed."""
        dropped = [
            replace(r, verdict=Verdict.CONTRADICTED) if r.is_accepted else r for r in self.rounds
        ]
        return replace(self, weights=weights, rounds=dropped)

    @property
    def n_coalitions(self) -> int:
        """How many were discounted."""
        return sum(r.is_accepted for r in self.rounds)


def held_to_aim(
    judged: Round,
    responses: Responses,
    weights: FloatArray,
    accused: FloatArray,
    rng: np.random.Generator,
) -> Round:
    """Return the round, not believed if the accused pull decisions no farther than chance does."""
    if not judged.is_accepted or aims_by_chance(responses, weights, accused, rng) <= AIM_LEVEL:
        return judged
    return replace(judged, verdict=Verdict.LIKE_A_TASTE)
