"""A cluster of real worker processes, and a log for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unswayed.tallies import blocked, cluster, cluster_parts


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Yield a client of two worker processes."""
    with cluster.connected(None) as client:
        yield client


@pytest.fixture
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
