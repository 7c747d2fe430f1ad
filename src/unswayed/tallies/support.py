"""Actions without support: never played where chance alone would have played them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Ours: cells are called unsupported only if chance leaves any cell empty this rarely.
SUPPORT_LEVEL = 0.001


def unsupported_cells(
    visits: npt.NDArray[np.float64],
    n_users: npt.NDArray[np.int64],
    *,
    least_probability: float | None = None,
) -> npt.NDArray[np.bool_]:
    """Return which cells are empty although every action of their context had a fair chance.

    Parameters
    ----------
    visits
        Shape (n_contexts, n_actions); how often each cell was played.
    n_users
        Shape (n_contexts, n_actions); how many users met it.
    least_probability
        With propensities the smallest that counts as support; None for uniform exploration.

    Notes
    -----
    Guarantee: if every play of a context gives each action at least the probability p, some empty
    cell is called unsupported with probability at most ``SUPPORT_LEVEL``: n independent draws miss
    an action with probability at most (1−p)^n, and there are S·A cells. With propensities n counts
    plays. Under uniform exploration p = 1/A, and n counts the pairs of user and action: a user who
    keeps one action in a context adds one draw, and others play at least as often as that.

    Examples
    --------
    >>> visits = np.array([[40.0, 0.0], [3.0, 0.0]])
    >>> unsupported_cells(visits, visits.astype(np.int64)).tolist()
    [[False, True], [False, False]]
    """
    draws = n_users.sum(axis=1) if least_probability is None else visits.sum(axis=1)
    probability = 1.0 / visits.shape[1] if least_probability is None else least_probability
    # In logarithms: a power with so many draws would underflow.
    log_chance = np.log(visits.size) + draws * np.log1p(-min(probability, 0.5))
    unsupported: npt.NDArray[np.bool_] = (visits == 0) & (log_chance < np.log(SUPPORT_LEVEL))[
        :, None
    ]
    return unsupported
