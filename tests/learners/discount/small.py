"""Responses and tallies written out entry by entry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unswayed.learners.discount.responses.responses import Responses
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
