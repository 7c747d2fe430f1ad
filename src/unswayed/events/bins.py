"""Cutting a numeric part of the context into bins whose edges a coalition cannot place."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import duckdb

from unswayed.errors import InputError
from unswayed.events.files import named, quoted

#: Each user votes with this many of their own quantiles. Ours: fine enough for a hundred bins of
#: a log with few users, and an eighth of a megabyte a thousand users.
VOTES_PER_USER = 16


def robust_edges(
    connection: duckdb.DuckDBPyConnection, table: str, column: str, *, user: str, n_bins: int
) -> tuple[float, ...]:
    """Return the inner edges of bins that hold equal shares of the users' votes.

    Every user has the same voice, ``VOTES_PER_USER`` quantiles of their own values, however often
    they came. Replacing a share alpha of the users moves the level of an edge by at most
    alpha among the good users' votes, wherever the coalition floods. Equal edges are merged, so a
    column with few distinct values gets fewer bins.
    """
    number = f"try_cast({named(column)} AS DOUBLE)"
    levels = [(2 * vote + 1) / (2 * VOTES_PER_USER) for vote in range(VOTES_PER_USER)]
    cuts = [cut / n_bins for cut in range(1, n_bins)]
    (found,) = connection.sql(
        f"""
        WITH votes AS (
            SELECT unnest(quantile_disc({number}, {levels})) AS vote
            FROM {table}
            WHERE isfinite({number}) AND {named(user)} IS NOT NULL
            GROUP BY {named(user)}
        )
        SELECT quantile_disc(vote, {cuts}) FROM votes
        """
    ).fetchall()
    if found[0] is None:
        raise InputError(
            f"column {column!r} holds no numbers, so it cannot be cut into bins; leave it out of "
            "--context-bins."
        )
    return tuple(sorted(set(found[0])))


def bin_labels(column: str, edges: Sequence[float]) -> list[str]:
    """Return what the bins are called, one more than there are edges.

    >>> bin_labels("price", [9.5, 20.0])
    ['price<9.5', '9.5<=price<20', '20<=price']
    """
    shown = [f"{edge:.15g}" for edge in edges]
    between = [f"{low}<={column}<{high}" for low, high in itertools.pairwise(shown)]
    return [f"{column}<{shown[0]}", *between, f"{shown[-1]}<={column}"]


def bin_sql(column: str, edges: Sequence[float]) -> str:
    """Return SQL for the label of a value's bin; NULL for what is not a finite number."""
    number = f"try_cast({named(column)} AS DOUBLE)"
    labels = [quoted(label) for label in bin_labels(column, edges)]
    cases = " ".join(
        f"WHEN {number} < {edge!r}::DOUBLE THEN {label}"
        for edge, label in zip(edges, labels, strict=False)
    )
    return f"CASE WHEN NOT isfinite({number}) THEN NULL {cases} ELSE {labels[-1]} END"
