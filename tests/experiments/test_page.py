"""The pages on experiments agree with the committed results."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unswayed.experiments.reproducing import EXPERIMENTS, find_experiment
from unswayed.experiments.sweeps import cells_of, settings_digest, world_settings
from unswayed.learners.methods import DEFAULT_METHOD

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FIGURES = DOCS / "images" / "reproduction"
IDS = tuple(EXPERIMENTS)
RUN = tuple(name for name in IDS if (FIGURES / name / "claims.json").exists())


def claims_of(name: str) -> dict[str, Any]:
    written: dict[str, Any] = json.loads((FIGURES / name / "claims.json").read_text())
    return written


def test_tables_and_summary_agree_with_the_committed_claims(tmp_path: Path) -> None:
    """Publishing again changes nothing; a modified claims file changes table and summary."""
    docs = tmp_path / "docs"
    shutil.copytree(FIGURES, docs / "images" / "reproduction")
    pages = ("reproduction.md", "reproduction-claims.md")
    for page in pages:
        shutil.copy2(DOCS / page, docs / page)

    def published() -> list[bool]:
        script = str(ROOT / "scripts" / "publish-reproduction")
        subprocess.run([sys.executable, script, "nothing", str(docs)], check=True, timeout=60)
        return [(docs / page).read_text() == (DOCS / page).read_text() for page in pages]

    assert published() == [True, True]
    path = docs / "images" / "reproduction" / IDS[0] / "claims.json"
    told = json.loads(path.read_text())
    told["claims"][0]["verdict"] = "not resolved"
    path.write_text(json.dumps(told))
    assert published() == [False, False]


def test_points_at_which_the_default_learner_is_worse_are_listed(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(FIGURES, docs / "images" / "reproduction")
    for page in ("reproduction.md", "reproduction-claims.md"):
        shutil.copy2(DOCS / page, docs / page)
    path = docs / "images" / "reproduction" / "figure-2a" / "claims.json"
    told = json.loads(path.read_text())
    cells = cells_of(find_experiment("figure-2a"))
    own = [cell for cell in cells if cell.algorithm == DEFAULT_METHOD]
    told["means"] |= {cell.id: 0.0 for cell in own} | {own[1].id: 0.9}
    path.write_text(json.dumps(told))
    script = str(ROOT / "scripts" / "publish-reproduction")
    subprocess.run([sys.executable, script, "nothing", str(docs)], check=True, timeout=60)
    lines = [
        line
        for line in (docs / "reproduction.md").read_text().splitlines()
        if line.startswith("| figure-2a,")
    ]
    assert len(lines) == 1
    assert lines[0].startswith("| figure-2a, contexts S 5 | 0.900 (")


def test_all_committed_results_are_of_the_same_commit() -> None:
    assert RUN == IDS
    assert len({claims_of(name)["commit"] for name in RUN}) == 1


@pytest.mark.parametrize("name", RUN)
def test_committed_results_are_of_one_commit_and_of_the_whole_sweep(name: str) -> None:
    """The first learner has equally many repetitions at every point, with current settings."""
    told, experiment = claims_of(name), find_experiment(name)
    if "settings" in told:
        assert re.fullmatch(r"[0-9a-f]{12}", told["commit"])  # one was added, nothing else changed
        assert told["settings"] == settings_digest(world_settings(experiment))
    cells = {f"{name}/{number}" for number in range(len(experiment.points))}
    assert cells <= told["attacks"].keys()
    assert told["repetitions"] % experiment.repetition_factor == 0
    page = (DOCS / "reproduction.md").read_text()
    assert f"{told['repetitions'] // experiment.repetition_factor} repetitions" in page
    assert f"images/reproduction/{name}/figure.svg" in page
    assert (FIGURES / name / "figure.svg").exists()
