"""Connections to DuckDB that print nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb


@contextmanager
def quiet_connection(
    path: str = ":memory:", *, read_only: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection, and close it; its own progress bar would mix with ours."""
    with duckdb.connect(path, read_only=read_only) as connection:
        connection.sql("SET enable_progress_bar = false")
        yield connection
