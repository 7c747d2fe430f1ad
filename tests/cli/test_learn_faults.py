"""A failing `unswayed learn` loses nothing, and the next command continues."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import café_log, unswayed
from unswayed.errors import InputError
from unswayed.learners.from_log import learn_log
from unswayed.policy import Policy
from unswayed.tallies.store import load_tallies


@pytest.fixture
def days(rng: np.random.Generator, tmp_path: Path) -> list[Path]:
    """Return the logs of four days."""
    paths = [tmp_path / f"day-{number}.parquet" for number in range(4)]
    for path in paths:
        pq.write_table(café_log(rng, 1_500), path)
    return paths


def without_time(path: Path) -> dict[str, Any]:
    """Return a policy file without its creation time."""
    value: dict[str, Any] = json.loads(path.read_text())
    del value["created"]
    return value


@pytest.mark.filterwarnings("ignore:waiting for another run")
def test_days_added_by_four_concurrent_runs_are_all_kept(days: list[Path], tmp_path: Path) -> None:
    """Without a lock runs would overwrite each other's output."""
    folder, errors = tmp_path / "tallies", []

    def add(day: Path) -> None:
        try:
            learn_log(day, alpha=0.1, method="paper", tallies=folder)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=add, args=(day,)) for day in days]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    stored = load_tallies(folder)
    assert stored is not None
    assert {log["source"] for log in stored.logs} == {str(day) for day in days}
    assert stored.tallies.n_events == 6_000


def test_learning_from_tallies_needs_no_log(days: list[Path], tmp_path: Path) -> None:
    folder, out, again = tmp_path / "tallies", tmp_path / "a.json", tmp_path / "b.json"
    for day in days[:2]:
        unswayed("learn", day, "--tallies", folder, "--out", out)
    unswayed("learn", "--tallies", folder, "--out", again)
    assert without_time(out) == without_time(again)


def test_the_next_command_recovers_from_a_failure_after_the_tallies_are_saved(
    days: list[Path], tmp_path: Path
) -> None:
    """An action was never played in one context: the log is tallied, but no policy is written."""
    folder, out = tmp_path / "tallies", tmp_path / "policy.json"
    table = pq.read_table(days[0])
    keep = pa.compute.or_(
        pa.compute.not_equal(table["context"], "home"), pa.compute.not_equal(table["action"], "tea")
    )
    pq.write_table(table.filter(keep), days[0])
    with pytest.raises(InputError, match="allow_unplayed"):
        unswayed("learn", days[0], "--tallies", folder, "--out", out)
    with pytest.raises(InputError, match="give `tallies` alone"):
        unswayed("learn", days[0], "--tallies", folder, "--out", out, "--allow-unplayed")
    unswayed("learn", "--tallies", folder, "--out", out, "--allow-unplayed")
    assert Policy.load(out).decide("search").action == "milk"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--out", "{tmp}/none/policy.json"],
        ["--out", "{tmp}"],
        ["--users", "{tmp}/none/users.csv"],
        ["--users", "{tmp}/users.txt"],
        ["--cells", "{tmp}/none/cells.parquet"],
        ["--tallies", "{tmp}/day-0.parquet"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_an_unwritable_output_is_refused_before_anything_is_read(
    arguments: list[str], days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: Any, **__: Any) -> None:
        raise AssertionError("the log was read")

    monkeypatch.setattr("unswayed.learners.from_log.learn_log", too_late)
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    out = [] if "--out" in given else ["--out", tmp_path / "policy.json"]
    with pytest.raises(InputError, match="cannot"):
        unswayed("learn", days[0], *out, *given)


def test_outputs_that_are_symbolic_links_stay_links(days: list[Path], tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("policy.json", "users.csv", "cells.parquet"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    unswayed(
        *("learn", days[0], "--out", tmp_path / "policy.json"),
        *("--users", tmp_path / "users.csv", "--cells", tmp_path / "cells.parquet"),
    )
    for name in ("policy.json", "users.csv", "cells.parquet"):
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / name).stat().st_size > 0


def test_stale_temporary_files_in_a_folder_of_tallies_are_deleted(
    days: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "tallies"
    folder.mkdir()
    (folder / "tallies.json.part").write_text("{")
    (folder / ".entries-000001-x-000.parquet.0123.part").write_text("PAR1")
    learn_log(days[0], alpha=0.1, method="paper", tallies=folder)
    assert list(folder.glob("*.part")) == []


def test_a_folder_of_the_previous_version_is_read_unless_it_contains_events(
    log: Path, tmp_path: Path
) -> None:
    """Version 2 listed its files by name, and recorded whether they contained events or sums."""
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
