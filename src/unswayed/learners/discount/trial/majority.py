"""Whether an accusation leaves the majority its decisions, by how users' preferences are skewed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.learners.discount.responses.noise import measure_noise
from unswayed.learners.discount.responses.responses import BlockedResponses, Responses
from unswayed.learners.discount.trial.aims import pooled_means
from unswayed.policy import best_known

CLEARLY = 3.0
"""Ours: standard errors by which preferences must be skewed against an accusation. Of 100 true ones
of ``epochs`` in the zoo of attacks (seed 101) none reached 2, false ones 4 to 14."""

FARTHEST = 2.0
"""Ours: how far against the accusation a response counts, in lies of the accused on average. Then a
coalition cannot skew preferences against a true accusation: lies of mean L > 0, of which
none is below minus 3·L, have a positive third moment."""

LEAST_FARTHEST = 2.0
"""Ours: but at least this many deviations of a response, so that noise is not cut on one side."""

MOST_PLAYS = 2.0
"""Ours: plays of a user count up to this multiple of the mean number of plays."""


LEAST_OF_MAJORITY = 0.5
"""Ours: of those who are kept, the majority by itself must have at least this share of the
preference for the proposed decisions."""


class Preferences(NamedTuple):
    """How users differ in what they think of the standing decisions against the proposed ones.

    Attributes
    ----------
    mean
        By how much all of them together prefer standing decisions, in reward per play.
    variance, skew
        Second and third central moments of users' own mean preferences, free of noise.
    skew_error
        Standard error of ``skew``.
    """

    mean: float
    variance: float
    skew: float
    skew_error: float

    @property
    def is_minority_opposed(self) -> bool:
        """Whether clearly a minority is what pulls towards the proposed decisions."""
        return self.skew < -CLEARLY * self.skew_error

    @property
    def of_the_majority(self) -> float:
        """The mean preference of the larger of two populations that have these moments.

        Of two points with shares p < 1/2 and 1 − p, skew²/variance³ is (1 − 2p)²/(p·(1 − p)).
        """
        if self.variance <= 0.0:
            return self.mean
        product = 1.0 / (self.skew**2 / self.variance**3 + 4.0)
        minority = (1.0 - np.sqrt(1.0 - 4.0 * product)) / 2.0
        shift = np.sqrt(self.variance * minority / (1.0 - minority))
        return float(self.mean - np.sign(self.skew) * shift)


def contradicts(responses: BlockedResponses, weights: FloatArray, after: FloatArray) -> bool:
    """Return whether the majority clearly holds with the decisions that an accusation overturns.

    Parameters
    ----------
    responses
        All users' responses.
    weights, after
        Shape (n_users,); weights before the accusation and after it.

    Notes
    -----
    Let θ be a user's mean preference for standing decisions over proposed ones, where the two
    differ. If the accusation is right, θ is the same for all but a minority that lies far on the
    side of the standing decisions: the third central moment of θ is positive, and after the
    accusation 0. If it is negative, a minority pulls the other way, and the accused were
    picked from the majority. Products of a user's different plays estimate the moments of θ
    without bias, whatever the noise; likelihoods are misled by colluders who have none.
    """
    standing = best_known(pooled_means(responses, weights))
    proposed = best_known(pooled_means(responses, after))
    changed = np.flatnonzero(standing != proposed)
    if len(changed) == 0:
        return False
    signs, first = np.zeros(responses.n_cells), changed * responses.n_actions
    signs[first + standing[changed]], signs[first + proposed[changed]] = 1.0, -1.0
    noise = measure_noise(responses, after)
    deviation = float(np.sqrt(np.median(noise.variances[signs != 0.0])))
    lie = _preference(responses, weights - after, signs) - _preference(responses, after, signs)
    farthest = max(FARTHEST * lie, LEAST_FARTHEST * deviation)
    before = _preferences(responses, weights, signs, farthest, deviation)
    if before.is_minority_opposed:
        return True
    # Decoys who praise what stands would skew all preferences; they are the first to be accused.
    kept = _preferences(responses, after, signs, farthest, deviation)
    return kept.is_minority_opposed and kept.of_the_majority > LEAST_OF_MAJORITY * kept.mean


def _preference(responses: BlockedResponses, weights: FloatArray, signs: FloatArray) -> float:
    """Return by how much users prefer standing decisions, in reward per play."""
    means = pooled_means(responses, weights).ravel()
    compared = np.flatnonzero(signs)
    return float(np.nan_to_num(signs[compared] * means[compared]).mean())


def _preferences(
    responses: BlockedResponses,
    weights: FloatArray,
    signs: FloatArray,
    farthest: float,
    deviation: float,
) -> Preferences:
    means = np.nan_to_num(pooled_means(responses, weights).ravel())
    users, plays = responses.blocks.add_blocks(_plays_there, signs, rows=weights)
    most = MOST_PLAYS * plays / max(users, 1e-300)
    sums = responses.blocks.add_blocks(
        _moments, signs, means, farthest, deviation, most, rows=weights
    )
    pairs, of_pairs, triples, of_triples, *squares = sums
    pairs, triples = max(pairs, 1e-300), max(triples, 1e-300)  # there may be none
    skew = of_triples / triples
    # The sum over users of (m·(t - skew))², for a user's triples m and their mean product t.
    scatter = squares[2] - 2.0 * skew * squares[1] + skew**2 * squares[0]
    return Preferences(
        mean=_preference(responses, weights, signs),
        variance=float(of_pairs / pairs),
        skew=float(skew),
        skew_error=float(np.sqrt(max(scatter, 0.0)) / triples),
    )


def _plays_there(responses: Responses, weights: FloatArray, signs: FloatArray) -> FloatArray:
    """Return the weight of users who met the compared cells, and of their plays there."""
    plays = np.bincount(
        responses.users,
        responses.plays * (signs[responses.cells] != 0.0),
        minlength=responses.n_users,
    )
    return np.array([weights @ (plays > 0), weights @ plays])


def _moments(
    responses: Responses,
    weights: FloatArray,
    signs: FloatArray,
    means: FloatArray,
    farthest: float,
    deviation: float,
    most: float,
) -> FloatArray:
    """Return sums over users: of pairs, their products, triples, theirs, and squares for errors.

    Plays i, j, k of a user are multiplied if they are different. Tallies hold sums and squares, so
    triples within one cell are left out: they would take cubes.
    """
    is_compared = signs[responses.cells] != 0.0
    users, cells, n = (
        responses.users[is_compared],
        responses.cells[is_compared],
        responses.plays[is_compared],
    )
    within = responses.within[is_compared]
    within = np.where(np.isnan(within), np.maximum(n - 1.0, 0.0) * deviation**2, within)
    away = np.maximum(signs[cells] * (responses.means[is_compared] - means[cells]), -farthest)
    sums, squares = n * away, within + n * away**2

    def of_users(values: FloatArray) -> FloatArray:
        return np.bincount(users, values, minlength=responses.n_users).astype(np.float64)

    total, plays = of_users(sums), of_users(n)
    pairs = plays**2 - plays
    of_pairs = total**2 - of_users(squares)
    triples = plays**3 - of_users(n**3) - 3.0 * (plays**2 - of_users(n**2))
    of_triples = (
        total**3 - of_users(sums**3) - 3.0 * (total * of_users(squares) - of_users(squares * sums))
    )
    has_two, has_three = pairs > 0.5, triples > 0.5
    product = np.where(has_three, of_triples / np.maximum(triples, 0.5), 0.0)
    counted = weights * np.where(has_three, np.minimum(triples, most**3), 0.0)
    share = weights * np.where(has_two, np.minimum(1.0, most**2 / np.maximum(pairs, 0.5)), 0.0)
    return np.array(
        [
            share @ pairs,
            share @ of_pairs,
            counted.sum(),
            counted @ product,
            counted @ counted,
            counted**2 @ product,
            counted**2 @ product**2,
        ]
    )
