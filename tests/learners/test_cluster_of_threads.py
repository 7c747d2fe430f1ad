"""Options of learning on a cluster; its worker is a thread of this process, which starts fast."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.learners.recording import RECORDED, Recording
from tests.learners.same_bits import assert_same_bits
from tests.learners.test_from_log import USERS, rows
from tests.refusals import refusal
from unswayed import Columns, learn_log, learn_on_cluster
from unswayed.learners.options import LearnOptions


@pytest.fixture(scope="module")
def threads() -> Iterator[Any]:
    """Yield a client of one worker in this process."""
    distributed: Any = import_module("distributed")  # has no type hints
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        yield client


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Write a log with propensities, other column names and a bad row; return its folder."""
    table = rows(n_rounds=3)
    table["account"] = table.pop("user")
    table["propensity"] = [0.02] * 12 + [0.5] * 468
    table["reward"][100] = None
    folder = tmp_path / "logs"
    folder.mkdir()
    pq.write_table(pa.table(table), folder / "day.parquet")
    return folder


@pytest.fixture
def options(recorded: Recording) -> LearnOptions:
    """Return options that a cluster accepts, all different from the defaults."""
    assert recorded.given == []
    return LearnOptions(
        method=RECORDED,
        columns=Columns(user="account"),
        on_bad_rows="drop",
        min_propensity=0.1,
        alpha=0.05,
    )


def test_a_cluster_learns_with_the_same_options(
    threads: Any, logs: Path, options: LearnOptions
) -> None:
    heard: list[str] = []
    here = learn_log(str(logs), options)
    there = learn_on_cluster(
        str(logs), options, client=threads, with_users=True, on_step=heard.append
    )
    assert_same_bits(here, there)
    assert here.provenance == there.provenance
    assert here.notes == there.notes
    assert len(there.notes) >= 2  # notes on the bad row and on the propensities
    assert heard[0] == "reading"
    assert heard[-2:] == ["validating", "learning"]
    assert sorted(map(str, there.user_labels)) == USERS
    without = learn_on_cluster(str(logs), options, client=threads)
    assert len(without.user_labels) == 0
    np.testing.assert_array_equal(without.policy.mean_rewards, here.policy.mean_rewards)


def test_a_missing_scheduler_is_named(logs: Path, options: LearnOptions) -> None:
    message = refusal(learn_on_cluster, str(logs), options, scheduler="nonsense://nowhere")
    assert message.startswith("there is no Dask scheduler at nonsense://nowhere: ")
