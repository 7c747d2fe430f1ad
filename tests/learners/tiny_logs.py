"""Logs small enough to compute the expected results by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unswayed.tallies import Tallies, tally


def shape(n_users: int, n_contexts: int, n_actions: int) -> dict[str, Any]:
    """Return the numbers of users, contexts and actions as keywords of ``tally``."""
    return {"n_users": n_users, "n_contexts": n_contexts, "n_actions": n_actions}


def tallied(
    events: ArrayLike,
    *,
    n_users: int | None = None,
    n_contexts: int,
    n_actions: int,
    weights: Sequence[float] | None = None,
) -> Tallies:
    """Tally rows of (user, context, action, reward)."""
    columns = np.asarray(events, float).reshape(-1, 4).T
    users, contexts, actions = columns[:3].astype(np.int64)
    return tally(
        users,
        contexts,
        actions,
        columns[3],
        n_users=1 + int(users.max()) if n_users is None else n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
        weights=None if weights is None else np.array(weights),
    )


def cut_after(tallies: Tallies, *users: int) -> Tallies:
    """Return the same tallies in blocks that end at the given users."""
    return replace(tallies, bounds=(0, *users, tallies.n_users))
