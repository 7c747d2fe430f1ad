"""Clusters of users by their residuals, with a bounded say of every account."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.personal import Residuals

REACH = 3.0
"""Ours: residuals beyond this many standard deviations of one reward count as that, so that an
account moves a centre by a bounded amount."""

STEPS = 25
"""Ours: most rounds of assigning users and moving centres; few are needed."""

STARTS = 4
"""Ours: beginnings from which the best clustering is taken."""

POWER_STEPS = 6
"""Ours: products with the Gram matrix that find the directions in which users differ most."""

PRIOR_PLAYS = 4.0
"""Ours: centres are averaged with 0, the common taste, as if from this many plays of a cell."""


@dataclass(frozen=True, slots=True, eq=False)
class Plays:
    """Users' residuals as sparse (n_users, n_cells) arrays, in units of the noise.

    Attributes
    ----------
    counts, sums
        Plays of each cell, and plays times residual.
    """

    counts: sparse.csr_array
    sums: sparse.csr_array

    def of_users(self, users: IntArray) -> Plays:
        """Return the plays of some users."""
        return Plays(self.counts[users], self.sums[users])

    def in_cells(self, is_inside: FloatArray) -> Plays:
        """Return the plays of some cells; others become 0."""
        keep = sparse.diags_array(is_inside.astype(np.float64))
        return Plays((self.counts @ keep).tocsr(), (self.sums @ keep).tocsr())


def plays_of(residuals: Residuals, n_users: int, n_cells: int) -> Plays:
    """Return residuals as plays; those beyond ``REACH`` are clipped."""
    values = np.clip(residuals.values / residuals.noise, -REACH, REACH)
    places = (residuals.users, residuals.cells)
    return Plays(
        sparse.csr_array((residuals.plays, places), shape=(n_users, n_cells)),
        sparse.csr_array((residuals.plays * values, places), shape=(n_users, n_cells)),
    )


def log_likelihoods(plays: Plays, centres: FloatArray) -> FloatArray:
    """Return how much likelier each centre makes a user's plays than the common taste does.

    Parameters
    ----------
    centres
        Shape (n_clusters, n_cells), in units of the noise.

    Returns
    -------
    Shape (n_users, n_clusters); normal log-likelihood ratios, Σ (Σr)·c − n·c²/2.
    """
    result: FloatArray = plays.sums @ centres.T - plays.counts @ (centres.T**2) / 2.0
    return result


def cluster(plays: Plays, n_clusters: int, rng: np.random.Generator) -> FloatArray:
    """Return centres of clusters; shape (n_clusters, n_cells).

    Lloyd's rounds under the normal likelihood, from users who differ along the main directions of
    their residuals; the start with the largest likelihood wins.
    """
    scores = _scores(plays, n_clusters, rng)
    best, largest = np.zeros((n_clusters, plays.counts.shape[1])), -np.inf
    for _ in range(STARTS):
        labels = _nearest(scores, scores[_spread_out(scores, n_clusters, rng)])
        centres = _centres(plays, labels, n_clusters)
        for _ in range(STEPS):
            likelihoods = log_likelihoods(plays, centres)
            moved = likelihoods.argmax(axis=1)
            if (moved == labels).all():
                break
            labels = moved
            centres = _centres(plays, labels, n_clusters)
        total = float(log_likelihoods(plays, centres).max(axis=1).sum())
        if total > largest:
            best, largest = centres, total
    return best


def _centres(plays: Plays, labels: IntArray, n_clusters: int) -> FloatArray:
    """Return the mean residual of each cluster's users, shrunk towards the common taste."""
    member = sparse.csr_array(
        (np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels))
    )
    sums, counts = (member @ plays.sums).toarray(), (member @ plays.counts).toarray()
    centres: FloatArray = sums / (counts + PRIOR_PLAYS)
    return centres


def _scores(plays: Plays, n_directions: int, rng: np.random.Generator) -> FloatArray:
    """Return where users lie along the main directions of their residuals; by power steps."""
    n_cells = plays.sums.shape[1]
    weights = 1.0 / np.sqrt(np.maximum(plays.counts.sum(axis=1), 1.0))
    scaled = sparse.diags_array(weights) @ plays.sums
    basis = np.linalg.qr(rng.standard_normal((n_cells, min(n_directions, n_cells))))[0]
    for _ in range(POWER_STEPS):
        basis = np.linalg.qr(scaled.T @ (scaled @ basis))[0]
    scores: FloatArray = scaled @ basis
    return scores


def _spread_out(scores: FloatArray, n_clusters: int, rng: np.random.Generator) -> IntArray:
    """Return users far from each other, as k-means++ draws them."""
    chosen = [int(rng.integers(len(scores)))]
    for _ in range(n_clusters - 1):
        distances = np.min([((scores - scores[user]) ** 2).sum(axis=1) for user in chosen], axis=0)
        total = float(distances.sum())
        draw = rng.choice(len(scores), p=distances / total) if total > 0 else 0
        chosen.append(int(draw))
    return np.array(chosen)


def _nearest(scores: FloatArray, centres: FloatArray) -> IntArray:
    nearest: IntArray = ((scores[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    return nearest
