from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from unswayed.cli.main import app
from unswayed.errors import InputError

SMALL = [
    "attack-search",
    *("--contexts", "2", "--actions", "3", "--users", "60", "--interactions", "8"),
    *("--budget", "20", "--fresh-worlds", "2", "--processes", "1"),
]


def called(*arguments: str) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(app, [*SMALL, *arguments])


def searched(*arguments: str) -> Any:
    """Return the JSON of a small search."""
    result = called("--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_holds_the_worst_attack_of_every_algorithm_with_its_error() -> None:
    printed = searched("--algorithm", "naive-mean,oracle", "--alpha", "0.3", "--seed", "4")
    assert printed["settings"]["seed"] == 4
    assert printed["settings"]["alpha"] == 0.3
    assert printed["budget"] == 20
    assert [worst["algorithm"] for worst in printed["worst"]] == ["naive-mean", "oracle"]
    for worst in printed["worst"]:
        assert set(worst["suboptimality"]) == {"mean", "stderr", "repetitions"}
        assert len(worst["suboptimality"]["repetitions"]) == 2
        assert len(worst["before_climbing"]["repetitions"]) == 2
        assert 0 < worst["runs"] <= 20
        assert worst["training"]["worlds"] >= 1


def test_the_same_seed_finds_the_same_attack() -> None:
    assert searched("--algorithm", "naive-mean") == searched("--algorithm", "naive-mean")


def test_the_table_names_algorithm_and_attack() -> None:
    result = called("--algorithm", "naive-mean", "--rewards", "gaussian")
    assert result.exit_code == 0
    assert "naive-mean" in result.stdout
    assert "Worst attacks found with 20 runs" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--algorithm", "papper"], "did you mean paper"),
        (["--budget", "3"], "budget"),
        (["--fresh-worlds", "1"], "fresh-worlds"),
        (["--alpha", "0.6"], "alpha"),
        (["--processes", "0"], "processes"),
    ],
)
def test_bad_input_is_named_in_one_sentence(arguments: list[str], named: str) -> None:
    result = called(*arguments)
    assert isinstance(result.exception, InputError)
    assert named in str(result.exception)


def test_bad_input_ends_with_exit_code_2_and_without_traceback() -> None:
    command = [sys.executable, "-c", "from unswayed.cli.main import main; main()"]
    ended = subprocess.run(
        [*command, *SMALL, "--budget", "3"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "budget is 3" in ended.stderr
    assert "Traceback" not in ended.stderr
