"""The Dask engine on real worker processes: the same bits as one machine, even when one dies."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from unswayed.errors import InputError
from unswayed.events import Columns, OnBadRows
from unswayed.learners.from_log import LearnedLog, learn_log
from unswayed.learners.on_cluster import learn_on_cluster
from unswayed.tallies import blocked, blocks, cluster, cluster_parts


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Yield a client of two worker processes."""
    with cluster.connected(None) as client:
        yield client


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small logs as if they were large; the driver alone decides how."""
    monkeypatch.setattr(blocked, "EVENTS_PER_BLOCK", 12_000)
    monkeypatch.setattr(cluster_parts, "ROWS_PER_PART", 9_000)


@pytest.fixture
def folder(rng: np.random.Generator, tmp_path: Path) -> Path:
    """Return a folder of two Parquet files with several row groups, a tenth of the users lying."""
    n = 40_000
    users, contexts, actions = (
        rng.integers(900, size=n),
        rng.integers(30, size=n),
        rng.integers(4, size=n),
    )
    best = rng.integers(4, size=30)
    rewards = np.where(actions == best[contexts], 0.7, 0.3) + rng.normal(scale=0.3, size=n)
    rewards[users < 90] = np.where(actions[users < 90] == 0, 1.5, -0.5)
    table = pa.table(
        {
            "user": [f"user-{code}" for code in users],
            "context": [f"context-{code}" for code in contexts],
            "action": actions,
            "reward": rewards,
        }
    )
    logs = tmp_path / "logs"
    logs.mkdir()
    pq.write_table(table.slice(0, 25_000), logs / "a.parquet", row_group_size=3_000)
    pq.write_table(table.slice(25_000), logs / "b.parquet", row_group_size=7_000)
    return logs


def assert_same_bits(first: LearnedLog, second: LearnedLog) -> None:
    for name in ("mean_rewards", "low", "high", "counts", "context_probabilities"):
        np.testing.assert_array_equal(
            getattr(first.policy, name), getattr(second.policy, name), err_msg=name
        )
    np.testing.assert_array_equal(first.user_weights, second.user_weights)
    np.testing.assert_array_equal(first.interactions, second.interactions)
    assert first.user_labels == second.user_labels
    assert first.findings == second.findings
    for name in ("flip_fraction", "flip_fraction_upper"):
        np.testing.assert_array_equal(getattr(first.policy, name), getattr(second.policy, name))


def test_the_cluster_gives_the_same_bits_as_one_machine(client: Any, folder: Path) -> None:
    here = learn_log(str(folder), adversarial_fraction=0.1, method="paper")
    there = learn_on_cluster(str(folder), adversarial_fraction=0.1, client=client, with_users=True)
    assert_same_bits(here, there)
    assert here.policy.source["evidence"] == there.policy.source["evidence"]
    # The blocks are more than one, or nothing was tested.
    assert blocked.n_blocks_for(here.findings.n_events) == 4


def test_flip_fractions_of_trimmed_means_are_those_of_one_machine(
    client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Every user keeps one action in a context, so trimmed means decide and bounds are exact."""
    n = 20_000
    users, contexts = rng.integers(900, size=n), rng.integers(3, size=n)
    actions = rng.integers(4, size=(900, 3))[users, contexts]
    rewards = np.where(actions == contexts, 0.7, 0.3) + rng.normal(scale=0.3, size=n)
    table = pa.table({"user": users, "context": contexts, "action": actions, "reward": rewards})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=5_000)
    here = learn_log(str(tmp_path), adversarial_fraction=0.1, method="paper")
    there = learn_on_cluster(
        str(tmp_path), adversarial_fraction=0.1, client=client, with_users=True
    )
    assert_same_bits(here, there)
    assert here.policy.flip_fraction is not None
    assert (here.policy.flip_fraction > 2 / 900).all()  # more than one account, the trivial bound


