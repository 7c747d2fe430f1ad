"""An upper estimate of an unknown share of colluders: those detected, and those who may not be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray
from unswayed.errors import ALPHA, InputError, check_adversarial_fraction
from unswayed.learners.design import Design
from unswayed.learners.discount import learn_discounted
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.responses.noise import measure_noise
from unswayed.learners.discount.settings import MEAN
from unswayed.learners.estimates import Estimates
from unswayed.limits import smallest_swap_coalition, swap_separation
from unswayed.policy import capped_means
from unswayed.tallies import Tallies, UserTallies

Auto = Literal["auto"]

SEARCHED_FRACTION = 0.4
"""Ours: the share that is stated while looking. A search believes 1.25 times as many at most, and
half of the users are no coalition but the other side."""

FLOOR = 0.05
"""Ours: never state less. A coalition that changed nothing yet may change something tomorrow."""

LARGEST_ALLOWANCE = 0.1
"""Ours: what could go unseen is allowed for up to this share. Few or noisy responses would hide any
share, and a learner that allows for half of its users learns nothing."""

SUSPICION = 0.4
"""Ours: nats per accused user from which an accusation that was not believed counts all the same.
In small worlds without a coalition chance reached .25, coalitions .5 and more."""

CLEAR_ORIENTATION = 10.0
"""Ours: nats by which a side must stand out before it is called skewed."""

LOPSIDED = 1.5
"""Ours: by this factor an accusation must beat the opposite one. Two-sided tastes split users into
halves that accuse each other, with factors of 1.3 at most in small worlds; coalitions had 1.9 and
more."""

CEILING = 0.45
"""Ours: never state more; from one half on nothing can be learned."""

CONFIDENCE = 0.95
"""Ours: of the bound on the share that is seen."""

SHARES: FloatArray = np.linspace(0.001, 0.499, 499)
"""Shares for which it is asked whether they would be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFraction:
    """An upper estimate of the share of colluders, and what it cannot know.

    Attributes
    ----------
    chosen
        The share to state.
    accused
        Share of the users that were discounted, and are not just one half of a taste.
    suspected
        Share of those who stand apart without being discounted: decisions do not hang on them, or
        they may just have other tastes.
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
    tastes
        Whether good users differ, which hides more than is said here.
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
    tastes: bool

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
        if self.tastes:
            words.append("Users have tastes of their own, and more can hide behind them.")
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


def estimate_fraction(
    tallies: UserTallies, design: Design, *, warmup: Tallies | None = None
) -> UnknownFraction:
    """Compute an upper estimate of the share of users that may collude.

    The coalitions that the discounting learner finds when a large share is stated, believed or
    only suspected, bounded from above, plus the share that would go unseen. A coalition of share p
    turns a decision round only if it moves best and runner-up by gap/(2p), more than the gap. If it
    does so in all contexts, users' scores along these lies are skewed, and that is evidence.

    Parameters
    ----------
    tallies, design, warmup
        As ``learn_discounted`` takes them.

    Notes
    -----
    Guarantee: none against coalitions that hide. Nobody can bound those from data alone: colluders
    who respond like good users are good users to every method. ``allowance`` and
    ``seen_to`` are for lies in all contexts, in a normal approximation; ``hidden_from`` is
    ``limits.smallest_swap_coalition``.

    Deviations from the paper: it takes the share as known.
    """
    estimates = learn_discounted(
        tallies, design, adversarial_fraction=SEARCHED_FRACTION, warmup=warmup
    )
    weights = estimates.user_weights
    n_users = len(weights)
    accused, suspected = _accused_and_suspected(estimates)
    noise = measure_noise(clipped_responses(tallies), weights)
    deviation = float(np.sqrt(np.median(noise.variances)))
    per_user = float(noise.mass.sum() / max(weights.sum(), 1.0))
    means = capped_means(estimates.mean_rewards, estimates.actions)
    gap, plays = _median_gap(means), max(1, round(per_user))
    separation, hidden = 0.0, None
    if gap > 0 and deviation > 0:
        sizes = {"noise": deviation}
        separation = float(swap_separation(gap, plays, tallies.n_actions, **sizes))
        hidden = float(smallest_swap_coalition(gap, plays, tallies.n_actions, **sizes))
    quiet = is_seen(SHARES, np.full(SHARES.size, separation), n_users)
    turning = is_seen(SHARES, separation / (2.0 * SHARES), n_users)
    upper = _upper_bound(accused + suspected, n_users)
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
        tastes=bool(estimates.evidence["tastes"]),
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


def _accused_and_suspected(estimates: Estimates) -> tuple[float, float]:
    """Return the shares that were discounted, and the largest one that was accused in vain."""
    evidence, weights = estimates.evidence, estimates.user_weights
    # Doubtful users lose part of their weight each, which may come to more in all.
    accused = max(float((weights < 0.5).mean()), float(evidence["removed"]))
    suspected = 0.0
    # Rounds that took good users for alike were dropped if they turned out to differ.
    stage = "tastes" if evidence["tastes"] else "mean"
    for round_ in evidence["rounds"]:
        if round_["stage"] != stage or round_["gain"] is None or round_["verdict"] == "discounted":
            continue
        opposite = max(round_["opposite_gain"] or 0.0, 0.0)
        is_lopsided = round_["gain"] >= LOPSIDED * opposite + MEAN.clear_gain + CLEAR_ORIENTATION
        is_suspicious = round_["gain"] >= SUSPICION * round_["accused"] * len(weights)
        if is_lopsided and is_suspicious:
            suspected = max(suspected, round_["accused"])
    return accused, suspected


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
