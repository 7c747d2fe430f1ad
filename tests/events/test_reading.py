import csv
import datetime as dt
import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.events.logs import account, random_log, rows
from unswayed.errors import InputError
from unswayed.events import Columns, read_events


def write_csv(table: pa.Table, path: Path, delimiter: str = ",") -> Path:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(table.column_names)
        writer.writerows(zip(*table.to_pydict().values(), strict=True))
    return path


def write_json(table: pa.Table, path: Path) -> Path:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in table.to_pylist())
    return path


def write_parquet(table: pa.Table, path: Path) -> Path:
    pq.write_table(table, path)
    return path


def write_folder(table: pa.Table, path: Path) -> Path:
    (path / "2026").mkdir(parents=True)
    write_parquet(table.slice(0, 150), path / "2026" / "a.parquet")
    write_parquet(table.slice(150), path / "b.parquet")
    (path / "_SUCCESS").touch()
    return path


def write_pattern(table: pa.Table, path: Path) -> Path:
    write_folder(table, path / "2026")
    write_parquet(table, path / "2026" / "other.parquet")
    return path / "2026" / "[b]*.parquet"


WRITERS: dict[str, Callable[[pa.Table, Path], Path]] = {
    "log.parquet": write_parquet,
    "log.csv": write_csv,
    "log.csv.gz": write_csv,
    "log.tsv": lambda table, path: write_csv(table, path, "\t"),
    "semicolons.csv": lambda table, path: write_csv(table, path, ";"),
    "log.jsonl": write_json,
    "log.ndjson.gz": write_json,
    "folder": write_folder,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_file_format_reads_back_the_same_rows(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    table = random_log(rng)
    reading = read_events(WRITERS[name](table, tmp_path / name))
    assert account(reading.events) == rows(table)
    assert reading.provenance.n_rows == len(table)


@pytest.mark.parametrize("name", ["log[1].csv", "log?.parquet", "logs[1]/a*.parquet"])
def test_a_file_whose_name_looks_like_a_pattern_is_read(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Browsers name a second download like this; files that match the pattern are not read."""
    table, path = random_log(rng, 40), tmp_path / name
    path.parent.mkdir(exist_ok=True)
    write: Any = write_parquet if path.suffix == ".parquet" else write_csv
    other = path.with_name(path.name.translate(str.maketrans("?*", "1b", "[]")))
    for part, target in ((table, path), (table.slice(30), other)):
        write(part, tmp_path / "log").rename(target)
    assert account(read_events(path).events) == rows(table)
    if path.parent != tmp_path:
        assert len(read_events(path.parent).events) == 40 + 10


def test_a_pattern_reads_only_the_files_it_matches(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    table = random_log(rng)
    pattern = write_pattern(table, tmp_path)
    assert account(read_events(pattern).events) == rows(table.slice(150))


@pytest.mark.parametrize(
    "convert", [lambda t: t, pl.from_arrow, lambda t: t.to_pandas(), lambda t: t.to_reader(50)]
)
def test_every_table_in_memory_reads_back_the_same_rows(
    convert: Callable[[pa.Table], Any], rng: np.random.Generator
) -> None:
    table = random_log(rng)
    assert account(read_events(convert(table)).events) == rows(table)


def test_addresses_of_other_file_systems_are_read(rng: np.random.Generator) -> None:
    table = random_log(rng)
    with fsspec.open("memory://bucket/day/log.parquet", "wb") as file:
        pq.write_table(table, file)
    try:
        assert account(read_events("memory://bucket/day").events) == rows(table)
        assert account(read_events("memory://bucket/*/log.parquet").events) == rows(table)
    finally:
        fsspec.filesystem("memory").rm("/bucket", recursive=True)


def test_a_query_on_sqlite_is_read(rng: np.random.Generator, tmp_path: Path) -> None:
    table = random_log(rng)
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("CREATE TABLE plays (user TEXT, context TEXT, action TEXT, reward REAL)")
    connection.executemany(
        "INSERT INTO plays VALUES (?, ?, ?, ?)", [tuple(row.values()) for row in table.to_pylist()]
    )
    connection.commit()
    connection.close()
    address = f"sqlite:///{tmp_path}/shop.db"
    reading = read_events(address, query="SELECT * FROM plays")
    assert account(reading.events) == rows(table)
    assert address not in str(reading.provenance.to_json())
    with pytest.raises(InputError, match="the query's result has no rows"):
        read_events(address, query="SELECT * FROM plays WHERE reward > 1000")
    with pytest.raises(InputError, match="query on sqlite failed: no such table: carts"):
        read_events(address, query="SELECT * FROM carts")
    with pytest.raises(InputError, match="query on sqlite failed: attempt to write a readonly"):
        read_events(address, query="DELETE FROM plays")


def test_a_query_on_duckdb_is_read(rng: np.random.Generator, tmp_path: Path) -> None:
    table = random_log(rng)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.register("source", table)
        connection.sql("CREATE TABLE plays AS FROM source")
    address = f"duckdb:///{tmp_path}/shop.duckdb"
    query = "SELECT * FROM plays WHERE reward > 0"
    kept = table.filter(pa.compute.greater(table["reward"], 0))
    assert account(read_events(address, query=query).events) == rows(kept)


@pytest.mark.parametrize(
    ("values", "spoken"),
    [
        ([True, False], [False, True]),
        ([3, -1], [-1, 3]),
        ([0.5, 0.25], [0.25, 0.5]),
        ([dt.date(2026, 2, 1), dt.date(2026, 1, 1)], ["2026-01-01", "2026-02-01"]),
        (["10", "9"], ["10", "9"]),
    ],
)
def test_labels_of_any_type_are_returned_unchanged(values: list[Any], spoken: list[Any]) -> None:
    table = pa.table({"user": values, "context": values, "action": values, "reward": [True, False]})
    events = read_events(table).events
    assert list(events.context_labels) == list(events.action_labels) == spoken
    assert sorted(events.user_labels) == spoken
    assert sorted(events.rewards) == [0.0, 1.0]


def test_leading_zeros_of_a_csv_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,context,action,reward\n007,1,1,1\n7,1,2,0\n")
    assert sorted(read_events(path).events.user_labels) == ["007", "7"]


def test_other_column_names_and_several_context_columns() -> None:
    table = pa.table(
        {
            "account": ["u", "v"],
            "country": ["F|R", "DE"],
            "device": ["a\\b", "tv"],
            "arm": [1, 2],
            "clicked": [1, 0],
        }
    )
    columns = Columns(user="account", context=("country", "device"), action="arm", reward="clicked")
    events = read_events(table, columns=columns).events
    assert sorted(events.context_labels) == ["DE|tv", r"F\|R|a\\b"]


def test_a_missing_column_is_named_with_a_hint() -> None:
    table = pa.table({"user_id": [1], "context": [1], "action": [1], "reward": [1]})
    with pytest.raises(
        InputError, match=r"no column 'user' for the user; .*did|Did you mean 'user_id'"
    ):
        read_events(table)


def test_codes_do_not_depend_on_the_order_of_rows(rng: np.random.Generator) -> None:
    table = random_log(rng)
    first = read_events(table).events
    second = read_events(table.take(rng.permutation(len(table)))).events
    assert first.user_labels == second.user_labels
    assert first.context_labels == second.context_labels
    assert account(first) == account(second)


BAD = pa.table(
    {
        "user": ["u", None, "v", "v", "w", "w", "w"],
        "context": ["s", "s", None, "s", "s", "s", "s"],
        "action": ["a", "a", "a", None, "a", "a", "b"],
        "reward": [1.0, 1.0, 1.0, 1.0, None, float("inf"), 0.0],
        "propensity": [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.5],
    }
)
REASONS = {
    "user is missing": 1,
    "context is missing": 1,
    "action is missing": 1,
    "reward is missing or not a number": 1,
    "reward is not finite": 1,
    "propensity is not in (0, 1]": 1,
}


def test_bad_rows_are_refused_and_counted_by_reason() -> None:
    with pytest.raises(InputError, match="6 of 7 rows cannot be used") as caught:
        read_events(BAD)
    for reason in REASONS:
        assert reason in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_the_error_gives_the_number_of_the_first_bad_row(suffix: str, tmp_path: Path) -> None:
    """The bad row comes late in a log of many row groups, which threads read out of order."""
    n_rows, bad = 300_000, 250_123
    rewards = np.ones(n_rows)
    rewards[[bad - 1, n_rows - 1]] = np.nan
    path = tmp_path / f"log{suffix}"
    log = pa.table(  # noqa: F841 - DuckDB finds it by its name
        {
            "user": np.arange(n_rows) % 50,
            "context": ["s"] * n_rows,
            "action": np.arange(n_rows) % 2,
            "reward": rewards,
        }
    )
    with duckdb.connect() as connection:
        connection.sql(f"COPY (FROM log) TO '{path}'")
    with pytest.raises(InputError, match=f"the first is row {bad:,}"):
        read_events(str(path))


def test_bad_rows_can_be_dropped() -> None:
    reading = read_events(BAD, on_bad_rows="drop")
    assert reading.provenance.bad_rows == REASONS
    assert len(reading.events) == 1


def test_broken_lines_of_a_csv_are_named_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,context,action,reward\nu,s,a,1\nu,s\nu,s,b,0,9\nv,s,b,x\nv,s,b,0\n")
    with pytest.raises(InputError, match=r"broken line .*Line: 3"):
        read_events(path)
    reading = read_events(path, on_bad_rows="drop")
    assert reading.provenance.bad_rows == {
        "line is broken": 2,
        "reward is missing or not a number": 1,
    }
    assert len(reading.events) == 2


def test_json_text_that_looks_like_another_type_stays_text(tmp_path: Path) -> None:
    """Otherwise the type of a label would depend on other lines of the file."""
    contexts = ["01-02-2026", "2026-01-02T10:00:00", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"]
    for context in contexts:
        row = {"user": context, "context": context, "action": 1, "reward": 0.5, "time": context}
        (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n")
        events = read_events(tmp_path / "log.jsonl").events
        assert list(events.context_labels) == list(events.user_labels) == [context]
        assert list(events.action_labels) == [1]


def test_a_broken_json_line_is_named_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    good = '{"user": 1, "context": "s", "action": "a", "reward": 1}\n'
    path.write_text(good + '{"user": \n' + good)
    with pytest.raises(InputError, match="Malformed JSON"):
        read_events(path)
    assert len(read_events(path, on_bad_rows="drop").events) == 2


def test_time_and_propensity_are_found_by_their_default_names() -> None:
    table = pa.table(
        {
            "user": ["u", "v"],
            "context": ["s", "s"],
            "action": ["a", "b"],
            "reward": [1.0, 0.0],
            "propensity": [0.25, 0.75],
            "time": [dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 1)],
        }
    )
    reading = read_events(table)
    assert reading.events.propensities is not None
    assert sorted(reading.events.propensities) == [0.25, 0.75]
    assert reading.provenance.first_time == "2026-01-01 00:00:00"
    assert reading.provenance.last_time == "2026-01-02 00:00:00"


def test_files_whose_columns_differ_in_order_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,context,action,reward\nu,s,a,1\n")
    (tmp_path / "b.csv").write_text("context,user,action,reward\ns,u,a,1\n")
    with pytest.raises(InputError, match="different columns"):
        read_events(tmp_path)


def test_parquet_files_whose_columns_differ_in_order_are_matched_by_name(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    table = random_log(rng)
    write_parquet(table.slice(0, 10), tmp_path / "a.parquet")
    write_parquet(
        table.slice(10).select(["reward", "action", "user", "context"]), tmp_path / "b.parquet"
    )
    assert account(read_events(tmp_path).events) == rows(table)


def test_a_table_of_pandas_with_missing_values_has_bad_rows() -> None:
    frame = pd.DataFrame(
        {"user": ["u", None], "context": [1.0, np.nan], "action": ["a", "b"], "reward": [1, 0]}
    )
    assert len(read_events(frame, on_bad_rows="drop").events) == 1
