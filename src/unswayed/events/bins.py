"""Bin edges for numeric contexts: quantiles over users, not over events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.events.column_sql import label_sql
from unswayed.events.columns import Columns
from unswayed.events.sources import OpenLog, Source, named, opened

#: Each user votes with this many of their own quantiles. Ours: fine enough for a hundred bins of
#: a log with few users, and an eighth of a megabyte a thousand users.
VOTES_PER_USER = 16

#: Columns that name a user in ``read_numbers``: both halves of a hash of the label.
_USER_KEY = ("lower", "upper")


def robust_edges(log: OpenLog, column: str, n_bins: int) -> tuple[float, ...]:
    """Return the inner edges of bins that hold equal shares of the users' votes.

    Every user has the same voice, ``VOTES_PER_USER`` quantiles of their own values, however often
    they came. Replacing a share alpha of the users moves the level of an edge by at most
    alpha among the good users' votes, wherever the coalition floods. Equal edges are merged, so a
    column with few distinct values gets fewer bins.
    """
    user = label_sql(log.types, log.columns.user, "user")
    numbers = f'(SELECT {user} AS "user", {_number(column)} AS number FROM raw)'
    votes = _votes(log.connection, numbers, "number", ['"user"'])
    if not len(votes):
        return edges_at([], column)
    ranks = edge_ranks(len(votes), n_bins)
    return edges_at(np.partition(votes, ranks)[ranks].tolist(), column)


def edge_ranks(n_votes: int, n_bins: int) -> list[int]:
    """Return which of the votes, in ascending order, are edges: the quantiles k/n_bins.

    >>> edge_ranks(10, 4)
    [2, 4, 7]
    """
    return [-(-n_votes * cut // n_bins) - 1 for cut in range(1, n_bins)]


def edges_at(votes: Sequence[float], column: str) -> tuple[float, ...]:
    """Return the votes at the given ranks; refuse a column without values."""
    if not votes:
        raise InputError(
            f"column {column!r} holds no numbers, so it cannot be cut into bins; leave it out of "
            f"{option('--context-bins', python='Columns(bins=…)')}."
        )
    return tuple(sorted({vote + 0.0 for vote in votes}))  # there are two zeros, which are equal


def read_numbers(source: Source, columns: Columns, *, name: str, keep_broken: bool) -> pa.Table:
    """Return the columns to be cut, as numbers, and hashes that identify their users.

    The columns are named by their position among ``columns.bins``.
    """
    wanted = Columns(context=tuple(columns.bins))
    with opened(source, wanted, contexts_only=True, name=name, keep_broken=keep_broken) as log:
        if columns.user not in log.types:
            columns.found_in(list(log.types), where=name)  # says what is missing
        user = label_sql(log.types, columns.user, "user")
        numbers = [
            f'{_number(column)} AS "{position}"' for position, column in enumerate(columns.bins)
        ]
        keys = [f'md5_number_{half}("user"::VARCHAR) AS "{half}"' for half in _USER_KEY]
        places = ", ".join(f'"{position}"' for position in range(len(numbers)))
        return log.connection.sql(
            f"""
            SELECT {", ".join(keys)}, {places}
            FROM (SELECT {user} AS "user", {", ".join(numbers)} FROM raw) WHERE "user" IS NOT NULL
            """
        ).to_arrow_table()


def votes_on(connection: duckdb.DuckDBPyConnection, table: str, position: int) -> FloatArray:
    """Return the votes of users on one column of what ``read_numbers`` returned, ascending."""
    return np.sort(_votes(connection, table, f'"{position}"', [f'"{key}"' for key in _USER_KEY]))


def _number(column: str) -> str:
    return f"try_cast({named(column)} AS DOUBLE)"


def _votes(
    connection: duckdb.DuckDBPyConnection, table: str, number: str, user: Sequence[str]
) -> FloatArray:
    levels = [(2 * vote + 1) / (2 * VOTES_PER_USER) for vote in range(VOTES_PER_USER)]
    found = connection.sql(
        f"""
        SELECT unnest(quantile_disc({number}, {levels})) AS vote FROM {table}
        WHERE isfinite({number}) AND {user[0]} IS NOT NULL GROUP BY {", ".join(user)}
        """
    ).to_arrow_table()
    votes: npt.NDArray[Any] = np.from_dlpack(found["vote"].combine_chunks())  # without pandas
    return votes
