"""If the disk is full before, during or at the end of writing an output, the old file is kept."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from tests.cli.shop import café_log
from unswayed.cli.demo import _write_log
from unswayed.demo.shop import Outcome, draw
from unswayed.errors import InputError
from unswayed.events import read_events
from unswayed.experiments.results import Store
from unswayed.learners.from_log import learn_log
from unswayed.policy import Policy
from unswayed.reports.policies import write_table
from unswayed.reports.style import save
from unswayed.tallies import tally_events
from unswayed.tallies.store import add_log, load_tallies

#: Positions at which the disk becomes full, as a share of the output.
SHARES = (0.0, 0.01, 0.5, 0.99)


@contextmanager
def room_for(n_bytes: int) -> Iterator[None]:
    """Limit the size of files, which has the effect of a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def policy(rng: np.random.Generator) -> Policy:
    return learn_log(café_log(rng, 900), alpha=0.1, method="paper").policy


def cells(rng: np.random.Generator) -> pa.Table:
    return pa.table(policy(rng).cells())


def outcome(rng: np.random.Generator) -> Outcome:
    log = read_events(café_log(rng, 300)).events
    codes = np.arange(5)
    return Outcome(codes, codes, codes, 0.5, 1.0, log)


def row(number: int) -> dict[str, Any]:
    return {"number": number, "stage": "main", "attack": "push", "repetition": 0, "value": 0.5}


def add_day(rng: np.random.Generator, folder: Path) -> None:
    fresh = tally_events(read_events(café_log(rng, 500)).events)
    add_log(folder, load_tallies(folder), fresh, {})


def run_again(folder: Path) -> None:
    store = Store(folder)
    store.open({"seed": 0})
    store.add([row(len(store.rows()))])
    store.compact()


Write = Callable[[np.random.Generator, Path], object]
OUTPUTS: dict[str, Write] = {
    "policy": lambda rng, folder: policy(rng).save(folder / "policy.json"),
    "cells.csv": lambda rng, folder: write_table(cells(rng), folder / "cells.csv"),
    "cells.parquet": lambda rng, folder: write_table(cells(rng), folder / "cells.parquet"),
    "tallies": add_day,
    "figure": lambda _, folder: save(Figure(), folder, "figure"),
    "demo picture": lambda rng, folder: draw(outcome(rng), folder),
    "demo log": lambda rng, folder: _write_log(outcome(rng), folder / "log.csv"),
    "results": lambda _, folder: run_again(folder),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_leaves_the_old_output_and_an_error_message(
    name: str, share: float, rng: np.random.Generator, tmp_path: Path
) -> None:
    write = OUTPUTS[name]
    write(rng, tmp_path)
    before = contents(tmp_path)
    largest = max(map(len, before.values()))
    with room_for(int(largest * share)), pytest.raises(InputError, match="cannot write"):
        write(rng, tmp_path)
    after = contents(tmp_path)
    # If there are several files, some may have been replaced before one failed.
    assert set(before) <= set(after)
    assert not [path for path in after if path.endswith(".part")]
    if len(before) == 1:
        assert after == before
    write(rng, tmp_path)  # succeeds once there is room again
