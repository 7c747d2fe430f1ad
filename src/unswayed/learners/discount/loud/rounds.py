"""Find loud coalitions one after another, hold each against chance and taste, and discount it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.discount.loud.class_counts import (
    PLAYS_PER_RUN,
    ClassArray,
    ClassCounts,
    Counts,
    classes_by_action,
    classes_by_role,
    counts_by_class,
    counts_of,
    repeated_share,
)
from unswayed.learners.discount.loud.coalition import (
    Coalition,
    Lie,
    accused_by,
    loudness,
    refined,
    search_coalitions,
    usual_law,
)
from unswayed.learners.discount.loud.honest import (
    FIT_STEPS,
    Fit,
    Honest,
    fit_honest,
    summed_out,
    without_coalition,
)
from unswayed.learners.discount.responses.categories import Categories
from unswayed.learners.discount.settings import FULL, LARGEST_ROOM, LOUD
from unswayed.learners.discount.trial.verdicts import Round, Verdict
from unswayed.tallies import Tallies, UserTallies

TRIES = 2
"""Candidates of each kind that are fitted together with the honest model."""

LEAST_GAIN = 10.0
"""Nats that a candidate must gain to be looked at."""

NEARLY, LOUDER = 0.6, 1.2
"""How loud members must be, in multiples of the strongest taste: before and after the fit."""

COMPARABLE = 0.3
"""Candidates with less than this share of the largest gain are not looked at. Of two opposite ones
with comparable gains the one with fewer accounts is believed."""

FEWER = 0.5
"""So is one with less than this share of the accounts, whatever the two are about: honest users who
like the winners are many, and differ from bots as much as bots differ from them."""

LATER_STEPS = 3
"""Steps of EM in later rounds, from the model of the round before."""

PLAYS_OF_ACCUSED = 64.0
"""Once a coalition is believed, its members are identified by up to so many plays of the class:
with fewer, bots with a hundred plays each keep a seventh of their weight, and most of the
traffic."""

NULL_STEPS = 5
"""Steps of EM for a null, from the model that it was drawn from."""


class SampledPlays(NamedTuple):
    """All users' plays, those of a sample of users side by side, and categories of rewards."""

    tallies: UserTallies
    sample: Tallies
    chosen: IntArray | slice
    categories: Categories


class LoudLies(NamedTuple):
    """Weights of all users after the loud coalitions were discounted, and what was found.

    ``lies`` has what each discounted coalition did.
    """

    weights: FloatArray
    rounds: list[Round]
    lies: list[FoundLie]


@dataclass(frozen=True, slots=True, eq=False)
class FoundLie:
    """What a coalition did: the cells it lied about, whether it raised them, and its size."""

    cells: IntArray
    raises: bool
    n_accounts: float

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "cells": self.cells.tolist(),
            "raises": self.raises,
            "accounts": self.n_accounts,
        }


_Models = dict[bool, Honest]
"""Honest models of classes by action, and by rank."""


class _First(NamedTuple):
    """A coalition that was found beside the honest model of all users."""

    data: ClassCounts
    honest: Fit
    is_by_action: bool
    found: Coalition


class _Candidate(NamedTuple):
    """The same, fitted together with the honest model of all others."""

    first: _First
    fitted: Coalition
    without: Fit
    loudness: float


class _Found(NamedTuple):
    """What a round found in a sample, and what reads it off other users."""

    round: Round
    classes: ClassArray
    model: Honest
    coalition: Coalition


def discount_loud_lies(
    plays: SampledPlays, *, adversarial_fraction: float, rng: np.random.Generator
) -> LoudLies:
    """Find coalitions that say of one item what no honest taste says, and discount their users.

    A member lies about the cells of one class, an action or a rank within each context, and is
    honest elsewhere. Honest users differ: each has a level and a taste for each class, which are
    summed out. An accusation is believed if what members say lies beyond the strongest taste, and
    if it gains clearly more than in the same log with responses of honest users.

    Parameters
    ----------
    plays
        All users' plays, and those that are searched. Importance weights are not read: rewards of
        a cell have one law, however its plays came about.
    adversarial_fraction
        α.
    rng
        Nulls are drawn from it.
    """
    tallies, sample, chosen, categories = plays
    weights = np.ones(tallies.n_users)
    if categories.n < 2 or tallies.n_actions < 2:
        return LoudLies(weights, [], [])
    repeated = 0.0 if categories.is_rare else repeated_share(sample)
    counts = counts_of(sample, categories, repeated)
    rounds: list[Round] = []
    lies: list[FoundLie] = []
    last: _Models = {}
    for _ in range(LOUD.rounds):
        (own,) = rng.spawn(1)
        found = _search(counts, categories, weights[chosen], adversarial_fraction, last, own)
        if found is None:
            break
        rounds.append(found.round)
        if not found.round.is_accepted:
            break
        lie = found.coalition.lie
        model = (categories, repeated, found.classes, found.model)
        accused = tallies.blocks.map_rows(_accused, *model, lie)
        cells, is_raised = np.flatnonzero(found.classes == lie.about), found.round.alignment > 0
        lies.append(FoundLie(cells, bool(is_raised), float(weights @ accused)))
        weights = weights * (1.0 - accused)
    return LoudLies(weights, rounds, lies)


