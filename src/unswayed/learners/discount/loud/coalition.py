"""One coalition that lies about one class of cells: its members, and what they say."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unswayed.learners.discount.loud.categories import Categories
from unswayed.learners.discount.loud.honest import Fit, fit_honest
from unswayed.learners.discount.loud.testimony import Testimony
from unswayed.learners.interface import FloatArray, IntArray

MASS_MARGIN = 1.25
"""The coalition has at most this many times the stated share of the users."""

FULL = 0.95
"""A coalition with this share of its largest mass may be larger; it is fitted again."""

ROOM, LARGEST_ROOM = 2.5, 0.45
"""With up to 2.5 times the stated share, at most .45: better than to trust an understated one."""

PRIOR_USERS = 10.0
"""The share of members among users of one activity is averaged with that of all, as if from so many
users more."""

PRIOR_COUNTS = 0.02
"""Added to each category of what members say."""

SHORT_STEPS, LONG_STEPS, FINALISTS = 5, 20, 8
"""Steps of EM from every start, and from the best so many."""

REFINE_STEPS, REFINE_PASSES = 3, (2, 2, 2, 2, 1, 1, 1, 1, 1, 1)
"""Steps of EM in turn with passes of the honest model: two passes measure levels and tastes anew,
one measures the laws of cells only."""

STARTS = {True: (6.0, 3.5), False: (3.0,)}
"""Tilts of the first guess of what members say, up and down; for events and for amounts."""

PRIOR_RANGE = (1e-6, 0.5)
"""No activity makes a user more likely a member than not."""

LARGEST_RATIO = 300.0
"""Log-ratios are cut here, so that nothing overflows."""


@dataclass(frozen=True, slots=True, eq=False)
class Coalition:
    """A candidate.

    Attributes
    ----------
    about
        The class of cells that it lies about.
    law
        Shape (n_categories,); what members say there.
    prior
        Shape (n_activities,); share of members by log2 of the number of plays.
    mass
        Share of all users.
    gain
        Log-likelihood gained over the honest model alone, which was fitted to everybody.
    users, ratios, probabilities
        Who met the class, log-ratios of membership, and posterior probabilities.
    """

    about: int
    law: FloatArray
    prior: FloatArray
    mass: float
    gain: float
    users: IntArray
    ratios: FloatArray
    probabilities: FloatArray

    def accused(self, n_users: int) -> FloatArray:
        """Return probabilities of all users; 0 for those whose own words do not speak for it."""
        accused = np.zeros(n_users)
        accused[self.users] = np.where(self.ratios > 0.0, self.probabilities, 0.0)
        return accused


def activity_bins(activity: FloatArray) -> IntArray:
    """Return log2 of the number of plays, rounded down."""
    return np.floor(np.log2(np.maximum(activity, 1.0))).astype(np.int64)


def search_coalitions(
    said: Testimony, categories: Categories, honest: Fit, weights: FloatArray, alpha: float
) -> list[Coalition]:
    """Return a candidate for each class and start, the largest gain first."""
    n_bins = int(activity_bins(said.counts.activity).max()) + 1
    prior = np.full(n_bins, alpha / 4.0)
    largest = MASS_MARGIN * alpha

    def fitted(about: int, law: FloatArray, prior: FloatArray, n_steps: int) -> Coalition:
        return fit_coalition(
            said,
            honest,
            weights,
            about=about,
            law=law,
            prior=prior,
            largest_mass=largest,
            n_steps=n_steps,
        )

    found = []
    for about in range(said.n_classes):
        usual = said.said[said.runs_about(about)].sum(axis=0) + 0.5
        for sign in (1.0, -1.0):
            for tilt in STARTS[categories.is_event]:
                law = usual * np.exp(sign * tilt * categories.scores)
                found.append(fitted(about, law / law.sum(), prior, SHORT_STEPS))
    found.sort(key=lambda coalition: -coalition.gain)
    finalists = [fitted(c.about, c.law, c.prior, LONG_STEPS) for c in found[:FINALISTS]]
    return sorted(finalists, key=lambda coalition: -coalition.gain)


def fit_coalition(
    said: Testimony,
    honest: Fit,
    weights: FloatArray,
    *,
    about: int,
    law: FloatArray,
    prior: FloatArray,
    largest_mass: float,
    n_steps: int,
) -> Coalition:
    """Fit what members say and who they are by EM, the honest model fixed.

    Given a user's other runs, a run of n plays has log-likelihood ``honest.of_runs`` if honest and
    Σ n_k·log law_k if not: members lie about the class, and are honest elsewhere.
    """
    runs = said.runs_about(about)
    users = said.run_users[runs]
    words, of_honest, w = said.said[runs], honest.of_runs[runs], weights[users]
    bins = activity_bins(said.counts.activity)[users]
    here = np.bincount(bins, w, len(prior))
    everybody = float(weights.sum())
    for _ in range(n_steps):
        ratios, likelihoods, probabilities = membership(words, of_honest, law, prior[bins])
        gain = float(w @ likelihoods)
        law = (w * probabilities) @ words + PRIOR_COUNTS
        law = law / law.sum()
        members = np.bincount(bins, w * probabilities, len(prior))
        mass = float(members.sum() / everybody)
        usual = members.sum() / max(here.sum(), 1e-9)
        prior = (members + PRIOR_USERS * usual) / (here + PRIOR_USERS)
        if mass > largest_mass:
            prior = prior * (largest_mass / mass)
    return Coalition(about, law, prior, mass, gain, users, ratios, probabilities)


def membership(
    words: FloatArray, of_honest: FloatArray, law: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-ratios, log-likelihoods over those of honest users, and posteriors of members.

    ``words`` are the runs' counts by category; all others are per run.
    """
    ratios = np.minimum(words @ np.log(law) - of_honest, LARGEST_RATIO)
    share = np.clip(prior, *PRIOR_RANGE)
    odds = share * np.exp(ratios)
    return ratios, np.log(1.0 - share + odds), odds / (1.0 - share + odds)


