"""An upper estimate of an unknown share of colluders: those detected, and those who may not be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray
from unswayed.errors import ALPHA, InputError, check_adversarial_fraction
from unswayed.learners.bounded.method import Findings, Reviewed, find_coalitions
from unswayed.limits import smallest_swap_coalition, swap_separation
from unswayed.tallies import UserTallies

Auto = Literal["auto"]

SEARCHED_FRACTION = 0.24
"""Ours: the share that is stated while looking; coalitions up to nearly half are then found."""

FLOOR = 0.05
"""Ours: smallest alpha that is ever chosen."""

LARGEST_ALLOWANCE = 0.05
"""Ours: what could go unseen is allowed for up to this share. Few or noisy rewards would hide any
share, and a learner that allows for half of its users learns nothing."""

SUSPECTED = 25.0
"""Ours: nats from which a group that is not flagged counts, too."""

MARGIN = 1.25
"""Ours: the true share may exceed the estimated mass of a coalition by this factor."""

CLEAR_ORIENTATION = 10.0
"""Ours: nats by which a side must stand out before it is called skewed."""

CEILING = 0.45
"""Ours: largest alpha that is ever chosen."""

CONFIDENCE = 0.95
"""Ours: failure probability of the bound on the detected share."""

SHARES: FloatArray = np.linspace(0.001, 0.499, 499)
"""Grid of shares tested for detectability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFraction:
    """An upper estimate of the share of colluders, and what it cannot know.

    Attributes
    ----------
    chosen
        The share to state.
    accused
        Share of the accounts that were flagged.
    suspected
        Share of the largest group that is suspected only.
    upper
        Upper confidence bound of both together; 0 if there are none.
    allowance
        What was added for those who may go unseen: the smallest share that would be seen if its
        lies are just as large as the gap between best and runner-up, up to a limit.
    seen_to
        A coalition up to this share that turns most decisions round would be seen.
    hidden_from
        The share from which some coalition exchanges best and runner-up unseen by every method;
        None if it cannot be computed.
    gap, answers_per_user
        What these rest on: the median lead of the best action, and the independent responses that a
        user's plays are worth.
    """

    chosen: float
    accused: float
    suspected: float
    upper: float
    allowance: float
    seen_to: float
    hidden_from: float | None
    gap: float
    answers_per_user: float

    def statement(self) -> str:
        """Return in plain words what was chosen, why, and what cannot be known."""
        words = [f"alpha = {self.chosen:.3g} was chosen from the data:"]
        if self.upper > 0:
            words.append(
                f"{self.accused:.1%} of the users look like a coalition, another "
                f"{self.suspected:.1%} stand apart (together at most {self.upper:.1%}),"
            )
        else:
            words.append("no coalition was seen,")
        words.append(f"and {self.allowance:.1%} is allowed for those who go unseen.")
        words.append(
            f"A coalition up to {self.seen_to:.1%} that turns most decisions round would be seen; "
            "larger ones, lies in few contexts, and lies that turn only close decisions may not."
        )
        if self.hidden_from is not None and self.hidden_from < CEILING:
            words.append(
                f"From {self.hidden_from:.1%} on some coalition is hidden from every method: if "
                "you cannot rule it out, state alpha yourself."
            )
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the statement as plain JSON values."""
        return {**asdict(self), "statement": self.statement()}


def check_fraction_or_auto(value: float | str, *, name: str = ALPHA) -> float | Auto:
    """Return "auto" or a share of users; text may hold either. ``name`` is for the error's words.

    >>> check_fraction_or_auto("0.2"), check_fraction_or_auto("auto")
    (0.2, 'auto')
    """
    if value == "auto":
        return "auto"
    try:
        number = float(value)
    except ValueError:
        raise InputError(f"{name} is {value!r}: give a number below 0.5, or auto.") from None
    return check_adversarial_fraction(number, name=name)


def estimate_fraction(tallies: UserTallies, reviewed: Reviewed | None = None) -> UnknownFraction:
    """Compute an upper estimate of the share of users that may collude.

    The mass of the coalitions that the default learner finds when a large share is stated, flagged
    or suspected, with a margin, plus the share that would go unseen. A coalition of share p turns a
    decision round only if it moves best and runner-up by gap/(2p), more than the gap. If it does so
    in all contexts, users' scores along these lies are skewed, and that is evidence.

    Notes
    -----
    Guarantee: none against coalitions that hide. Nobody can bound those from data alone: colluders
    who respond like good users are good users to every method. ``allowance`` and
    ``seen_to`` are for lies in all contexts, in a normal approximation; ``hidden_from`` is
    ``limits.smallest_swap_coalition``.

    Deviations from the paper: it takes the share as known.
    """
    found = find_coalitions(tallies, alpha=SEARCHED_FRACTION, reviewed=reviewed)
    n_users = tallies.n_users
    accused, suspected = _accused_and_suspected(found)
    cells = found.cells
    deviation = float(np.median(cells.deviations[cells.masses > 0.0]))
    per_user = float(cells.masses.sum() / max(float(found.weights.sum()), 1.0))
    gap, plays = _median_gap(found.means), max(1, round(per_user))
    separation, hidden = 0.0, None
    if gap > 0 and deviation > 0:
        sizes = {"noise": deviation}
        separation = float(swap_separation(gap, plays, tallies.n_actions, **sizes))
        hidden = float(smallest_swap_coalition(gap, plays, tallies.n_actions, **sizes))
    quiet = is_seen(SHARES, np.full(SHARES.size, separation), n_users)
    turning = is_seen(SHARES, separation / (2.0 * SHARES), n_users)
    upper = _upper_bound(min(MARGIN * accused + suspected, 1.0), n_users)
    allowance = min(LARGEST_ALLOWANCE, float(SHARES[quiet.argmax()]) if quiet.any() else 1.0)
    return UnknownFraction(
        chosen=min(max(upper + allowance, FLOOR), CEILING),
        accused=accused,
        suspected=suspected,
        upper=upper,
        allowance=allowance,
        seen_to=float(SHARES[~turning][0]) if not turning.all() else float(SHARES[-1]),
        hidden_from=hidden,
        gap=gap,
        answers_per_user=per_user,
    )


def is_seen(shares: FloatArray, separations: FloatArray, n_users: int) -> BoolArray:
    """Return whether skewness gives coalitions away; all shapes (n,).

    Users' scores are a mixture of two unit normals, D apart, with shares 1 − p and p. Its skewness
    is γ = p(1 − p)(1 − 2p)D³/(1 + p(1 − p)D²)^1.5. To first order the likelihood prefers it to its
    mirror image by γ²/3 nats a user, and that must reach what the learner asks for before it says
    which side is the coalition.

    >>> is_seen(np.array([0.1, 0.1, 0.49]), np.array([2.0, 0.2, 2.0]), 2000).tolist()
    [True, False, False]
    """
    spread = shares * (1.0 - shares)
    skewness = spread * (1.0 - 2.0 * shares) * separations**3
    skewness = skewness / (1.0 + spread * separations**2) ** 1.5
    seen: BoolArray = n_users * skewness**2 / 3.0 >= CLEAR_ORIENTATION
    return seen


def _accused_and_suspected(found: Findings) -> tuple[float, float]:
    """Return the share that was flagged, and that of the largest group that is suspected."""
    suspects = [
        float(group.members.mean())
        for group in found.groups
        if not group.is_flagged and group.evidence >= SUSPECTED
    ]
    return float(1.0 - found.weights.mean()), max(suspects, default=0.0)


def _upper_bound(share: float, n_users: int) -> float:
    """Return the upper confidence bound of a share of users (Clopper and Pearson); 0 of none."""
    if share <= 0.0:
        return 0.0
    count = min(int(np.ceil(share * n_users)), n_users - 1)
    return float(special.betaincinv(count + 1, n_users - count, CONFIDENCE))


def _median_gap(means: FloatArray) -> float:
    """Return the median lead of the best action over the next, where two are known."""
    means = means[(~np.isnan(means)).sum(axis=1) > 1]
    known = np.sort(np.where(np.isnan(means), -np.inf, means), axis=1)
    leads = known[:, -1] - known[:, -2]
    return float(np.median(leads)) if leads.size else 0.0
