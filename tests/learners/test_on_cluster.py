"""The Dask engine on worker processes gives the same bits as one machine, even if one is killed."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.learners.recording import RECORDED
from tests.learners.same_bits import assert_same_bits
from tests.learners.test_from_log import USERS, rows
from tests.refusals import refusal
from unswayed.engine import blocked, workers
from unswayed.errors import InputError
from unswayed.events import Columns
from unswayed.learners.bounded import method as bounded
from unswayed.learners.bounded import rewards
from unswayed.learners.from_log import STEPS, LearnedLog, learn_log, learn_on_cluster
from unswayed.tallies import tallies

pytestmark = pytest.mark.usefixtures("small_blocks", "recorded")


METHODS = pytest.mark.parametrize("method", ["paper", "bounded"])


@METHODS
def test_the_cluster_gives_the_same_bits_as_one_machine(
    client: Any, folder: Path, method: str
) -> None:
    here = learn_log(str(folder), alpha=0.1, method=method)
    there = learn_on_cluster(str(folder), alpha=0.1, method=method, client=client, with_users=True)
    assert_same_bits(here, there)
    assert here.policy.source["evidence"] == there.policy.source["evidence"]
    # With a single block this would test nothing.
    assert tallies.n_blocks_for(here.summary.n_events) == 4


@pytest.mark.parametrize("rewards_are", ["noisy", "binary", "tastes"])
def test_coalitions_found_in_a_sample_are_removed_from_all_blocks(
    client: Any, rewards_are: str, write_log: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directions come from a sample of the users; members are found among all users."""
    for name in ("SAMPLE_ENTRIES", "SEARCH_ENTRIES"):
        monkeypatch.setattr(bounded, name, 15_000)
    monkeypatch.setattr(rewards, "SAMPLE_ENTRIES", 15_000)
    source = str(write_log(rewards_are))
    here = learn_log(source, alpha=0.1)
    there = learn_on_cluster(source, alpha=0.1, client=client, with_users=True)
    assert_same_bits(here, there)
    evidence = here.policy.source["evidence"]
    assert evidence == there.policy.source["evidence"]
    assert evidence["coalitions"] >= 1
    # Users are labelled by number, and the first tenth lies.
    is_bad = np.array([int(str(label).removeprefix("user-")) < 90 for label in here.user_labels])
    # Eleven clicks at rates near one half leave some doubt about each colluder.
    assert there.user_weights[is_bad].mean() < 0.5
    assert there.user_weights[~is_bad].mean() > 0.9


def test_an_unknown_share_is_estimated_on_a_cluster_too(client: Any, folder: Path) -> None:
    here = learn_log(str(folder), alpha="auto")
    there = learn_on_cluster(str(folder), alpha="auto", client=client, with_users=True)
    assert_same_bits(here, there)
    assert here.notes == there.notes
    assert there.policy.alpha >= 0.1


