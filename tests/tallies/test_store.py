from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.events.logs import random_log
from tests.tallies.test_exact_sums import assert_same_bits, assert_same_log
from unswayed.errors import InputError
from unswayed.events import read_events
from unswayed.tallies import Tallies, tally_events
from unswayed.tallies.store import add_log, load_tallies


def tallied(table: pa.Table) -> Tallies:
    return tally_events(read_events(table).events)


@pytest.mark.parametrize("with_propensities", [False, True])
def test_tallies_are_read_back_unchanged(
    with_propensities: bool, rng: np.random.Generator, tmp_path: Path
) -> None:
    table = random_log(rng)
    if with_propensities:
        table = table.append_column("propensity", pa.array(rng.uniform(0.1, 1, size=len(table))))
    before = tallied(table)
    add_log(tmp_path, None, before, {"source": "monday"})
    stored = load_tallies(tmp_path)
    assert stored is not None
    assert_same_log(before, stored.tallies)
    assert_same_bits(before.uniform(), stored.tallies.uniform())
    assert stored.logs[0]["source"] == "monday"


def test_a_day_added_on_disk_equals_both_days_at_once(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    table = random_log(rng, 1_000)
    for day in (table.slice(0, 400), table.slice(400, 300), table.slice(700)):
        add_log(tmp_path, load_tallies(tmp_path), tallied(day), {})
    final = load_tallies(tmp_path)
    assert final is not None
    assert_same_log(tallied(table), final.tallies)
    assert len(list(tmp_path.iterdir())) == 3  # old states are deleted


def test_an_empty_folder_has_no_tallies_and_a_damaged_one_is_reported(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    assert load_tallies(tmp_path) is None
    add_log(tmp_path, None, tallied(random_log(rng)), {})
    next(tmp_path.glob("entries-*")).write_bytes(b"cut")
    with pytest.raises(InputError, match="damaged"):
        load_tallies(tmp_path)
