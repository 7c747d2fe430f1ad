"""An upper estimate of an unknown share of colluders, with a margin for undetected ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import ALPHA, InputError, check_adversarial_fraction
from unswayed.learners.bounded.method import (
    LARGEST_SHARE,
    MARGIN,
    Findings,
    Reviewed,
    find_coalitions,
)
from unswayed.limits import smallest_swap_coalition
from unswayed.tallies import UserTallies

Auto = Literal["auto"]

SEARCHED_FRACTION = LARGEST_SHARE / 2.0
"""Ours: the share that the search assumes; it finds coalitions of up to a third of the accounts."""

FLOOR = 0.1
"""Ours: the smallest estimate, since a coalition may be undetected."""

UNSEEN = 0.07
"""Ours: added to the detected share for undetected members who rarely lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFraction:
    """An upper estimate of the share of colluders, and its limits."""

    chosen: float  # the share to assume
    accused: float  # share of the accounts that were flagged
    suspected: float  # share of the accounts in the largest suspected group
    upper: float  # upper estimate of the sum of both; 0 if both are 0
    # Share of colluders from which some coalition can exchange the best action and the runner-up
    # undetected by any method, if it can be computed. It depends on the median lead of the best
    # action (``gap``) and on the effective plays of a user (``answers_per_user``).
    hidden_from: float | None
    gap: float
    answers_per_user: float

    def statement(self) -> str:
        """Describe which share was chosen, why, and what cannot be known."""
        words = [f"alpha = {self.chosen:.3g} was chosen from the data:"]
        if self.upper > 0:
            words.append(
                f"{self.accused:.1%} of the users look like a coalition, another "
                f"{self.suspected:.1%} stand apart (together at most {self.upper:.1%}), and "
                f"{UNSEEN:.0%} is added for members who lie seldom."
            )
        else:
            words.append(f"no coalition was seen, and {FLOOR:.0%} is stated in case one hides.")
        if self.hidden_from is not None and self.hidden_from < LARGEST_SHARE:
            words.append(
                f"From {self.hidden_from:.1%} on some coalition is hidden from every method: if "
                "you cannot rule it out, state alpha yourself."
            )
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the statement as plain JSON values."""
        return {**asdict(self), "statement": self.statement()}


def check_fraction_or_auto(value: float | str, *, name: str = ALPHA) -> float | Auto:
    """Return "auto" or a share of users, also from text; error messages contain ``name``.

    >>> check_fraction_or_auto("0.2"), check_fraction_or_auto("auto")
    (0.2, 'auto')
    """
    if value == "auto":
        return "auto"
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}: give a number below 0.5, or auto.") from None
    return check_adversarial_fraction(number, name=name)


def estimate_fraction(tallies: UserTallies, reviewed: Reviewed | None = None) -> UnknownFraction:
    """Compute an upper estimate of the share of users that may collude.

    It is the share of accounts in coalitions that the default learner flags or suspects, plus a
    margin for members that it does not detect.

    Notes
    -----
    Guarantee: none against hidden coalitions. Data alone cannot bound them: no method can
    distinguish colluders from good users whose rewards are alike. ``hidden_from`` is computed by
    ``limits.smallest_swap_coalition`` with a normal approximation.

    Deviations from the paper: the paper assumes that the share is known.
    """
    found = find_coalitions(tallies, alpha=SEARCHED_FRACTION, reviewed=reviewed)
    return fraction_of(found, tallies.n_actions)


def fraction_of(found: Findings, n_actions: int) -> UnknownFraction:
    """Return the upper estimate, given the findings of a search with ``SEARCHED_FRACTION``."""
    accused = float(1.0 - found.weights.mean())
    groups = [float(group.members.mean()) for group in found.groups if not group.is_flagged]
    suspected = max(groups, default=0.0)
    cells = found.cells
    deviation = float(np.median(cells.deviations))
    per_user = float(cells.masses.sum() / max(float(found.weights.sum()), 1.0))
    gap, hidden = _median_gap(found.means), None
    if gap > 0 and deviation > 0:
        plays = max(1, round(per_user))
        hidden = float(smallest_swap_coalition(gap, plays, n_actions, noise=deviation))
    upper = min(MARGIN * accused + suspected, 1.0)
    return UnknownFraction(
        chosen=min(max(upper + UNSEEN, FLOOR), LARGEST_SHARE),
        accused=accused,
        suspected=suspected,
        upper=upper,
        hidden_from=hidden,
        gap=gap,
        answers_per_user=per_user,
    )


def _median_gap(means: FloatArray) -> float:
    """Return the median lead of the best action over the second-best one."""
    means = means[(~np.isnan(means)).sum(axis=1) > 1]
    known = np.sort(np.where(np.isnan(means), -np.inf, means), axis=1)
    leads = known[:, -1] - known[:, -2]
    return float(np.median(leads)) if leads.size else 0.0
