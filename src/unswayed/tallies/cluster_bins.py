"""Edges of bins on a cluster: the same votes as on one machine, counted where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed.events import Columns
from unswayed.events.connection import quiet_connection
from unswayed.events.votes import edge_ranks, edges_at, votes_on
from unswayed.tallies.blocked import MAX_BLOCKS
from unswayed.tallies.blocks import DaskBlocks
from unswayed.tallies.cluster_parts import Part, numbers_of_part
from unswayed.tallies.selection import order_statistics

FloatArray = npt.NDArray[np.float64]


def edges_on_cluster(
    client: Any, parts: Sequence[Part], columns: Columns, *, keep_broken: bool
) -> dict[str, tuple[float, ...]]:
    """Return the inner edges of every binned column, exactly those of ``robust_edges``.

    A user's votes need all of the user's values, so these, and hashes of the users, are shuffled
    between the workers. Edges are then found by counting votes; only counts come here.
    """
    n_blocks = min(len(parts), MAX_BLOCKS)
    numbers = [
        client.submit(numbers_of_part, part, columns, keep_broken, pure=False) for part in parts
    ]
    blocks = []
    for block in range(n_blocks):
        slices = [client.submit(_slice, future, n_blocks, block, pure=False) for future in numbers]
        blocks.append(client.submit(pa.concat_tables, slices, pure=False))
    edges = {}
    for position, (column, n_bins) in enumerate(columns.bins.items()):
        votes: DaskBlocks[FloatArray] = DaskBlocks(
            client, [client.submit(_votes, block, position, pure=False) for block in blocks]
        )
        n_votes = sum(votes.map_blocks(len))
        found = order_statistics(votes, edge_ranks(n_votes, n_bins)) if n_votes else []
        edges[column] = edges_at(found, column)
    return edges


def _slice(numbers: pa.Table, n_blocks: int, block: int) -> pa.Table:
    """Return the rows of the users that belong to a block; any fair choice would do."""
    is_inside = numbers["lower"].to_numpy() % np.uint64(n_blocks) == block
    return numbers.filter(pa.array(is_inside))


def _votes(numbers: pa.Table, position: int) -> FloatArray:
    with quiet_connection() as connection:
        connection.register("numbers", numbers)
        return votes_on(connection, "numbers", position)
