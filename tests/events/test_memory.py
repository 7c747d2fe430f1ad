"""Small files that would need much memory are refused before they get it."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

from tests.cli.test_main import COMMAND
from tests.events.logs import random_log
from unswayed.errors import InputError
from unswayed.events import read_contexts, read_events
from unswayed.memory import parsed_bytes

#: What the program itself takes, with its libraries and what DuckDB may use of 400 MB.
MOST_MEGABYTES = 650


def written(query: str, path: Path, options: str) -> Path:
    duckdb.sql(f"COPY ({query}) TO '{path}' ({options})")
    return path


def same_rows(n: int) -> str:
    return f"SELECT 'u' AS \"user\", 's' AS context, 'a' AS action, 1.0 AS reward FROM range({n})"


#: Runs a command and prints its peak memory. A process begins with the peak of its parent,
#: so a small one stands in between.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""

BOMBS = {
    "rows.parquet": (same_rows(20_000_000), "FORMAT parquet", r"20,000,000 rows"),
    "rows.csv.gz": (same_rows(4_000_000), "FORMAT csv, COMPRESSION gzip", r"4,000,000 rows"),
    "rows.jsonl.gz": (same_rows(4_000_000), "FORMAT json, COMPRESSION gzip", r"4,000,000 rows"),
    "contexts.parquet": (
        "SELECT 'u' || i % 100 AS \"user\", 's' || i AS context, 'a' || i % 2 AS action, "
        "1.0 AS reward FROM range(1000000) t(i)",
        "FORMAT parquet",
        r"1,000,000 contexts",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_needs_much_is_refused_with_what_it_needs(
    name: str, tmp_path: Path
) -> None:
    query, options, message = BOMBS[name]
    path = written(query, tmp_path / name, options)
    learn: list[str | Path] = [
        COMMAND,
        "learn",
        path,
        "--memory",
        "400MB",
        "--out",
        tmp_path / "policy.json",
    ]
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, *learn], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2, result.stderr
    for expected in (message, "needs about", "400.0 MB", "--memory"):
        assert expected in result.stderr
    megabytes = int(result.stdout) / 1024
    assert megabytes < MOST_MEGABYTES, f"{path.stat().st_size:,} bytes took {megabytes:.0f} MB"


def test_a_log_within_the_budget_is_read(rng: np.random.Generator) -> None:
    assert len(read_events(random_log(rng), memory=10**8).events) == 400
    with pytest.raises(InputError, match="needs about"):
        read_events(random_log(rng), memory=10**4)


def test_many_users_are_refused_while_they_are_counted(tmp_path: Path) -> None:
    path = written(
        "SELECT 'u' || i AS \"user\", 's' AS context, 'a' || i % 2 AS action, 1.0 AS reward "
        "FROM range(300000) t(i)",
        tmp_path / "users.parquet",
        "FORMAT parquet",
    )
    assert len(read_events(path, memory=2 * 10**8).events) == 300_000
    with pytest.raises(InputError, match="so many users"):
        read_events(path, memory=10**8)


def test_rows_that_ask_for_decisions_have_a_budget_too(tmp_path: Path) -> None:
    path = written(same_rows(1_000_000), tmp_path / "rows.parquet", "FORMAT parquet")
    with pytest.raises(InputError, match="1,000,000 rows needs about"):
        read_contexts(path, columns=["context"], bins={}, memory=10**8)


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_the_rows_of_a_query_have_a_budget_too(scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    rows = "SELECT 'u' AS \"user\", 's' AS context, 'a' AS action, 1.0 AS reward"
    if scheme == "sqlite":
        sqlite3.connect(path).close()
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        query = f"{endless} {rows} FROM n"
    else:
        duckdb.connect(str(path)).close()
        query = f"{rows} FROM range(100000000000)"
    with pytest.raises(InputError, match="the query's result needs about"):
        read_events(f"{scheme}:///{path}", query=query, memory=10**8)


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "nan", "1e9", "0", "2 G B", "1" * 400])
def test_a_budget_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="`memory` is written as"):
        parsed_bytes(text)


def test_an_address_space_limit_counts(tmp_path: Path) -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9))\n"
        "from unswayed.memory import free_bytes; print(free_bytes() <= 10**9)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert result.stdout == "True\n"
