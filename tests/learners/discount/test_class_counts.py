"""Counts by category and class: small examples worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.learners.discount.small import CLICKS, stars, tallies_from
from unswayed.learners.discount.loud.class_counts import (
    Counts,
    classes_by_action,
    classes_by_role,
    counts_by_class,
    counts_of,
    repeated_share,
)
from unswayed.learners.discount.responses.categories import find_categories


def test_plays_of_a_cell_count_less_the_more_users_repeat_themselves() -> None:
    """Entries of 4 plays with one click, of 3 without; 200 plays of another user, all clicks."""
    t = tallies_from(
        [0, 0, 1], [0, 3, 2], [4.0, 3.0, 200.0], [0.25, 0.0, 1.0], [0.1875, 0.0, 0.0],
        n_users=3, n_contexts=2, n_actions=2,
    )  # fmt: skip
    found = counts_of(t, CLICKS, 0.5)
    assert found.indptr.tolist() == [0, 3, 4, 4]
    assert found.keys.tolist() == [0, 1, 6, 5]
    # Four plays are worth 4/(1 + 3/2), three 3/(1 + 2/2), 200 are 200/(1 + 199/2) = 1.99.
    assert_allclose(found.counts, [3 * 0.4, 0.4, 3 * 0.5, 200 / 100.5])
    assert found.activity.tolist() == [7.0, 200.0, 0.0]
    assert (found.n_users, found.n_cells, found.n_categories) == (3, 4, 2)
    capped = counts_of(t, CLICKS, 0.0)
    assert_allclose(capped.counts, [3.0, 1.0, 3.0, 100.0])
    light = counts_of(t.scaled(0.1), CLICKS, 0.0)
    assert_allclose(light.counts, capped.counts)
    weights = np.array([0.5, 2.0, 9.0])
    assert_allclose(capped.cell_counts(weights), [[1.5, 0.5], [0.0, 0.0], [0.0, 200.0], [1.5, 0.0]])


def test_a_dominant_value_is_the_common_one_of_several_plays() -> None:
    rewards = np.append(np.zeros(60), np.linspace(1.0, 5.0, 40))
    amounts = find_categories(rewards)
    # Four plays, one of which brought 4: the mean is 1 and the variance 3.
    t = tallies_from([0], [0], [4.0], [1.0], [3.0], n_users=1, n_contexts=1, n_actions=1)
    found = counts_of(t, amounts, 0.0)
    assert found.cell_counts(np.ones(1)).tolist() == [[3.0, 0.0, 1.0, 0.0]]
    # Where no value dominates two stand for all, one deviation either side.
    t = tallies_from([0], [0], [4.0], [2.0], [1.0], n_users=1, n_contexts=1, n_actions=1)
    found = counts_of(t, stars(), 0.0)
    assert found.cell_counts(np.ones(1)).tolist() == [[2.0, 0.0, 2.0]]


def test_repetition_is_measured_without_the_cells_where_it_is_strongest(
    rng: np.random.Generator,
) -> None:
    n, n_users = 10, 40
    users, cells = np.repeat(np.arange(n_users), n), np.tile(np.arange(n), n_users)
    plays = rng.integers(1, 6, len(users)).astype(float)
    tastes = np.linspace(0.1, 2.0, n)[cells] * rng.standard_normal(len(users))
    means = cells + tastes + rng.standard_normal(len(users)) / np.sqrt(plays)
    variances = rng.chisquare(np.maximum(plays - 1, 1e-9)) / plays
    t = tallies_from(
        users, cells, plays, means, variances, n_users=n_users, n_contexts=n, n_actions=1
    )
    rows = []
    for cell in range(n):
        here = cells == cell
        centre = np.average(means[here], weights=plays[here])
        again = here & (plays > 1.5)
        k = plays[again]
        within, around = k @ variances[again], k @ (means[again] - centre) ** 2
        repeats, met = (k - 1).sum(), again.sum()
        share = (around - met * within / repeats) / (around + within)
        rows.append((share, repeats, within, around, met, k.sum()))
    rows.sort()
    _, repeats, within, around, met, total = (sum(column) for column in zip(*rows[:7], strict=True))
    inside = within / repeats
    between = (around - met * inside) / total
    assert repeated_share(t) == pytest.approx(between / (between + inside))
    assert 0.0 < repeated_share(t) < 1.0


def test_repetition_needs_fifty_repeated_plays() -> None:
    for n_users, expected in ((50, 1.0), (49, 0.0)):
        users = np.arange(n_users)
        t = tallies_from(
            users, np.zeros(n_users), np.full(n_users, 2.0), users % 2, np.zeros(n_users),
            n_users=n_users, n_contexts=1, n_actions=1,
        )  # fmt: skip
        assert repeated_share(t) == expected
    # More scatter inside than between leaves nothing.
    t = tallies_from(
        np.arange(60), np.zeros(60), np.full(60, 2.0), np.zeros(60), np.ones(60),
        n_users=60, n_contexts=1, n_actions=1,
    )  # fmt: skip
    assert repeated_share(t) == 0.0


def test_counts_are_grouped_into_runs_of_a_user_and_a_class() -> None:
    """Cells 0 and 2 are of class 1, cells 1 and 3 of class 0."""
    counts = Counts(
        n_contexts=2,
        n_actions=2,
        n_categories=2,
        indptr=np.array([0, 4, 4, 5]),
        keys=np.array([0, 1, 3, 5, 6], np.int32),  # cells 0, 0, 1, 2 and 3
        counts=np.array([4.0, 1.0, 2.0, 12.0, 1.0]),
        activity=np.array([19.0, 0.0, 1.0]),
    )
    found = counts_by_class(counts, np.array([1, 0, 1, 0], np.int32), 8.0)
    assert found.counts.keys.tolist() == [3, 0, 1, 5, 6]
    # Seventeen plays of class 1 count 1/(1 + 16/8) each, two of class 0 1/(1 + 1/8).
    assert_allclose(found.counts.counts, [2 / 1.125, 4 / 3, 1 / 3, 12 / 3, 1.0])
    assert found.n_classes == 2
    assert found.first_run.tolist() == [0, 2, 2, 3]
    assert found.first_key.tolist() == [0, 1, 4, 5]
    assert found.run_class.tolist() == [0, 1, 0]
    assert found.run_users.tolist() == [0, 0, 2]
    assert_allclose(found.by_category, [[0.0, 2 / 1.125], [4 / 3, 13 / 3], [1.0, 0.0]])
    assert found.runs_of(0).tolist() == [0, 2]
    assert found.runs_of(1).tolist() == [1]
    assert counts.keys.tolist() == [0, 1, 3, 5, 6]  # the rows themselves are left alone
    assert counts.counts.tolist() == [4.0, 1.0, 2.0, 12.0, 1.0]


def test_classes_are_actions_or_ranks_of_shrunken_means() -> None:
    plays = np.array([[[1, 0], [30, 10]], [[5, 5], [5, 5]], [[0, 0], [2, 9]]], float)
    plays = np.concatenate([plays, np.zeros((3, 3, 2))], axis=1)
    plays[0, 2] = [0, 1]
    flat = plays.ravel()
    counts = Counts(3, 5, 2, np.array([0, 30]), np.arange(30, dtype=np.int32), flat, np.ones(1))
    assert classes_by_action(counts).tolist() == [0, 1, 2, 3, 4] * 3
    values, weights = np.array([1.0, 3.0]), np.array([0.5])
    seen = 0.5 * plays
    usual = (seen.sum(axis=(0, 1)) @ values) / seen.sum()
    means = (seen @ values + 10.0 * usual) / (seen.sum(axis=2) + 10.0)
    found = classes_by_role(counts, values, weights).reshape(3, 5)
    # Cells without plays are equal, and rank in their order; from the fourth on all are one class.
    order = np.argsort(-means, axis=1, kind="stable")
    for context in range(3):
        for rank, action in enumerate(order[context]):
            assert found[context, action] == min(rank, 3)
    assert found.dtype == np.int32
