from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from tests.experiments.tiny import tiny
from unswayed.cli import reproduce as command
from unswayed.cli.reproduce import reproduce
from unswayed.errors import InputError
from unswayed.experiments.reproducing import find_experiment
from unswayed.experiments.sweeps import Experiment


@pytest.fixture
def _miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_tiny(name: str) -> Experiment:
        return tiny(find_experiment(name))

    monkeypatch.setattr(command, "find_experiment", find_tiny)


@pytest.mark.usefixtures("_miniature")
def test_the_command_prints_claims_and_can_redraw_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce(["figure-2a"], repetitions=1, processes=1, out=tmp_path)
    printed = capsys.readouterr().out
    assert "Figure 2(a): more contexts (1 repetitions)" in printed
    assert "not resolved" in printed
    (tmp_path / "figure-2a" / "figure.svg").unlink()

    reproduce(["figure-2a"], out=tmp_path, redraw=True, json=True)
    (outcome,) = json.loads(capsys.readouterr().out)
    assert {claim["name"] for claim in outcome["claims"]} == {
        "beats-naive",
        "contexts-do-not-degrade",
        "contexts-do-not-degrade-as-printed",
        "better-path-is-no-worse",
        "own-is-no-worse",
    }
    assert (tmp_path / "figure-2a" / "figure.svg").exists()


def test_unknown_experiments_and_missing_results_give_a_clear_error(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match="did you mean figure-2a"):
        reproduce(["figure2a"], out=tmp_path)
    with pytest.raises(InputError, match="holds no results"):
        reproduce(["figure-2a"], out=tmp_path, redraw=True)


@pytest.mark.usefixtures("_miniature")
def test_ctrl_c_prints_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_and_report", interrupt)
    with pytest.raises(typer.Exit) as caught:
        reproduce(["figure-2a"], processes=1, out=tmp_path)
    assert caught.value.exit_code == 130
    assert "the same command resumes from there" in " ".join(capsys.readouterr().out.split())
