"""Ctrl-C at fifty moments of a run, and while loops are being compiled."""

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import café_log
from tests.cli.test_interrupts import assert_stopped, interrupted

#: Moments of a run on a warm cache, which takes about three seconds.
WARM = [round(0.1 + 0.07 * number, 2) for number in range(40)]

#: Moments of a run that compiles everything, which takes a minute.
COLD = [1.5, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 12.5, 15.0]

ARGUMENTS = ["learn", "log.parquet", "--tallies", "tallies", "--users", "users.csv"]


@pytest.fixture
def folder(rng: np.random.Generator, tmp_path: Path) -> Path:
    pq.write_table(café_log(rng, 60_000, n_users=3_000), tmp_path / "log.parquet")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("after", WARM)
def test_ctrl_c_stops_a_run_at_any_moment(after: float, folder: Path) -> None:
    assert_stopped(interrupted(ARGUMENTS, after, folder), folder)


@pytest.mark.slow
@pytest.mark.parametrize("after", COLD)
def test_ctrl_c_stops_a_run_that_compiles(
    after: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = folder / "cache"
    monkeypatch.setitem(os.environ, "NUMBA_CACHE_DIR", str(cache))
    result = interrupted(ARGUMENTS, after, folder)
    assert_stopped(result, folder)
    # Loops that were already compiled may stay in the cache.
    assert_stopped(interrupted(ARGUMENTS, after, folder), folder)
