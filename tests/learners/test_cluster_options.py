"""With every option, learning on worker processes gives the same result as on one machine."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.learners.same_bits import assert_same_learning
from unswayed.errors import InputError
from unswayed.events import Columns
from unswayed.learners.from_log import learn_log, learn_on_cluster

pytestmark = pytest.mark.usefixtures("small_blocks")


def written(table: pa.Table, folder: Path, ending: str) -> Path:
    """Write a table as two files of a format."""
    folder.mkdir()
    for number, part in enumerate((table.slice(0, 6_000), table.slice(6_000))):
        path = folder / f"{number}.{ending}"
        match ending:
            case "parquet":
                pq.write_table(part, path, row_group_size=1_500)
            case "csv":
                pyarrow.csv.write_csv(part, path)
            case _:
                path.write_text("".join(f"{json.dumps(row)}\n" for row in part.to_pylist()))
    return folder


def shop_log(rng: np.random.Generator, n: int = 16_000) -> pa.Table:
    """Return a log with rewards of 0 or 1, prices, and a few very active users."""
    users = np.minimum(rng.geometric(0.01, size=n), 300)
    actions = rng.integers(3, size=n)
    return pa.table(
        {
            "user": [f"user-{code}" for code in users],
            "context": [f"context-{code}" for code in rng.integers(3, size=n)],
            "action": actions,
            "reward": (rng.random(n) < 0.2 + 0.3 * (actions == 1)).astype(float),
            "price": np.round(rng.exponential(size=n), 2) - 0.5 * (users < 30),
        }
    )


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_every_format_gives_the_same_bits(
    ending: str, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    assert_same_learning(client, written(shop_log(rng), tmp_path / "log", ending))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_bins_have_the_edges_that_one_machine_finds(
    ending: str, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    columns = Columns(context=("context", "price"), bins={"price": 5})
    log = written(shop_log(rng), tmp_path / "log", ending)
    there = assert_same_learning(client, log, columns=columns)
    assert len(there.provenance.bins["price"]) == 4


def test_propensities_below_the_limit_are_counted_over_all_parts(
    client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    table = shop_log(rng)
    propensities = rng.choice([0.005, 0.3, 0.5], size=len(table))
    table = table.append_column("propensity", pa.array(propensities))
    there = assert_same_learning(client, written(table, tmp_path / "log", "parquet"))
    assert any("below 0.01 and count as that" in note for note in there.notes)


def spoiled(table: pa.Table) -> pa.Table:
    """Return a log with bad rows in both files."""
    columns = {name: table[name].to_pylist() for name in table.column_names}
    for row in (17, 7_000, 7_001):
        columns["reward"][row] = float("nan")
    columns["context"][15_999] = None
    return pa.table(columns)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_bad_rows_are_refused_with_the_same_message_as_on_one_machine(
    ending: str, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    table = spoiled(shop_log(rng)).slice(1_000)  # the first bad row is in the second file
    log = written(table, tmp_path / "log", ending)
    with pytest.raises(InputError, match="the first is row 6,001") as here:
        learn_log(str(log), alpha=0.1)
    with pytest.raises(InputError) as there:
        learn_on_cluster(str(log), alpha=0.1, client=client)
    assert str(here.value) == str(there.value)


def test_bad_rows_are_dropped_even_if_a_file_has_only_bad_rows(
    client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    log = written(shop_log(rng), tmp_path / "log", "csv")
    (log / "2.csv").write_text("user,context,action,reward,price\nu1,c1,2,n/a,1\n")
    assert_same_learning(client, log, on_bad_rows="drop")
