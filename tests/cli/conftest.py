"""Fixtures shared by the tests of commands."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import café_log


@pytest.fixture
def log(rng: np.random.Generator, tmp_path: Path) -> Path:
    """Write the log of a café."""
    path = tmp_path / "log.parquet"
    pq.write_table(café_log(rng), path)
    return path
