"""The Dask engine on real worker processes: the same bits as one machine, even when one dies."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unswayed.errors import InputError
from unswayed.events import Columns, OnBadRows
from unswayed.learners.from_log import LearnedLog, learn_log
from unswayed.learners.on_cluster import learn_on_cluster
from unswayed.tallies import blocked, blocks, cluster


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Yield a client of two worker processes."""
    with cluster.connected(None) as client:
        yield client


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small logs as if they were large; the driver alone decides how."""
    monkeypatch.setattr(blocked, "EVENTS_PER_BLOCK", 12_000)
    monkeypatch.setattr(cluster, "ROWS_PER_PART", 9_000)


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


def test_bad_rows_on_a_worker_are_refused_or_counted(client: Any, tmp_path: Path) -> None:
    good = "user,context,action,reward\n" + "".join(
        f"u{i % 50},s{i % 2},{'ab'[i % 3 % 2]},{i % 7}\n" for i in range(2_000)
    )
    (tmp_path / "a.csv").write_text(good)
    (tmp_path / "b.csv").write_text(good + "u1,s1,a,nan\nu1,,a,1\n")
    with pytest.raises(InputError, match=r"b\.csv|2 of 2,002 rows"):
        learn_on_cluster(str(tmp_path), adversarial_fraction=0.1, client=client)
    learned = learn_on_cluster(
        str(tmp_path), adversarial_fraction=0.1, client=client, on_bad_rows=OnBadRows("drop")
    )
    assert learned.provenance.n_rows == 4_002
    assert sum(learned.provenance.bad_rows.values()) == 2
    assert "2 rows were left out" in learned.notes[0]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"columns": Columns(context=("price",), bins={"price": 3})}, "context-bins"),
        ({"on_bad_rows": OnBadRows.parsed("quarantine=x.csv")}, "quarantine"),
        ({"method": "naive"}, "'naive' needs all tallies"),
    ],
)
def test_what_needs_the_whole_log_is_refused(
    options: dict[str, Any], match: str, client: Any, folder: Path
) -> None:
    with pytest.raises(InputError, match=match):
        learn_on_cluster(str(folder), adversarial_fraction=0.1, client=client, **options)


def test_a_scheduler_that_is_not_there_is_an_input_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match="no Dask scheduler"):
        learn_on_cluster(str(folder), adversarial_fraction=0.1, scheduler="tcp://127.0.0.1:9")
