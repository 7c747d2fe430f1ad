from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.experiments.tiny import tiny
from unswayed.experiments import lower_bounds
from unswayed.experiments.claims import Verdict
from unswayed.experiments.reproducing import (
    EXPERIMENTS,
    find_experiment,
    redraw,
    run_and_report,
)
from unswayed.experiments.sweeps import (
    OBLIVIOUS_ATTACKS,
    cells_of,
    quick_version,
    settings_digest,
    world_settings,
)
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.limits import largest_interactions
from unswayed.processes import Workers

largest_one_sided_interactions = partial(largest_interactions, is_one_sided=True)

FILES = {"results.parquet", "settings.json", "claims.json", "figure.png", "figure.svg"}


#: One experiment of each kind; `make test-all` runs all of them.
KINDS = ("figure-2a", "theorem-lower", "guessing-game")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in KINDS else pytest.mark.slow) for name in EXPERIMENTS],
)
def test_a_tiny_experiment_runs_from_points_to_claims(name: str, tmp_path: Path) -> None:
    experiment = tiny(find_experiment(name))
    with Workers(1) as workers:
        outcome = run_and_report(experiment, tmp_path, workers, repetitions=2)
    written = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert written == FILES
    assert not list((tmp_path / "parts").iterdir())

    rows = pq.read_table(tmp_path / "results.parquet").to_pylist()
    main = [row for row in rows if row["stage"] == "main"]
    assert {row["cell"] for row in main} == {cell.id for cell in cells_of(experiment)}
    assert len(main) == 2 * len(cells_of(experiment))
    assert all(0 <= row["value"] <= 2 for row in rows)
    assert {"seed", "unswayed", "numpy", "python", "users", "alpha", "gap"} <= rows[0].keys()

    told = json.loads((tmp_path / "claims.json").read_text())
    assert {row["commit"] for row in rows} == {told["commit"]}
    assert told["settings"] == settings_digest(world_settings(experiment))
    assert (told["seeds"], told["finished"]) == (
        {"main": 0, "pilot": 1},
        max(row["finished"] for row in rows),
    )
    claims = told["claims"]
    assert [claim["name"] for claim in claims] == [claim.name for claim in outcome.claims]
    assert len({claim["name"] for claim in claims}) == len(claims) >= 2
    assert {claim["verdict"] for claim in claims} == {Verdict.OPEN.value}, (
        "2 repetitions say little"
    )

    before = {name: (tmp_path / name).read_bytes() for name in written}
    assert redraw(experiment, tmp_path) == outcome
    assert {name: (tmp_path / name).read_bytes() for name in written} == before


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_the_required_learners(name: str) -> None:
    experiment = find_experiment(name)
    if name == "guessing-game":  # it has no learner
        assert experiment.algorithms == ("sticky", "uniform")
        return
    assert {"paper", "oracle"} <= set(experiment.algorithms)
    tests_a_guarantee_of_the_papers = name in {
        *("base-case-1", "base-case-2", "lemma-nu", "parallel-gain")
    }
    assert (DEFAULT_METHOD in experiment.algorithms) != tests_a_guarantee_of_the_papers
    if name.startswith("figure"):
        assert {"naive-ucb", "independent-ucb"} <= set(experiment.algorithms)
        assert all(point.attacks == OBLIVIOUS_ATTACKS for point in experiment.points)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_quick_run_is_a_subset_of_the_full_one(name: str) -> None:
    experiment = find_experiment(name)
    quick = quick_version(experiment)
    worlds = [point.settings for point in experiment.points]
    assert quick.points
    assert all(point.settings in worlds for point in quick.points)
    assert quick.algorithms == experiment.algorithms


def test_the_papers_settings_are_those_of_the_paper() -> None:
    """Section 6 and the appendix; L of Figures 2(a-c) is on the order of SA log SA."""
    base = next(p for p in find_experiment("figure-2a").points if p.x == 10).settings
    assert (base.contexts, base.actions, base.interactions, base.alpha) == (10, 10, 30, 0.2)
    assert base.gap == 0.3
    for point in find_experiment("figure-2d").points:
        s = point.settings
        assert (s.contexts, s.actions, s.users, s.interactions) == (2, 5, 500, 500)
    for point in find_experiment("figure-3a").points:
        s = point.settings
        assert (s.contexts, s.actions, s.interactions) == (20, 10, 50)
    told = {p.settings.assumed_alpha for p in find_experiment("figure-3b").points[:7]}
    assert told == {0.1}


def test_cells_keep_their_numbers_when_an_algorithm_is_added() -> None:
    experiment = find_experiment("figure-2a")
    longer = replace(experiment, algorithms=(*experiment.algorithms, "thompson"))
    assert cells_of(longer)[: len(cells_of(experiment))] == cells_of(experiment)
    assert cells_of(experiment)[7].id == "figure-2a/7"


def test_hiding_of_theorem_lower_is_exact() -> None:
    for series, (gap, _) in lower_bounds.WORLDS.items():
        largest = (
            largest_one_sided_interactions
            if series == lower_bounds.PAPERS
            else largest_interactions
        )
        assert lower_bounds.HIDDEN_UP_TO[series] == largest(gap, lower_bounds.ALPHA)


def test_hiding_of_hidden_contexts_is_exact() -> None:
    for point in find_experiment("hidden-contexts").points:
        largest = largest_one_sided_interactions(point.settings.gap, point.settings.alpha)
        assert largest == lower_bounds.HIDDEN_PLAYS
