"""One coalition that lies about one class of cells: its members, and what they say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.discount.loud.class_counts import ClassCounts
from unswayed.learners.discount.loud.honest import Fit, fit_honest
from unswayed.learners.discount.responses.categories import Categories
from unswayed.learners.discount.settings import LARGEST_ROOM, MASS_MARGIN, ROOM
from unswayed.tallies.grouping import in_threads

PRIOR_USERS = 10.0
"""The share of members among users of one activity is averaged with that of all, and the levels of
members with those of all users, with this many pseudo-users."""

PRIOR_COUNTS = 0.02
"""Added to each category of what members say."""

SHORT_STEPS, LONG_STEPS, FINALISTS = 5, 20, 8
"""Steps of EM from every start; steps from the best starts, and how many of them."""

REFINE_STEPS, REFINE_PASSES = 3, (2, 2, 2, 2, 1, 1, 1, 1, 1, 1)
"""Steps of EM in turn with passes of the honest model: two passes measure levels and tastes anew,
one measures the laws of cells only."""

SETTLED = 0.002
"""Fits end when the weight of members changes by no more than this share. At .01 a validation log
of counts was left half-way, with honest users accused of a loud lie that goes away."""

STARTS = {True: (6.0, 3.5), False: (3.0,)}
"""Tilts of the first guess of what members say, up and down; for events and for amounts."""

PRIOR_RANGE = (1e-6, 0.5)
"""No activity makes a user more likely a member than not."""

LARGEST_RATIO = 300.0
"""Log-ratios are cut here, so that nothing overflows."""


class Lie(NamedTuple):
    """What members say, and who may be one.

    Attributes
    ----------
    about
        The class of cells that they lie about.
    law
        Shape (n_categories,); what they say there.
    levels
        Shape (n_levels,); their levels elsewhere. Bots that say no to all other items have a low
        one, which distinguishes them from lucky honest users.
    prior
        Shape (n_activities,); share of members by log2 of the number of plays.
    """

    about: int
    law: FloatArray
    levels: FloatArray
    prior: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Coalition:
    """A candidate.

    Attributes
    ----------
    lie
        What members say.
    mass
        Share of all users.
    gain
        Log-likelihood gained over the honest model alone, which was fitted to all users.
    users, ratios, probabilities
        Users who met the class, their log-ratios of membership, and posteriors.
    """

    lie: Lie
    mass: float
    gain: float
    users: IntArray
    ratios: FloatArray
    probabilities: FloatArray

    def accused(self, n_users: int) -> FloatArray:
        """Return probabilities of all users; 0 for those whose own rewards speak against it."""
        accused = np.zeros(n_users)
        accused[self.users] = np.where(self.ratios > 0.0, self.probabilities, 0.0)
        return accused


def activity_bins(activity: FloatArray, n_bins: int) -> IntArray:
    """Return log2 of the number of plays, rounded down, below a number of bins."""
    return np.minimum(np.log2(np.maximum(activity, 1.0)).astype(np.int64), n_bins - 1)


def search_coalitions(
    data: ClassCounts, categories: Categories, honest: Fit, weights: FloatArray, alpha: float
) -> list[Coalition]:
    """Return a candidate for each class and start, the largest gain first."""
    n_bins = int(np.log2(max(data.counts.activity.max(), 1.0))) + 1
    prior = np.full(n_bins, alpha / 4.0)
    largest = MASS_MARGIN * alpha
    starts = []
    for about in range(data.n_classes):
        usual = data.by_category[data.runs_of(about)].sum(axis=0) + 0.5
        for sign in (1.0, -1.0):
            for tilt in STARTS[categories.is_event]:
                law = usual * np.exp(sign * tilt * categories.scores)
                starts.append(Lie(about, law / law.sum(), honest.model.levels, prior))
    fit = partial(fit_coalition, data, honest, weights, largest_mass=largest)
    found = in_threads(partial(fit, n_steps=SHORT_STEPS), [(lie,) for lie in starts])
    found.sort(key=lambda coalition: -coalition.gain)
    best = [(coalition.lie,) for coalition in found[:FINALISTS]]
    finalists = in_threads(partial(fit, n_steps=LONG_STEPS), best)
    return sorted(finalists, key=lambda coalition: -coalition.gain)


def fit_coalition(
    data: ClassCounts,
    honest: Fit,
    weights: FloatArray,
    lie: Lie,
    largest_mass: float,
    n_steps: int,
) -> Coalition:
    """Fit what members say and who they are by EM, the honest model fixed.

    Given a user's other runs, a run of n plays has log-likelihood ``honest.of_runs`` if honest and
    Σ n_k·log law_k if not: members lie about the class. Elsewhere they respond as honest users with
    the members' levels do.
    """
    runs = data.runs_of(lie.about)
    users = data.run_users[runs]
    counts, others, w = data.by_category[runs], honest.others[runs], weights[users]
    of_honest = honest.of_runs[runs]
    bins = activity_bins(data.counts.activity[users], len(lie.prior))
    here = np.bincount(bins, w, len(lie.prior))
    total_weight = float(weights.sum())
    for _ in range(n_steps):
        ratios, likelihoods, probabilities = _membership(counts, of_honest, others, bins, lie)
        gain = float(w @ likelihoods)
        members = w * probabilities
        law = members @ counts + PRIOR_COUNTS
        levels = (members / (others @ lie.levels)) @ others * lie.levels
        levels += PRIOR_USERS * honest.model.levels
        by_activity = np.bincount(bins, members, len(lie.prior))
        mass = float(by_activity.sum() / total_weight)
        usual = by_activity.sum() / max(here.sum(), 1e-9)
        prior = (by_activity + PRIOR_USERS * usual) / (here + PRIOR_USERS)
        if mass > largest_mass:
            prior *= largest_mass / mass
        lie = Lie(lie.about, law / law.sum(), levels / levels.sum(), prior)
    return Coalition(lie, mass, gain, users, ratios, probabilities)


def accused_by(data: ClassCounts, honest: Fit, lie: Lie) -> FloatArray:
    """Return the probabilities of all users to tell a lie that was found among others."""
    judged = judged_by(data, honest, lie)
    return Coalition(lie, 0.0, 0.0, *judged).accused(data.counts.n_users)


def judged_by(data: ClassCounts, honest: Fit, lie: Lie) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return who met the class of a lie, log-ratios of membership, and posterior probabilities."""
    runs = data.runs_of(lie.about)
    users = data.run_users[runs]
    ratios, _, probabilities = _membership(
        data.by_category[runs],
        honest.of_runs[runs],
        honest.others[runs],
        activity_bins(data.counts.activity[users], len(lie.prior)),
        lie,
    )
    return users, ratios, probabilities


