"""A cluster of real worker processes, a log for it, and a method that records its input."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.learners.recording import RECORDED, Recording
from unswayed.engine.workers import connected
from unswayed.learners.methods import METHODS
from unswayed.tallies import cluster, tallies


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Yield a client of two worker processes."""
    with connected(None) as client:
        yield client


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Register and return a method that records its input."""
    recording = Recording()
    monkeypatch.setitem(METHODS, RECORDED, recording)
    return recording


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide small logs into as many blocks as large ones."""
    monkeypatch.setattr(tallies, "EVENTS_PER_BLOCK", 12_000)
    monkeypatch.setattr(cluster, "ROWS_PER_PART", 9_000)


@pytest.fixture
def write_log(rng: np.random.Generator, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a folder of Parquet files; a tenth of the users collude.

    Rewards of good users are "noisy", "binary", or noisy with "tastes" of their own.
    """

    def write(rewards_are: str) -> Path:
        users, contexts, actions, means = _plays(rng)
        if rewards_are != "noisy":
            # The best action leads by a tenth, so a tenth of the users can reverse it.
            means = 0.5 + (means - 0.5) / 4
        rewards = means + rng.normal(scale=0.3, size=len(users))
        lies = np.where(actions == 0, 1.5, -0.5)
        if rewards_are == "binary":
            rewards, lies = rng.random(len(users)) < means, actions == 0
        elif rewards_are == "tastes":
            tastes = rng.standard_normal((900, 2))
            loadings = 0.25 * rng.standard_normal((30, 4, 2))
            rewards += (tastes[users] * loadings[contexts, actions]).sum(axis=1)
        told = np.where(users < 90, lies, rewards).astype(float)
        return _written(tmp_path / "logs", users, contexts, actions, told)

    return write


@pytest.fixture
def folder(write_log: Callable[[str], Path]) -> Path:
    """Return a folder of two Parquet files with several row groups."""
    return write_log("noisy")


def _plays(rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    n = 40_000
    users, contexts, actions = (
        rng.integers(900, size=n),
        rng.integers(30, size=n),
        rng.integers(4, size=n),
    )
    best = rng.integers(4, size=30)
    return users, contexts, actions, np.where(actions == best[contexts], 0.7, 0.3)


def _written(logs: Path, users: Any, contexts: Any, actions: Any, rewards: Any) -> Path:
    table = pa.table(
        {
            "user": [f"user-{code}" for code in users],
            "context": [f"context-{code}" for code in contexts],
            "action": actions,
            "reward": rewards,
        }
    )
    logs.mkdir()
    pq.write_table(table.slice(0, 25_000), logs / "a.parquet", row_group_size=3_000)
    pq.write_table(table.slice(25_000), logs / "b.parquet", row_group_size=7_000)
    return logs
