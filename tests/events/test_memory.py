"""Small files that would need much memory are refused before it is allocated."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from unswayed import memory
from unswayed.errors import InputError
from unswayed.events import read_contexts, read_events

ROWS = "SELECT 'u' AS \"user\", 's' AS context, 'a' AS action, 1.0 AS reward"


def written(query: str, path: Path, options: str) -> Path:
    duckdb.sql(f"COPY ({query}) TO '{path}' ({options})")
    return path


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that 10 MB are free."""
    monkeypatch.setattr(memory, "usable_bytes", lambda: 10**7)


BOMBS = {
    "rows.parquet": (f"{ROWS} FROM range(2000000)", "FORMAT parquet", "2,000,000 rows"),
    "rows.csv.gz": (
        f"{ROWS} FROM range(100000)",
        "FORMAT csv, COMPRESSION gzip",
        "100,000 rows",
    ),
    "rows.jsonl.gz": (
        f"{ROWS} FROM range(70000)",
        "FORMAT json, COMPRESSION gzip",
        "(70,000 rows|does not fit in memory)",
    ),
    "contexts.parquet": (
        "SELECT 'u' || i % 100 AS \"user\", 's' || i AS context, 'a' || i % 2 AS action, "
        "1.0 AS reward FROM range(10000) t(i)",
        "FORMAT parquet",
        "10,000 contexts",
    ),
    "users.parquet": (
        "SELECT 'u' || i AS \"user\", 's' AS context, 'a' || i % 2 AS action, 1.0 AS reward "
        "FROM range(30000) t(i)",
        "FORMAT parquet",
        "so many users",
    ),
}


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_needs_much_memory_is_refused_with_the_amount(
    name: str, tmp_path: Path
) -> None:
    query, options, message = BOMBS[name]
    path = written(query, tmp_path / name, options)
    with pytest.raises(InputError, match=message):
        read_events(path)


@pytest.mark.usefixtures("little")
def test_rows_of_a_query_must_fit_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    sqlite3.connect(path).close()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    for address, query in (
        (f"sqlite:///{path}", f"{endless} {ROWS} FROM n"),
        ("duckdb://", f"{ROWS} FROM range(100000000000)"),
    ):
        with pytest.raises(InputError, match="the query's result needs about"):
            read_events(address, query=query)


@pytest.mark.usefixtures("little")
def test_rows_of_a_file_to_predict_for_must_fit_into_memory(tmp_path: Path) -> None:
    path = written(f"{ROWS} FROM range(100000)", tmp_path / "rows.parquet", "FORMAT parquet")
    with pytest.raises(InputError, match=r"100,000 rows needs about .* GB .* may use 0.01 GB"):
        read_contexts(path, columns=["context"], bins={})


def test_a_limit_of_the_address_space_is_respected(tmp_path: Path) -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9))\n"
        "from unswayed.memory import usable_bytes; print(usable_bytes() <= 10**9)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert result.stdout == "True\n"
