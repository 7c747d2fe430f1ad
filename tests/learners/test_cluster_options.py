"""Every option of learning on a cluster gives the result of one machine, on real processes."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.learners.same_bits import assert_same_bits, assert_same_learning
from unswayed.errors import InputError
from unswayed.events import Columns, OnBadRows
from unswayed.learners.from_log import LearnedLog, learn_log, learn_on_cluster

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
    """Return a log of rewards 0 or 1 with prices, and a few users who come very often."""
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


@pytest.mark.parametrize("with_propensities", [False, True])
def test_a_cap_keeps_the_same_events(
    with_propensities: bool, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    """The users with most events have them in every part, many of them equal."""
    table = shop_log(rng)
    if with_propensities:
        propensities = rng.choice([0.005, 0.3, 0.5], size=len(table))
        table = table.append_column("propensity", pa.array(propensities))
    log = written(table, tmp_path / "log", "parquet")
    there = assert_same_learning(client, log, max_interactions_per_user=60)
    assert there.summary.most_interactions == 60
    assert any("had more than 60 interactions" in note for note in there.notes)
    assert any("below 0.01 and count as that" in note for note in there.notes) == with_propensities


def spoiled(table: pa.Table) -> pa.Table:
    """Return a log with bad rows in both files."""
    columns = {name: table[name].to_pylist() for name in table.column_names}
    for row in (17, 7_000, 7_001):
        columns["reward"][row] = float("nan")
    columns["context"][15_999] = None
    return pa.table(columns)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_bad_rows_are_refused_in_the_words_of_one_machine(
    ending: str, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    table = spoiled(shop_log(rng)).slice(1_000)  # the first bad row is in the second file
    log = written(table, tmp_path / "log", ending)
    with pytest.raises(InputError, match="the first is row 6,001") as here:
        learn_log(str(log), alpha=0.1)
    with pytest.raises(InputError) as there:
        learn_on_cluster(str(log), alpha=0.1, client=client)
    assert str(here.value) == str(there.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_bad_rows_are_set_aside_in_one_file(
    kind: str, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    log = written(spoiled(shop_log(rng)), tmp_path / "log", "csv")
    for path in log.iterdir():
        path.write_text(path.read_text() + "a line,that,is,far,too,long,for,the,header\n")
    files = [tmp_path / f"{where}.{kind}" for where in ("here", "there")]
    one, other = (OnBadRows.parsed(f"quarantine={path}") for path in files)
    here = learn_log(str(log), alpha=0.1, method="paper", on_bad_rows=one)
    there = learn_on_cluster(
        str(log),
        alpha=0.1,
        method="paper",
        client=client,
        with_users=True,
        on_bad_rows=other,
    )
    assert_same_bits(here, there)
    assert here.notes == there.notes
    assert sum(there.provenance.bad_rows.values()) == 6
    if kind == "parquet":
        rows = [repr(pq.read_table(path).to_pylist()) for path in files]  # nan is not nan
        assert rows[0] == rows[1]
    else:
        assert files[0].read_text() == files[1].read_text()
        assert len(files[0].read_text().splitlines()) == 6 + (kind == "csv")


def test_bad_rows_are_dropped_even_where_a_file_has_no_others(
    client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    log = written(shop_log(rng), tmp_path / "log", "csv")
    (log / "2.csv").write_text("user,context,action,reward,price\nu1,c1,2,n/a,1\n")
    assert_same_learning(client, log, on_bad_rows=OnBadRows("drop"))


@pytest.mark.parametrize("cap", [None, 60])
@pytest.mark.parametrize("first", ["here", "there"])
def test_days_are_added_to_the_same_folder_here_and_there(
    first: str, cap: int | None, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    table = shop_log(rng)
    noise = pa.array(table["reward"].to_numpy() + 0.1 * rng.normal(size=len(table)))
    table = table.set_column(3, "reward", noise)  # rewards whose sums depend on the order
    columns = Columns(context=("price",), bins={"price": 4})
    options: dict[str, Any] = {"max_interactions_per_user": cap, "columns": columns}
    days = [
        written(part, tmp_path / name, "parquet")
        for name, part in (("monday", table.slice(0, 7_000)), ("tuesday", table.slice(7_000)))
    ]

    def learn(where: str, log: Path, folder: str) -> LearnedLog:
        more = {**options, "alpha": 0.1, "tallies": tmp_path / folder}
        if where == "here":
            return learn_log(str(log), method="paper", **more)
        return learn_on_cluster(str(log), method="paper", client=client, with_users=True, **more)

    other = "there" if first == "here" else "here"
    learn(first, days[0], "mixed")
    mixed = learn(other, days[1], "mixed")
    learn("here", days[0], "plain")
    plain = learn("here", days[1], "plain")
    assert_same_bits(plain, mixed)
    for where in ("here", "there"):
        with pytest.raises(InputError, match="count twice"):
            learn(where, days[0], "mixed")


def test_a_worker_that_is_killed_does_not_harm_a_folder(
    client: Any, folder: Path, tmp_path: Path
) -> None:
    """Blocks come back from the new pieces; those of before are gone by then."""
    killed = []

    def kill_one(step: str) -> None:
        if step == "learning":
            killed.append(sorted(client.run(os.getpid).values())[0])
            os.kill(killed[0], signal.SIGKILL)

    tallies = tmp_path / "tallies"
    options: dict[str, Any] = {"alpha": 0.1, "client": client, "tallies": tallies}
    learn_on_cluster(str(folder / "a.parquet"), **options)
    there = learn_on_cluster(
        str(folder / "b.parquet"), with_users=True, on_step=kill_one, **options
    )
    here = learn_log(str(folder), alpha=0.1)
    assert_same_bits(here, there)
    assert killed


def test_a_cap_on_a_folder_of_sums_is_refused(client: Any, folder: Path, tmp_path: Path) -> None:
    tallies = tmp_path / "tallies"
    learn_log(str(folder / "a.parquet"), alpha=0.1, tallies=tallies)
    with pytest.raises(InputError, match="from the first log on"):
        learn_on_cluster(
            str(folder / "b.parquet"),
            alpha=0.1,
            client=client,
            tallies=tallies,
            max_interactions_per_user=9,
        )