def _search(
    counts: Counts,
    categories: Categories,
    weights: FloatArray,
    alpha: float,
    last: _Models,
    rng: np.random.Generator,
) -> _Found | None:
    """Return the candidate that decides; None if there is none.

    ``last`` has the honest models of the last round, and gets those of this one.
    """
    firsts = [
        first
        for is_by_action in (True, False)
        for first in _first_looks(counts, categories, weights, alpha, is_by_action, last)
    ]
    largest = max((first.found.gain for first in firsts), default=0.0)
    candidates = [
        _refined(first, categories, weights, alpha)
        for first in firsts
        if first.found.gain >= COMPARABLE * largest
    ]
    # As many as there may be at all are the crowd, seen from somebody else's side.
    candidates = [c for c in candidates if c.fitted.mass < FULL * LARGEST_ROOM]
    if not candidates:
        return None
    strongest = LOUDER * candidates[0].without.model.grid.strongest_taste
    candidates.sort(key=lambda c: (abs(c.loudness) < strongest, -c.fitted.gain))
    best = _fewest_accused(candidates, strongest)
    null_gain, verdict = float("nan"), Verdict.LIKE_A_TASTE
    if abs(best.loudness) >= strongest:
        null_gain = max(
            _null_gain(counts, categories, weights, alpha, best.first, rng)
            for _ in range(LOUD.nulls)
        )
        is_clear = LOUD.is_beyond(best.first.found.gain, null_gain)
        verdict = Verdict.DISCOUNTED if is_clear else Verdict.WITHIN_CHANCE
    accused = best.fitted.accused(counts.n_users)
    judged = Round(
        stage="loud",
        model="lies about "
        + ("one action" if best.first.is_by_action else "one rank in each context"),
        taste_share=float("nan"),
        gain=best.first.found.gain,
        null_gain=null_gain,
        opposite_gain=float("-inf"),
        alignment=best.loudness,
        accused=float((weights * (accused > 0.5)).sum() / weights.sum()),
        removed=float(1.0 - (weights * (1.0 - accused)).mean()),
        stake=float("nan"),
        verdict=verdict,
    )
    return _Found(judged, best.first.data.classes, best.without.model, best.fitted)


def _fewest_accused(candidates: list[_Candidate], strongest: float) -> _Candidate:
    """Return the first candidate, or one as clear that accuses far fewer accounts.

    Where bots have most of the plays, honest users look like liars who praise too little; of two
    opposite accusations the smaller is believed, however close.
    """
    best = candidates[0]
    for other in candidates[1:]:
        is_opposite = (
            other.first.is_by_action == best.first.is_by_action
            and other.fitted.lie.about == best.fitted.lie.about
            and other.loudness * best.loudness < 0.0
        )
        is_clear = abs(other.loudness) >= strongest and (
            other.first.found.gain > COMPARABLE * best.first.found.gain
        )
        most = best.fitted.mass * (1.0 if is_opposite else FEWER)
        if is_clear and other.fitted.mass < most:
            return other
    return best


def _first_looks(
    counts: Counts,
    categories: Categories,
    weights: FloatArray,
    alpha: float,
    is_by_action: bool,
    last: _Models,
) -> list[_First]:
    """Return the candidates of one kind that are worth a fit together with the honest model."""
    data = _by_class(counts, categories, weights, is_by_action)
    start = last.get(is_by_action)
    n_steps = FIT_STEPS if start is None else LATER_STEPS
    honest = fit_honest(data, categories, weights, start=start, n_steps=n_steps)
    last[is_by_action] = honest.model
    nearly = NEARLY * honest.model.grid.strongest_taste
    kept: dict[tuple[int, bool], _First] = {}
    for found in search_coalitions(data, categories, honest, weights, alpha):
        tilt = _loudness(data, categories, weights, found)
        if found.gain >= LEAST_GAIN and abs(tilt) >= nearly and len(kept) < TRIES:
            kept.setdefault((found.lie.about, tilt > 0), _First(data, honest, is_by_action, found))
    return list(kept.values())


def _refined(
    first: _First, categories: Categories, weights: FloatArray, alpha: float
) -> _Candidate:
    fitted, without = refined(first.data, categories, first.honest, weights, first.found, alpha)
    tilt = _loudness(first.data, categories, weights, fitted)
    return _Candidate(first, fitted, without, tilt)


def _loudness(
    data: ClassCounts, categories: Categories, weights: FloatArray, found: Coalition
) -> float:
    return loudness(found.lie.law, usual_law(data, found, weights), categories.scores)


def _by_class(
    counts: Counts, categories: Categories, weights: FloatArray, is_by_action: bool
) -> ClassCounts:
    if is_by_action:
        return counts_by_class(counts, classes_by_action(counts), PLAYS_PER_RUN)
    classes = classes_by_role(counts, categories.values, weights)
    return counts_by_class(counts, classes, PLAYS_PER_RUN)


def _null_gain(
    counts: Counts,
    categories: Categories,
    weights: FloatArray,
    alpha: float,
    first: _First,
    rng: np.random.Generator,
) -> float:
    """Return what the same search gains where all users are honest; ranks are found anew."""
    drawn = without_coalition(counts, first.data.classes, first.honest, rng)
    data = _by_class(drawn, categories, weights, first.is_by_action)
    honest = fit_honest(data, categories, weights, start=first.honest.model, n_steps=NULL_STEPS)
    return search_coalitions(data, categories, honest, weights, alpha)[0].gain


def _accused(
    tallies: Tallies,
    categories: Categories,
    repeated: float,
    classes: ClassArray,
    model: Honest,
    lie: Lie,
) -> FloatArray:
    """Return the probabilities of the users of a block to belong to a coalition."""
    counts = counts_of(tallies, categories, repeated)
    data = counts_by_class(counts, classes, PLAYS_OF_ACCUSED)
    honest = summed_out(data, model, np.ones(tallies.n_users))
    return accused_by(data, honest, lie)