def test_flip_fractions_of_trimmed_means_are_those_of_one_machine(
    client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Every user keeps one action per context, so trimmed means decide and the bounds are exact."""
    n = 20_000
    users, contexts = rng.integers(900, size=n), rng.integers(3, size=n)
    actions = rng.integers(4, size=(900, 3))[users, contexts]
    rewards = (rng.random(n) < np.where(actions == contexts, 0.7, 0.3)).astype(float)
    table = pa.table({"user": users, "context": contexts, "action": actions, "reward": rewards})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=5_000)
    here = learn_log(str(tmp_path), alpha=0.1, method="paper")
    there = learn_on_cluster(
        str(tmp_path), alpha=0.1, method="paper", client=client, with_users=True
    )
    assert_same_bits(here, there)
    assert here.policy.flip_fraction is not None
    # more than one account, which would be the trivial bound
    assert (here.policy.flip_fraction > 2 / 900).all()


@METHODS
def test_a_single_block_gives_different_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The negative control: float sums over users depend on the blocks."""
    in_blocks = learn_log(str(folder), alpha=0.1, method=method)
    monkeypatch.setattr(tallies, "EVENTS_PER_BLOCK", 1 << 30)
    in_one = learn_log(str(folder), alpha=0.1, method=method)
    assert (in_blocks.policy.mean_rewards != in_one.policy.mean_rewards).any()
    np.testing.assert_allclose(in_blocks.policy.mean_rewards, in_one.policy.mean_rewards, rtol=1e-9)


@pytest.mark.parametrize("method", ["bounded"])
def test_killing_a_worker_changes_nothing(
    client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Vectors are broadcast once and sums computed on the workers, as on a large cluster."""
    monkeypatch.setattr(blocked, "_SHARED_BYTES", 0)
    monkeypatch.setattr(blocked, "_SUMMED_HERE", 1)
    killed = []

    def kill_one(step: str) -> None:
        if step == "learning":  # by now the blocks are in the workers' memory
            victim = sorted(client.run(os.getpid).values())[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    here = learn_log(str(folder), alpha=0.1, method=method)
    there = learn_on_cluster(
        str(folder), alpha=0.1, method=method, client=client, with_users=True, on_step=kill_one
    )
    assert_same_bits(here, there)
    assert killed
    assert killed[0] not in client.run(os.getpid).values()


@pytest.mark.parametrize("scheduler", ["tcp://127.0.0.1:9", "nonsense://nowhere"])
def test_an_unreachable_scheduler_is_an_input_error(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 1)
    message = refusal(learn_on_cluster, "log.parquet", scheduler=scheduler)
    assert message.startswith(f"there is no Dask scheduler at {scheduler}: ")


def test_a_cluster_learns_with_the_same_options(client: Any, tmp_path: Path) -> None:
    """All options differ from the defaults; notes are on the bad row and on propensities."""
    table = rows(n_rounds=3)
    table["account"] = table.pop("user")
    table["propensity"] = [0.02] * 12 + [0.5] * 468
    table["reward"][100] = None
    pq.write_table(pa.table(table), tmp_path / "day.parquet")
    options: dict[str, Any] = {"columns": Columns(user="account"), "on_bad_rows": "drop"}
    options["min_propensity"] = 0.1
    heard: list[str] = []
    there = assert_same_reading(client, tmp_path, on_step=heard.append, **options)
    assert len(there.notes) >= 2
    assert heard == [*STEPS[:1], *STEPS[2:]]
    assert sorted(map(str, there.user_labels)) == USERS
    without = learn_on_cluster(str(tmp_path), alpha=0.1, method=RECORDED, client=client, **options)
    assert len(without.user_labels) == 0
    np.testing.assert_array_equal(without.policy.mean_rewards, there.policy.mean_rewards)


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


def assert_same_reading(
    client: Any, source: Path, on_step: Callable[[str], None] = lambda _: None, **options: Any
) -> LearnedLog:
    """Learn by a fast method here and on the cluster, compare, and return the result."""
    options |= {"alpha": 0.05, "method": RECORDED}
    here = learn_log(str(source), **options)
    there = learn_on_cluster(
        str(source), client=client, with_users=True, on_step=on_step, **options
    )
    assert_same_bits(here, there)
    assert here.provenance == there.provenance
    assert here.notes == there.notes
    return there


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_every_format_gives_the_same_bits(
    ending: str, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    assert_same_reading(client, written(shop_log(rng), tmp_path / "log", ending))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_bins_have_the_edges_that_one_machine_finds(
    ending: str, client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    columns = Columns(context=("context", "price"), bins={"price": 5})
    log = written(shop_log(rng), tmp_path / "log", ending)
    there = assert_same_reading(client, log, columns=columns)
    assert len(there.provenance.bins["price"]) == 4


def test_propensities_below_the_limit_are_counted_over_all_parts(
    client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    table = shop_log(rng)
    propensities = rng.choice([0.005, 0.3, 0.5], size=len(table))
    table = table.append_column("propensity", pa.array(propensities))
    there = assert_same_reading(client, written(table, tmp_path / "log", "parquet"))
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
    assert_same_reading(client, log, on_bad_rows="drop")
