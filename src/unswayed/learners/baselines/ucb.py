"""The loop of both UCB baselines: optimism over the rows of a table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.learners.baselines.arrivals import index_of_best
from unswayed.learners.interface import FloatArray, IntArray


@compiled
def play_ucb(
    rng: np.random.Generator,
    rows: IntArray,
    answers: FloatArray,
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
) -> IntArray:
    """Play UCB1 in the row of each arrival and update that row in place.

    The index of action a is mean_a + sqrt(2 ln n / n_a), n the plays of the row so far; an action
    without a play comes first. Ties are broken evenly.

    Parameters
    ----------
    rows
        Shape (n_arrivals,); the row of the table that each arrival plays in.
    answers
        Shape (n_arrivals, n_actions).
    sums, counts
        Shape (n_rows, n_actions).

    Returns
    -------
    Shape (n_arrivals,); the actions played.
    """
    n_actions = sums.shape[1]
    actions = np.empty(rows.size, dtype=np.int64)
    index = np.empty(n_actions)
    for t in range(rows.size):
        row = rows[t]
        n_plays = 0
        for a in range(n_actions):
            n_plays += counts[row, a]
        twice_log = 2.0 * np.log(max(n_plays, 1))
        for a in range(n_actions):
            n = counts[row, a]
            index[a] = np.inf if n == 0 else sums[row, a] / n + np.sqrt(twice_log / n)
        chosen = index_of_best(rng, index)
        actions[t] = chosen
        sums[row, chosen] += answers[t, chosen]
        counts[row, chosen] += 1
    return actions