def _membership(
    counts: FloatArray, of_honest: FloatArray, others: FloatArray, bins: IntArray, lie: Lie
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-ratios, log-likelihoods over those of honest users, and posteriors of members.

    ``counts`` are those of the runs by category; all others are per run.
    """
    ratios = counts @ np.log(lie.law) + np.log(others @ lie.levels) - of_honest
    ratios = np.minimum(ratios, LARGEST_RATIO)
    share = np.clip(lie.prior[bins], *PRIOR_RANGE)
    odds = share * np.exp(ratios)
    return ratios, np.log(1.0 - share + odds), odds / (1.0 - share + odds)


def refined(
    data: ClassCounts,
    categories: Categories,
    honest: Fit,
    weights: FloatArray,
    coalition: Coalition,
    alpha: float,
) -> tuple[Coalition, Fit]:
    """Fit coalition and honest model in turn, with room for more members than stated.

    It starts from the side without the coalition: all who might belong to it are left out first.
    From the other side EM would stop where the honest law has swallowed half of the lies.
    """
    n_users = data.counts.n_users
    largest = min(LARGEST_ROOM, ROOM * alpha)
    accused = (coalition.accused(n_users) > 0.0).astype(np.float64)
    fit = honest
    for n_passes in REFINE_PASSES:
        fit = fit_honest(
            data, categories, weights * (1.0 - accused), start=fit.model, n_steps=n_passes
        )
        before = coalition.mass
        coalition = fit_coalition(data, fit, weights, coalition.lie, largest, REFINE_STEPS)
        accused = coalition.accused(n_users)
        if abs(coalition.mass - before) < SETTLED * before:
            break
    gain = coalition.gain + fit.log_likelihood - honest.log_likelihood
    return replace(coalition, gain=gain), fit


def loudness(law: FloatArray, usual: FloatArray, scores: FloatArray) -> float:
    """Return the tilt of the usual law that has the same mean score as what members say.

    Examples
    --------
    >>> loudness(np.array([0.5, 0.5]), np.array([0.9, 0.1]), np.array([0.0, 1.0])) > 2.1
    True
    """
    low, high = -12.0, 12.0
    wanted = law @ scores
    for _ in range(40):
        middle = (low + high) / 2.0
        tilted = usual * np.exp(middle * scores)
        if tilted @ scores / tilted.sum() < wanted:
            low = middle
        else:
            high = middle
    return low


def usual_law(data: ClassCounts, coalition: Coalition, weights: FloatArray) -> FloatArray:
    """Return what all others say about the class of a coalition."""
    runs = data.runs_of(coalition.lie.about)
    kept = weights * (1.0 - coalition.accused(data.counts.n_users))
    law = kept[coalition.users] @ data.by_category[runs] + 0.5
    usual: FloatArray = law / law.sum()
    return usual
