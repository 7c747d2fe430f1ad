"""The Dask engine on real worker processes: the same bits as one machine, even when one dies."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.learners.same_bits import assert_same_bits
from unswayed.errors import InputError
from unswayed.learners.from_log import learn_log
from unswayed.learners.on_cluster import learn_on_cluster
from unswayed.tallies import blocked, blocks, cluster

pytestmark = pytest.mark.usefixtures("small_blocks")


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


@pytest.mark.parametrize("method", ["naive", "discount"])
def test_other_methods_are_refused(client: Any, folder: Path, method: str) -> None:
    with pytest.raises(InputError, match=f"'{method}' needs all tallies on one machine"):
        learn_on_cluster(str(folder), adversarial_fraction=0.1, client=client, method=method)


def test_whoever_asks_for_no_method_is_told_which_one_learned(client: Any, folder: Path) -> None:
    learned = learn_on_cluster(str(folder), adversarial_fraction=0.1, client=client)
    assert learned.policy.method == "paper"
    (note,) = [note for note in learned.notes if "needs all tallies on one machine" in note]
    assert note.startswith("learned with method paper: discount, the default,")
    assert note in learned.policy.source["notes"]
    asked = learn_on_cluster(str(folder), adversarial_fraction=0.1, client=client, method="paper")
    assert asked.notes == tuple(other for other in learned.notes if other != note)


def test_a_query_is_refused_with_what_to_do_instead(client: Any) -> None:
    with pytest.raises(InputError, match="write it to Parquet files"):
        learn_on_cluster("sqlite:///shop.db", adversarial_fraction=0.1, client=client)


def test_a_scheduler_that_is_not_there_is_an_input_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match="no Dask scheduler"):
        learn_on_cluster(str(folder), adversarial_fraction=0.1, scheduler="tcp://127.0.0.1:9")
