from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.tiny import miniature
from unswayed.errors import InputError
from unswayed.experiments import sweeps
from unswayed.experiments.reproducing import find_experiment, run_missing
from unswayed.experiments.results import Row, Store, key_of, strongest_attacks
from unswayed.experiments.sweeps import Experiment, cells_of, quick_version
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.processes import Workers
from unswayed.simulation.simulate import Settings, simulate

SMALL = miniature(find_experiment("figure-2a"))


def run(
    folder: Path, *, experiment: Experiment = SMALL, repetitions: int = 2
) -> tuple[list[Row], int]:
    """Run in this process and return the rows and how many repetitions were run."""
    counts: list[tuple[int, int]] = []
    with Workers(1) as workers:
        rows = run_missing(
            experiment,
            Store(folder),
            workers,
            repetitions=repetitions,
            on_progress=lambda *numbers: counts.append(numbers),
        )
    finished, expected = map(sum, zip(*counts, strict=True))
    assert expected == finished
    return rows, finished


def values(rows: list[Row]) -> dict[object, float]:
    """Return the values of the rows, which unlike times must not differ between runs."""
    return {key_of(row): row["value"] for row in rows}


def test_finished_cells_are_never_run_again(tmp_path: Path) -> None:
    rows, n_run = run(tmp_path)
    assert n_run == len(rows)
    assert run(tmp_path) == (rows, 0)


def test_more_repetitions_are_added_to_existing_ones(tmp_path: Path) -> None:
    few, _ = run(tmp_path, repetitions=1)
    more, n_run = run(tmp_path, repetitions=3)
    assert n_run == 2 * len(cells_of(SMALL))
    assert values(few).items() <= values(more).items()
    assert values(more) == values(run(tmp_path / "at once", repetitions=3)[0])


def test_another_algorithm_adds_its_cells_only(tmp_path: Path) -> None:
    rows, _ = run(tmp_path)
    longer = replace(SMALL, algorithms=(*SMALL.algorithms, "oracle"))
    more, n_run = run(tmp_path, experiment=longer)
    assert n_run == len(more) - len(rows)
    assert values(rows).items() <= values(more).items()


@pytest.mark.parametrize(
    ("experiment", "named"),
    [
        (replace(SMALL, pilot_repetitions=2), "pilot_repetitions"),
        (replace(SMALL, points=SMALL.points[:1]), "points"),
        (replace(SMALL, id="figure-2b"), "id"),
    ],
)
def test_results_with_other_settings_are_rejected_and_left_unchanged(
    experiment: Experiment, named: str, tmp_path: Path
) -> None:
    run(tmp_path)
    before = (tmp_path / "results.parquet").read_bytes()
    with pytest.raises(InputError, match=rf"different: {named}.*another folder"):
        run(tmp_path, experiment=experiment)
    assert (tmp_path / "results.parquet").read_bytes() == before


def test_results_without_settings_are_not_continued(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "settings.json").unlink()
    with pytest.raises(InputError, match="without settings"):
        run(tmp_path)


def test_a_crash_while_merging_parts_creates_no_duplicates(tmp_path: Path) -> None:
    rows, _ = run(tmp_path)
    Store(tmp_path).add(rows[:1])  # as if the crash came before the part was removed
    assert Store(tmp_path).rows() == rows
    assert Store(tmp_path).compact() == rows


def test_each_cell_uses_the_strongest_attack_of_its_pilot(tmp_path: Path) -> None:
    rows, _ = run(tmp_path)
    strongest = strongest_attacks(rows)
    assert set(strongest) == {cell.number for cell in cells_of(SMALL)}
    for row in rows:
        if row["stage"] == "main":
            assert row["attack"] == strongest[row["number"]]


def test_a_quick_run_has_one_attack_and_no_pilot() -> None:
    known = quick_version(find_experiment("figure-2a"))
    assert {point.attacks for point in known.points} == {("nuke",)}
    assert [known.repetitions_of(name, 6) for name in ("paper", DEFAULT_METHOD)] == [6, 2]
    unknown = quick_version(find_experiment("knowing-attack"))
    assert {point.attacks for point in unknown.points} == {("trim-edge",)}


def test_a_row_is_reproducible_with_the_simulator(tmp_path: Path) -> None:
    """Every row can be repeated by `unswayed simulate` from its recorded settings."""
    rows, _ = run(tmp_path)
    for row in rows[:: len(rows) // 3]:
        settings = Settings(
            contexts=row["contexts"],
            actions=row["actions"],
            users=row["users"],
            interactions=row["interactions"],
            alpha=row["alpha"],
            attack=row["attack"],
            algorithms=(row["algorithm"],),
            repetitions=row["repetition"] + 1,
            seed=row["seed"],
            gap=row["gap"],
            rewards=row["rewards"],
            deviation=row["deviation"],
        )
        assert simulate(settings)[-1].loss == row["value"]


def test_a_run_without_processes_or_repetitions_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`processes` is 0"):
        Workers(0)
    with pytest.raises(InputError, match="`repetitions` is 0"):
        run(tmp_path, repetitions=0)


SCRIPT = """
import sys
from pathlib import Path
from tests.experiments.test_running import LONG
from unswayed.experiments.reproducing import run_missing
from unswayed.processes import Workers
from unswayed.experiments.results import Store

if __name__ == "__main__":
    with Workers(2) as workers:
        run_missing(LONG, Store(Path(sys.argv[1])), workers, repetitions=12)
"""
LONG = miniature(find_experiment("figure-2a"), points=3)


def test_a_killed_run_resumes_where_it_stopped(tmp_path: Path) -> None:
    """A run with two processes is killed halfway; no finished repetition is run again."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "results"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
    )
    parts = folder / "parts"
    deadline = time.monotonic() + 180
    while len(list(parts.glob("*.parquet"))) < 8 and time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.01)
    children = _children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = Store(folder).rows()
    total = len(cells_of(LONG)) * (len(LONG.points[0].attacks) + 12)
    assert 0 < len(kept) < total

    rows, n_run = run(folder, experiment=LONG, repetitions=12)
    assert n_run == total - len(kept)
    assert len(rows) == total
    by_key = {key_of(row): row for row in rows}
    assert all(by_key[key_of(row)] == row for row in kept), "kept rows are not run again"
    assert not [child for child in children if _is_running(child)], "workers outlived the kill"


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_results_of_another_commit_are_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with rows of an older commit is rejected and left unchanged."""
    experiment = miniature(find_experiment("figure-2a"), points=1)
    with Workers(1) as workers:
        run_missing(experiment, Store(tmp_path), workers, repetitions=1)
        before = Store(tmp_path).rows()
        monkeypatch.setattr(sweeps, "code_version", lambda: "another")
        with pytest.raises(InputError, match=r"other settings \(different: commit\)"):
            run_missing(experiment, Store(tmp_path), workers, repetitions=2)
    assert Store(tmp_path).rows() == before
