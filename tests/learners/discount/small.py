"""Responses and tallies written out entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray
from unswayed.engine import Blocked
from unswayed.learners.discount.loud.class_counts import Counts
from unswayed.learners.discount.responses.categories import Categories, find_categories
from unswayed.learners.discount.responses.responses import BlockedResponses, Responses
from unswayed.tallies import Tallies

Numbers = Sequence[float] | Sequence[int] | npt.NDArray[np.generic]


def indptr_of(users: Numbers, n_users: int) -> npt.NDArray[np.int64]:
    """Return where the entries of each user begin; users ascend."""
    counts = np.bincount(np.asarray(users, np.int64), minlength=n_users)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def responses_from(
    users: Numbers,
    cells: Numbers,
    plays: Numbers,
    means: Numbers,
    *,
    n_users: int,
    n_contexts: int,
    n_actions: int,
    within: Numbers | None = None,
    rewards: Numbers | None = None,
    is_binary: bool = False,
    context_probabilities: Numbers | None = None,
) -> Responses:
    """Return responses with these entries; without squares, and contexts equally frequent."""
    return Responses(
        n_contexts=n_contexts,
        n_actions=n_actions,
        indptr=indptr_of(users, n_users),
        cells=np.asarray(cells, np.int32),
        plays=np.asarray(plays, np.float64),
        rewards=np.asarray(means if rewards is None else rewards, np.float64),
        means=np.asarray(means, np.float64),
        within=np.asarray(np.full(len(cells), np.nan) if within is None else within, np.float64),
        is_binary=is_binary,
        context_probabilities=np.asarray(
            np.full(n_contexts, 1.0 / n_contexts)
            if context_probabilities is None
            else context_probabilities,
            np.float64,
        ),
    )


def tallies_from(
    users: Numbers,
    cells: Numbers,
    plays: Numbers,
    means: Numbers,
    variances: Numbers,
    *,
    n_users: int,
    n_contexts: int,
    n_actions: int,
) -> Tallies:
    """Return unweighted tallies with these means and variances of entries."""
    counts, own = np.asarray(plays, np.float64), np.asarray(means, np.float64)
    return Tallies(
        n_contexts=n_contexts,
        n_actions=n_actions,
        indptr=indptr_of(users, n_users),
        cells=np.asarray(cells, np.int32),
        counts=counts,
        sums=counts * own,
        squares=counts * (np.asarray(variances, np.float64) + own * own),
        weighted_plays=np.empty(0),
    )


def in_blocks(responses: Responses, *edges: int) -> BlockedResponses:
    """Return the same responses in blocks of users."""
    bounds = [0, *edges, responses.n_users]
    parts = [responses.of_range(a, b) for a, b in pairwise(bounds)]
    sizes = tuple(b - a for a, b in pairwise(bounds))
    contexts = responses.cells // responses.n_actions
    return BlockedResponses(
        blocks=Blocked.here(parts, sizes),
        entries=np.bincount(contexts, minlength=responses.n_contexts),
        n_contexts=responses.n_contexts,
        n_actions=responses.n_actions,
        is_binary=responses.is_binary,
        context_probabilities=responses.context_probabilities,
    )


def grid_of(means: FloatArray, **options: Any) -> Responses:
    """Return responses of users who all met every cell of two or more contexts once."""
    n_users, n_contexts, n_actions = means.shape
    return responses_from(
        users=np.repeat(np.arange(n_users), n_contexts * n_actions),
        cells=np.tile(np.arange(n_contexts * n_actions), n_users),
        plays=np.ones(means.size),
        means=means.ravel(),
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
        **options,
    )


def sample_of(means: Sequence[float], users: Sequence[int], **options: Any) -> Tallies:
    """Return tallies of users who met every cell of one context once at most."""
    size = len(means)
    return tallies_from(
        users,
        range(size),
        options.get("plays", np.ones(size)),
        means,
        options.get("variances", np.zeros(size)),
        n_users=options.get("n_users", max(users) + 1),
        n_contexts=1,
        n_actions=size,
    )


CLICKS = find_categories(np.array([0.0, 0.0, 0.0, 1.0]))


def stars() -> Categories:
    """Return categories of three stars."""
    return find_categories(np.repeat([1.0, 2.0, 3.0], [30, 40, 30]))


def random_counts(rng: np.random.Generator, *, n_users: int = 30, n_categories: int = 2) -> Counts:
    """Return counts of users in three contexts of two actions; the last user met nothing."""
    plays = rng.poisson(0.7, (n_users, 6 * n_categories)) * rng.integers(1, 4, (n_users, 1))
    plays[-1] = 0
    users, keys = np.nonzero(plays)
    return Counts(
        n_contexts=3,
        n_actions=2,
        n_categories=n_categories,
        indptr=indptr_of(users, n_users),
        keys=keys.astype(np.int32),
        counts=plays[users, keys].astype(float),
        activity=plays.sum(axis=1).astype(float),
    )
