"""A log summary that passes all checks, to be modified by tests; dense tallies."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from unswayed.arrays import FloatArray
from unswayed.tallies import Tallies
from unswayed.tallies.log_summary import LogSummary


def dense(tallies: Tallies, values: FloatArray) -> FloatArray:
    """Return values of all entries as a table of users and cells."""
    shape = (tallies.n_users, tallies.n_cells)
    table = sparse.csr_array((values, tallies.cells, tallies.indptr), shape=shape)
    return np.asarray(table.todense())


SOUND = LogSummary(
    n_events=100,
    n_users=1000,
    n_contexts=2000,
    n_actions=3,
    is_weighted=False,
    fewest_interactions=1,
    median_interactions=2.0,
    most_interactions=4,
    interaction_ratio=4.0,
    repeated_share=0.0,
    uniform_p_value=1.0,
    looks_uniform=True,
    n_rare_contexts=0,
    rare_share=0.5,
    rarest_contexts=(),
    never_played=(),
    unsupported=(),
    lowest_reward_mean=0.0,
    highest_reward_mean=1.0,
    is_binary=True,
)