def test_one_block_alone_would_give_other_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: sums over users depend on the blocks, so equality above means much."""
    in_blocks = learn_log(str(folder), adversarial_fraction=0.1, method="paper")
    monkeypatch.setattr(blocked, "EVENTS_PER_BLOCK", 1 << 30)
    in_one = learn_log(str(folder), adversarial_fraction=0.1, method="paper")
    assert (in_blocks.policy.mean_rewards != in_one.policy.mean_rewards).any()
    np.testing.assert_allclose(in_blocks.policy.mean_rewards, in_one.policy.mean_rewards, rtol=1e-9)


def test_a_worker_that_is_killed_changes_nothing(
    client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors are shared and sums made on the workers here, as on a large cluster."""
    monkeypatch.setattr(blocks, "_SHARED_BYTES", 0)
    monkeypatch.setattr(blocks, "_SUMMED_HERE", 1)
    killed = []

    def kill_one(step: str) -> None:
        if step == "learning":  # the blocks are in the workers' memory by now
            victim = sorted(client.run(os.getpid).values())[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    here = learn_log(str(folder), adversarial_fraction=0.1, method="paper")
    there = learn_on_cluster(
        str(folder), adversarial_fraction=0.1, client=client, with_users=True, on_step=kill_one
    )
    assert_same_bits(here, there)
    assert killed
    assert killed[0] not in client.run(os.getpid).values()


def assert_same_learning(client: Any, source: Path | str, **options: Any) -> LearnedLog:
    """Learn here and there, and return what was learned there."""
    here = learn_log(str(source), adversarial_fraction=0.1, method="paper", **options)
    there = learn_on_cluster(
        str(source), adversarial_fraction=0.1, client=client, with_users=True, **options
    )
    assert_same_bits(here, there)
    assert here.provenance == there.provenance
    assert here.notes == there.notes
    return there


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
    assert there.findings.most_interactions == 60
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
        learn_log(str(log), adversarial_fraction=0.1)
    with pytest.raises(InputError) as there:
        learn_on_cluster(str(log), adversarial_fraction=0.1, client=client)
    assert str(here.value) == str(there.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_bad_rows_are_set_aside_in_one_file(
    kind: str, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    log = written(spoiled(shop_log(rng)), tmp_path / "log", "csv")
    for path in log.iterdir():
        path.write_text(path.read_text() + "a line,that,is,far,too,long,for,the,header\n")
    files = []
    for number in (0, 1):
        files.append(tmp_path / f"bad-{number}.{kind}")
        choice = OnBadRows.parsed(f"quarantine={files[-1]}")
        if number == 0:
            here = learn_log(str(log), adversarial_fraction=0.1, method="paper", on_bad_rows=choice)
        else:
            there = learn_on_cluster(
                str(log), adversarial_fraction=0.1, client=client, with_users=True,
                on_bad_rows=choice,
            )  # fmt: skip
    assert_same_bits(here, there)
    assert here.notes == there.notes
    assert sum(there.provenance.bad_rows.values()) == 6
    if kind == "parquet":
        one, other = (repr(pq.read_table(path).to_pylist()) for path in files)  # nan is not nan
        assert one == other
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
        more = {**options, "adversarial_fraction": 0.1, "tallies": tmp_path / folder}
        if where == "here":
            return learn_log(str(log), method="paper", **more)
        return learn_on_cluster(str(log), client=client, with_users=True, **more)

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
    options: dict[str, Any] = {"adversarial_fraction": 0.1, "client": client, "tallies": tallies}
    learn_on_cluster(str(folder / "a.parquet"), **options)
    there = learn_on_cluster(
        str(folder / "b.parquet"), with_users=True, on_step=kill_one, **options
    )
    here = learn_log(str(folder), adversarial_fraction=0.1, method="paper")
    assert_same_bits(here, there)
    assert killed


def test_a_cap_on_a_folder_of_sums_is_refused(client: Any, folder: Path, tmp_path: Path) -> None:
    tallies = tmp_path / "tallies"
    learn_log(str(folder / "a.parquet"), adversarial_fraction=0.1, tallies=tallies)
    with pytest.raises(InputError, match="from the first log on"):
        learn_on_cluster(
            str(folder / "b.parquet"),
            adversarial_fraction=0.1,
            client=client,
            tallies=tallies,
            max_interactions_per_user=9,
        )


def test_other_methods_are_refused(client: Any, folder: Path) -> None:
    with pytest.raises(InputError, match="'naive' needs all tallies"):
        learn_on_cluster(str(folder), adversarial_fraction=0.1, client=client, method="naive")


def test_a_query_is_refused_with_what_to_do_instead(client: Any) -> None:
    with pytest.raises(InputError, match="write it to Parquet files"):
        learn_on_cluster("sqlite:///shop.db", adversarial_fraction=0.1, client=client)


def test_a_scheduler_that_is_not_there_is_an_input_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match="no Dask scheduler"):
        learn_on_cluster(str(folder), adversarial_fraction=0.1, scheduler="tcp://127.0.0.1:9")
