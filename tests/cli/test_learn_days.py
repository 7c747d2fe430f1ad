"""Tallies of successive days, and caps on the plays of a user."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import café_log, unswayed
from unswayed.errors import InputError
from unswayed.policy import Policy


def test_days_added_one_by_one_give_the_policy_of_all_days(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    table = café_log(rng)
    noise = pa.array(table["reward"].to_numpy() + rng.normal(size=len(table)))
    table = table.set_column(3, "reward", noise)  # rewards whose sums depend on the order
    whole = tmp_path / "whole.parquet"
    pq.write_table(table, whole)
    for day, part in enumerate([table.slice(0, 2_000), table.slice(2_000, 1), table.slice(2_001)]):
        path = tmp_path / f"day-{day}.parquet"
        pq.write_table(part, path)
        unswayed("learn", path, "--tallies", tmp_path / "tallies", "--out", tmp_path / "days.json")
    unswayed("learn", whole, "--out", tmp_path / "once.json")
    by_days, once = (Policy.load(tmp_path / name) for name in ("days.json", "once.json"))
    for name in ("mean_rewards", "low", "high", "counts", "context_probabilities"):
        np.testing.assert_array_equal(getattr(by_days, name), getattr(once, name))


def test_adding_a_day_twice_is_refused(log: Path, tmp_path: Path) -> None:
    arguments = ("learn", log, "--tallies", tmp_path / "t", "--out", tmp_path / "p.json")
    unswayed(*arguments)
    with pytest.raises(InputError, match="count twice"):
        unswayed(*arguments)


def test_a_folder_of_the_former_version_is_read_unless_it_keeps_events(
    log: Path, tmp_path: Path
) -> None:
    """Version 2 listed its files by name, and recorded whether they held events or sums."""
    folder, policy = tmp_path / "t", tmp_path / "p.json"
    unswayed("learn", log, "--tallies", folder, "--out", policy)
    learned, index = Policy.load(policy), json.loads((folder / "tallies.json").read_text())
    former = index | {"version": 2, "keeps_events": False, "pieces": [index.pop("piece")]}
    (folder / "tallies.json").write_text(json.dumps(former | {"bins": {}}))
    unswayed("learn", "--tallies", folder, "--out", policy)
    np.testing.assert_array_equal(Policy.load(policy).mean_rewards, learned.mean_rewards)
    with pytest.raises(InputError, match="count twice"):
        unswayed("learn", log, "--tallies", folder, "--out", policy)
    (folder / "tallies.json").write_text(json.dumps(former | {"keeps_events": True}))
    with pytest.raises(InputError, match=r"with single events.*learn from the logs of all days"):
        unswayed("learn", "--tallies", folder, "--out", policy)


def test_a_cap_is_reported(log: Path, tmp_path: Path, capsys: Any) -> None:
    unswayed(
        *("learn", log, "--max-interactions-per-user", 10, "--out", tmp_path / "p.json", "--json")
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary["most_interactions"] == 10
    assert "had more than 10 interactions" in summary["notes"][0]
