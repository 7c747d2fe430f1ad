"""Algorithm 1 if some users are far more active than others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.learners.tiny_logs import cut_after, tallied
from tests.tallies.summaries import dense
from unswayed.estimators import spectral_filter
from unswayed.learners.paper import estimate_context_probabilities
from unswayed.tallies import Tallies

N_CONTEXTS = 6


def uneven(rng: np.random.Generator, n_users: int = 300) -> Tallies:
    """Return a log with inactive users, and a few busy ones who flood context 4.

    The last context is so rare that its scale is the floor.
    """
    n_plays = np.where(np.arange(n_users) % 9 >= 5, 0, 8 + np.arange(n_users) % 5)
    n_plays[:3] = 2000
    users = np.repeat(np.arange(n_users), n_plays)
    contexts = rng.choice(N_CONTEXTS, p=[0.4, 0.3, 0.2, 0.085, 0.01, 0.005], size=users.size)
    contexts[users < 30] = np.where(rng.random((users < 30).sum()) < 0.5, 4, 0)
    actions = rng.integers(2, size=users.size)
    events = np.column_stack([users, contexts, actions, np.ones(users.size)])
    return tallied(events, n_users=n_users, n_contexts=N_CONTEXTS, n_actions=2)


def visits_of(tallies: Tallies) -> np.ndarray:
    """Return how often each active user visited each context."""
    visits = dense(tallies, tallies.counts).reshape(-1, N_CONTEXTS, 2).sum(axis=2)
    return np.asarray(visits[visits.sum(axis=1) > 0])


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("cut", [(), (100, 250)])
def test_very_active_users_count_with_twenty_times_the_median_activity(
    rng: np.random.Generator, alpha: float, cut: tuple[int, ...]
) -> None:
    """Both passes are written out for dense rows."""
    tallies = uneven(rng)
    visits = visits_of(tallies)
    n = visits.sum(axis=1)
    most = 20 * np.median(n)
    assert (n > most).sum() == 3
    total = np.minimum(n, most).sum()
    floor = 20 * math.log(N_CONTEXTS) / total
    shares = (visits * np.minimum(1, most / n)[:, None]).sum(axis=0) / total
    assert 0 < shares[5] < floor
    weights = None
    for _ in range(2):
        scales = np.sqrt(np.maximum(shares, floor))
        filtered = spectral_filter(visits / n[:, None] / scales, alpha=alpha, row_weights=weights)
        weights, shares = filtered.weights, scales * filtered.estimate
    result = estimate_context_probabilities(
        cut_after(tallies, *cut) if cut else tallies, alpha=alpha
    )
    np.testing.assert_allclose(result.context_probabilities, shares, rtol=1e-9)
    np.testing.assert_allclose(result.filtered.weights, filtered.weights, atol=1e-9)
    np.testing.assert_allclose(result.scales, np.sqrt(np.maximum(shares, floor)), rtol=1e-9)


def test_the_floor_of_a_single_context_is_that_of_two() -> None:
    tallies = tallied([(0, 0, 0, 1.0)] * 2, n_contexts=1, n_actions=1)
    result = estimate_context_probabilities(tallies, alpha=0.0)
    np.testing.assert_allclose(result.context_probabilities, [1.0])
    np.testing.assert_allclose(result.scales**2, [20 * math.log(2) / 2])
    two = tallied([(0, 0, 0, 1.0)] * 2, n_contexts=2, n_actions=1)
    np.testing.assert_allclose(
        estimate_context_probabilities(two, alpha=0.0).scales ** 2, [20 * math.log(2) / 2] * 2
    )
