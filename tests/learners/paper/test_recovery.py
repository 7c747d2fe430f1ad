"""The recovery procedure, compared with its formulas in plain loops over users."""

from __future__ import annotations

import numpy as np
import pytest

from tests.learners.tiny_logs import cut_after, tallied
from unswayed.estimators import spectral_filter, trimmed_mean
from unswayed.learners.design import Design
from unswayed.learners.paper import recover_frequent, recover_rare, reward_rows
from unswayed.tallies import Tallies

SHAPE = N_CONTEXTS, N_ACTIONS = 4, 3
SCALES = np.array([0.5, 2.0, 0.25, 1.0])
IS_FREQUENT = np.array([True, False, True, False])


def world(rng: np.random.Generator, n_users: int = 60) -> Tallies:
    """Return a log with rewards of -1, 0 and 2 in which the last two users did nothing.

    Three users report 50 instead. Action 2 is never played in context 2.
    """
    users = np.repeat(np.arange(n_users - 2), 1 + np.arange(n_users - 2) % 7)
    contexts = rng.integers(N_CONTEXTS, size=users.size)
    actions = rng.integers(N_ACTIONS, size=users.size)
    actions[(contexts == 2) & (actions == 2)] = 0
    rewards = rng.choice([-1.0, 0.0, 2.0], size=users.size)
    rewards[users % 20 == 6] = 50.0
    events = np.column_stack([users, contexts, actions, rewards])
    return tallied(events, n_users=n_users, n_contexts=N_CONTEXTS, n_actions=N_ACTIONS)


def tables(tallies: Tallies) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and sums; shape (n_users, n_contexts, n_actions)."""
    counts, sums = (tallies.csr(x).toarray() for x in (tallies.counts, tallies.sums))
    return counts.reshape(-1, *SHAPE), sums.reshape(-1, *SHAPE)


def sizes_of(tallies: Tallies) -> np.ndarray:
    """Return group sizes of which some are larger and one is smaller than who came."""
    sizes = tallies.cell_users() + np.arange(12).reshape(SHAPE) % 5
    sizes[0, 1] = 3
    sizes[2, 2] = 0
    return sizes


@pytest.mark.parametrize("cut", [(), (20, 45)])
@pytest.mark.parametrize("per_visit", [True, False])
def test_frequent_contexts_are_trimmed_means_over_the_group(
    rng: np.random.Generator, per_visit: bool, cut: tuple[int, ...]
) -> None:
    tallies = world(rng)
    counts, sums = tables(tallies)
    design = Design(np.ones(N_CONTEXTS, np.bool_), sizes_of(tallies))
    recovered = recover_frequent(
        cut_after(tallies, *cut) if cut else tallies,
        design,
        SCALES,
        IS_FREQUENT,
        alpha=0.15,
        per_visit=per_visit,
    )
    expected = np.full(SHAPE, np.nan)
    for s, a in ((0, 0), (0, 1), (0, 2), (2, 0), (2, 1)):
        came = np.flatnonzero(counts[:, s, a])
        if per_visit:
            values = [sums[i, s, a] / counts[i, s, a] for i in came]
        else:
            values = [sums[i, s, a] / SCALES[s] / counts[i].sum() for i in came]
            values += [0.0] * (int(design.group_sizes[s, a]) - len(came))
        cell = trimmed_mean(values, alpha=0.15, failure_probability=0.1 / 12)
        assert cell.n_tolerated > 0
        expected[s, a] = cell.estimate
    np.testing.assert_allclose(recovered, expected, rtol=1e-12)


def test_without_frequent_contexts_nothing_is_estimated(rng: np.random.Generator) -> None:
    tallies = world(rng)
    recovered = recover_frequent(
        tallies,
        Design(np.zeros(N_CONTEXTS, np.bool_), np.zeros(SHAPE, np.int64)),
        SCALES,
        np.zeros(N_CONTEXTS, np.bool_),
        alpha=0.1,
    )
    assert recovered.shape == SHAPE
    assert np.isnan(recovered).all()


def rare_rows(tallies: Tallies) -> np.ndarray:
    """Return b_i of each active user over the cells of contexts 1 and 3."""
    counts, sums = tables(tallies)
    rows = []
    for i in np.flatnonzero(counts.sum(axis=(1, 2))):
        factors = N_ACTIONS / counts[i].sum() / SCALES[:, None]
        rows.append((factors * sums[i])[[1, 3]].ravel())
    return np.array(rows)


def test_sums_of_zero_are_not_stored_and_users_without_other_ones_have_empty_rows() -> None:
    events = [(0, 0, 1, 5.0), (0, 1, 0, 2.0), (0, 1, 1, 0.0), (1, 3, 0, 0.0), (2, 0, 0, 7.0)]
    events += [(4, 1, 1, 1.0), (4, 3, 0, 3.0), (4, 3, 2, -4.0), (4, 3, 2, -4.0)]
    tallies = tallied(events, n_contexts=N_CONTEXTS, n_actions=N_ACTIONS)
    rows = reward_rows(tallies, SCALES, ~IS_FREQUENT)
    assert rows.shape == (4, 6)
    assert rows.indptr.tolist() == [0, 1, 1, 1, 4]
    assert rows.indices.tolist() == [0, 1, 3, 5]
    # A reward times three actions, over interactions and scale.
    assert rows.data.tolist() == [2 * 3 / 3 / 2, 1 * 3 / 4 / 2, 3 * 3 / 4 / 1, -8 * 3 / 4 / 1]


@pytest.mark.parametrize("cut", [(), (20, 45)])
def test_rare_contexts_are_the_filtered_mean_of_all_their_cells_together(
    rng: np.random.Generator, cut: tuple[int, ...]
) -> None:
    tallies = world(rng)
    recovered, filtered = recover_rare(
        cut_after(tallies, *cut) if cut else tallies,
        SCALES,
        ~IS_FREQUENT,
        alpha=0.2,
    )
    expected = spectral_filter(rare_rows(tallies), alpha=0.2)
    np.testing.assert_allclose(recovered[[1, 3]].ravel(), expected.estimate)
    assert np.isnan(recovered[[0, 2]]).all()
    np.testing.assert_allclose(filtered.weights, expected.weights, atol=1e-9)
    assert expected.removed > 0
