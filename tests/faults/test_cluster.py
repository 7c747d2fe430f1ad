"""If the scheduler is killed during learning, there is a one-sentence error and nothing is lost."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import café_log
from tests.cli.test_main import COMMAND

DASK = Path(sys.executable).with_name("dask")


@pytest.fixture
def scheduler() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a scheduler with one worker, and its address; both are stopped afterwards."""
    options = ["--no-dashboard", "--host", "127.0.0.1"]
    process = subprocess.Popen(
        [DASK, "scheduler", "--port", "0", *options], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    address = ""
    while not address:
        found = re.search(r"tcp://127\.0\.0\.1:\d+", process.stderr.readline())
        address = found[0] if found else ""
    worker = subprocess.Popen(
        [DASK, "worker", address, "--nthreads", "1", "--no-dashboard"], stderr=subprocess.DEVNULL
    )
    yield process, address
    for running in (process, worker):
        running.kill()
        running.wait()
    process.stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("after", [2.0, 3.0, 4.0, 5.0])
def test_a_lost_scheduler_is_reported_in_one_sentence(
    after: float,
    scheduler: tuple[subprocess.Popen[str], str],
    rng: np.random.Generator,
    tmp_path: Path,
) -> None:
    process, address = scheduler
    pq.write_table(café_log(rng, 300_000, n_users=20_000), tmp_path / "log.parquet")
    time.sleep(1)
    command = subprocess.Popen(
        [COMMAND, "learn", "log.parquet", "--engine", "dask", "--scheduler", address],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(after)
    process.kill()
    _, said = command.communicate(timeout=120)
    assert "Traceback" not in said
    assert command.returncode in (0, 2)
    if command.returncode == 2:
        assert re.search(r"^error: (the Dask cluster|there is no Dask scheduler)", said)
        assert list(tmp_path.glob("policy*")) == []