def refined(
    said: Testimony,
    categories: Categories,
    honest: Fit,
    weights: FloatArray,
    coalition: Coalition,
    alpha: float,
) -> tuple[Coalition, Fit]:
    """Fit coalition and honest model in turn; with more room if the stated share is too small.

    It starts from the side without the coalition: all who might belong to it are left out first.
    From the other side EM would stop where the honest law has swallowed half of the lies.
    """
    found, without = _in_turn(said, categories, honest, weights, coalition, MASS_MARGIN * alpha)
    if found.mass > FULL * MASS_MARGIN * alpha and ROOM > MASS_MARGIN:
        room = min(LARGEST_ROOM, ROOM * alpha)
        found, without = _in_turn(said, categories, honest, weights, coalition, room)
    gain = found.gain + without.log_likelihood - honest.log_likelihood
    return replace(found, gain=gain), without


def _in_turn(
    said: Testimony,
    categories: Categories,
    honest: Fit,
    weights: FloatArray,
    coalition: Coalition,
    largest_mass: float,
) -> tuple[Coalition, Fit]:
    n_users = said.counts.n_users
    accused = (coalition.accused(n_users) > 0.0).astype(np.float64)
    fit = honest
    for n_passes in REFINE_PASSES:
        fit = fit_honest(
            said, categories, weights * (1.0 - accused), start=fit.model, n_steps=n_passes
        )
        coalition = fit_coalition(
            said,
            fit,
            weights,
            about=coalition.about,
            law=coalition.law,
            prior=coalition.prior,
            largest_mass=largest_mass,
            n_steps=REFINE_STEPS,
        )
        accused = coalition.accused(n_users)
    return coalition, fit


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


def usual_law(said: Testimony, coalition: Coalition, weights: FloatArray) -> FloatArray:
    """Return what all others say about the class of a coalition."""
    runs = said.runs_about(coalition.about)
    kept = weights * (1.0 - coalition.accused(said.counts.n_users))
    law = kept[coalition.users] @ said.said[runs] + 0.5
    usual: FloatArray = law / law.sum()
    return usual
