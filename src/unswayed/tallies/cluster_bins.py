"""Edges of bins on a cluster: the same votes as on one machine, counted where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed.engine import Blocked, Workers, order_statistics
from unswayed.events import Columns
from unswayed.events.bins import edge_ranks, edges_at, votes_on
from unswayed.events.connection import quiet_connection
from unswayed.tallies.cluster_parts import Part, numbers_of_part
from unswayed.tallies.user_blocks import MAX_BLOCKS

FloatArray = npt.NDArray[np.float64]


def settled_bins(
    workers: Workers,
    parts: Sequence[Part],
    columns: Columns,
    given: dict[str, tuple[float, ...]],
    *,
    keep_broken: bool,
) -> dict[str, tuple[float, ...]]:
    """Return the inner edges of every binned column, exactly those of ``robust_edges``.

    Edges that are given stay. A user's votes need all of the user's values, so these, and hashes of
    the users, are shuffled between the workers. Edges are then found by counting votes; only counts
    come here.
    """
    missing = {column: n for column, n in columns.bins.items() if column not in given}
    if not missing:
        return given
    wanted = replace(columns, bins=missing)
    calls = [(part, wanted, keep_broken) for part in parts]
    n_blocks = min(len(parts), MAX_BLOCKS)
    numbers = Blocked.made(workers, numbers_of_part, calls)
    users = numbers.regrouped(_by_user, pa.concat_tables, n_blocks, n_blocks)
    edges = {}
    for position, (column, n_bins) in enumerate(missing.items()):
        votes = users.transformed(_votes, position)
        n_votes = sum(votes.map_blocks(len))
        found = order_statistics(votes, edge_ranks(n_votes, n_bins)) if n_votes else []
        edges[column] = edges_at(found, column)
    return {**given, **edges}


def _by_user(numbers: pa.Table, n_blocks: int) -> list[pa.Table]:
    """Return the rows of the users that belong to each block; any fair choice would do."""
    block = numbers["lower"].to_numpy() % np.uint64(n_blocks)
    return [numbers.filter(pa.array(block == number)) for number in range(n_blocks)]


def _votes(numbers: pa.Table, position: int) -> FloatArray:
    with quiet_connection() as connection:
        connection.register("numbers", numbers)
        return votes_on(connection, "numbers", position)
