"""The pages on experiments say what the committed results say."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from unswayed.experiments.reproducing import BEYOND, IDS, find_experiment
from unswayed.experiments.sweeps import settings_digest, world_settings

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = DOCS / "images" / "reproduction"


def claims_of(name: str) -> dict[str, Any]:
    written: dict[str, Any] = json.loads((FIGURES / name / "claims.json").read_text())
    return written


def line_of(name: str, claim: dict[str, Any]) -> str:
    """Return the claim's line in the table of the page."""
    numbers = [claim["estimate"], claim["low"], claim["high"]]
    estimate, low, high = ("none" if number is None else f"{number:.3f}" for number in numbers)
    columns = [claim["statement"], claim["statistic"], f"{estimate} [{low}, {high}]"]
    return f"| {name} | {' | '.join(columns)} | {claim['verdict']} |"


RUN = tuple(name for name in (*IDS, *BEYOND) if (FIGURES / name / "claims.json").exists())


def page_of(name: str) -> str:
    """Return the page that an experiment is on: what the paper leaves open has its own."""
    return (DOCS / ("epochs.md" if name in BEYOND else "reproduction.md")).read_text()


def test_what_was_not_run_is_named_on_the_page() -> None:
    page = (DOCS / "reproduction.md").read_text()
    section = page.partition("## Not run in full yet")[2].partition("\n## ")[0]
    assert {name for name in IDS if f"`{name}`" in section} == set(IDS) - set(RUN)


def test_what_is_older_than_the_newest_results_is_named_on_the_page() -> None:
    """One commit for every row of the page, but for experiments that it names."""
    told = {name: claims_of(name) for name in IDS if name in RUN}
    newest = max(told.values(), key=lambda claims: claims.get("finished", ""))["commit"]
    older = {name for name, claims in told.items() if claims.get("commit") != newest}
    page = (DOCS / "reproduction.md").read_text()
    section = page.partition("**What is older than the present code.**")[2].partition("\n\n")[0]
    assert {name for name in IDS if f"`{name}`" in section} == older
    assert f"`{newest}`" in section


@pytest.mark.parametrize("name", [name for name in RUN if "settings" in claims_of(name)])
def test_committed_results_are_of_one_commit_and_of_the_settings_of_the_sweep(name: str) -> None:
    told = claims_of(name)
    assert re.fullmatch(r"[0-9a-f]{12}", told["commit"])  # one, and nothing changed beside it
    assert told["settings"] == settings_digest(world_settings(find_experiment(name)))


def test_the_summary_counts_the_verdicts() -> None:
    found = Counter(
        claim["verdict"] for name in IDS if name in RUN for claim in claims_of(name)["claims"]
    )
    sentence = (
        f"Of {found.total()} claims {found['holds']} hold, {found['does not hold']} do not, and "
        f"{found['not resolved']} are not resolved."
    )
    page = (DOCS / "reproduction.md").read_text()
    assert sentence in page.partition("## In short")[2].partition("## ")[0]


@pytest.mark.parametrize("name", BEYOND)
def test_what_the_paper_leaves_open_is_on_its_page(name: str) -> None:
    assert f"`unswayed reproduce {name}`" in page_of(name)


@pytest.mark.parametrize("name", RUN)
def test_every_claim_is_on_the_page_with_its_numbers_and_verdict(name: str) -> None:
    page = page_of(name)
    for claim in claims_of(name)["claims"]:
        assert line_of(name, claim) in page
    assert f"images/reproduction/{name}/figure.svg" in page
    assert (FIGURES / name / "figure.svg").exists()


@pytest.mark.parametrize("name", RUN)
def test_the_committed_results_are_those_of_the_whole_sweep(name: str) -> None:
    """Every point of the sweep for the first learner, equally often."""
    experiment = find_experiment(name)
    told = claims_of(name)
    cells = {f"{name}/{number}" for number in range(len(experiment.points))}
    assert cells <= told["attacks"].keys()
    assert told["repetitions"] % experiment.repetition_factor == 0
    repetitions = told["repetitions"] // experiment.repetition_factor
    assert f"{repetitions} repetitions" in page_of(name)
