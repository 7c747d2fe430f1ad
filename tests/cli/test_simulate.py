from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from unswayed.cli.main import app
from unswayed.simulation.attacks.registry import ATTACKS
from unswayed.simulation.attributes import usable_players

SMALL = [
    "simulate",
    *("--contexts", "2", "--actions", "3", "--users", "40", "--interactions", "5"),
    *("--processes", "1"),
]


def called(*arguments: str) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(app, list(arguments))


def simulated(*arguments: str) -> Any:
    """Return the JSON of a small simulation."""
    result = called(*SMALL, "--repetitions", "2", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_output_contains_settings_and_results_of_every_algorithm() -> None:
    printed = simulated("--algorithm", "naive-ucb,oracle", "--seed", "3", "--alpha", "0.1")
    assert printed["settings"]["seed"] == 3
    assert printed["settings"]["alpha"] == 0.1
    assert printed["settings"]["algorithms"] == ["naive-ucb", "oracle"]
    assert [result["algorithm"] for result in printed["results"]] == ["naive-ucb", "oracle"]
    for result in printed["results"]:
        loss = result["suboptimality"]
        assert set(loss) == {"mean", "stderr", "repetitions"}
        assert len(loss["repetitions"]) == 2
        assert loss["mean"] == pytest.approx(sum(loss["repetitions"]) / 2)


def test_every_option_is_passed_to_the_settings(tmp_path: Path) -> None:
    probabilities = tmp_path / "probabilities.txt"
    probabilities.write_text("0.75\n0.25\n")
    chosen = simulated(
        *("--algorithm", "oracle", "--attack", "sleeper", "--assumed-alpha", "0.05"),
        *("--gap", "0.2", "--context-probabilities", str(probabilities)),
        *("--rewards", "heavy", "--deviation", "0.4", "--arrivals", "bursty:3"),
        *("--perturbation", "0.01", "--knob", "inner=nuke", "--knob", "inner.strength=0.5"),
    )["settings"]
    assert chosen["context_probabilities"] == [0.75, 0.25]
    assert chosen["knobs"] == {"inner": "nuke", "inner.strength": "0.5"}
    assert (chosen["assumed_alpha"], chosen["gap"], chosen["deviation"]) == (0.05, 0.2, 0.4)
    assert (chosen["rewards"], chosen["arrivals"]) == ("heavy", "bursty:3")
    assert (chosen["attack"], chosen["perturbation"]) == ("sleeper", 0.01)


def test_attacks_are_listed_with_their_knowledge() -> None:
    listed = json.loads(called("attacks", "--json").stdout)
    assert [attack["name"] for attack in listed] == list(ATTACKS)
    by_name = {attack["name"]: attack for attack in listed}
    assert by_name["push"]["knows"] == "O"
    assert by_name["trim-edge"]["knows"] == "AH"
    assert by_name["sleeper"]["knobs"] == {"inner": "push", "wake": 0.2}
    table = called("attacks", "--long").stdout
    assert all(name.split("-")[0] in table for name in ATTACKS)
    short = called("attacks").stdout
    assert all(name.split("-")[0] in short for name in ATTACKS)
    assert "Knowing their aim alone, whose rival is the best action: push" in short
    assert short.count("\n") < 24, "it fits a small terminal"


def test_click_rates_and_heavy_tailed_activity_can_be_simulated() -> None:
    printed = simulated(
        *("--base", "0.02", "--gap", "0.01", "--rewards", "bernoulli"),
        *("--arrivals", "heavy-tailed", "--algorithm", "oracle"),
    )
    assert printed["settings"]["base"] == 0.02
    # The worst action is 1.2 gaps below the best one.
    assert 0 <= printed["results"][0]["suboptimality"]["mean"] <= 0.012


def test_regret_is_printed_with_its_spread_over_good_users() -> None:
    printed = simulated("--algorithm", "naive-ucb", "--goal", "regret")
    assert printed["goal"] == "regret"
    regret = printed["results"][0]["regret"]
    assert 0.0 < regret["median"] <= regret["quantile_95"] <= regret["worst"]
    assert len(regret["repetitions"]) == 2
    table = called(*SMALL, "--repetitions", "1", "--algorithm", "naive-ucb", "--goal", "regret")
    assert "mean regret" in table.stdout


def test_worlds_with_attributes_show_the_value_of_a_robust_partition() -> None:
    """Forged attributes mislead trees and linear models, but hardly a screened partition."""
    options = ("--attributes", "3", "--attack", "forged", "--users", "1500", "--actions", "4")
    more = ("--interactions", "20", "--base", "0.1", "--alpha", "0.1", "--repetitions", "3")
    result = called("simulate", *options, *more, "--processes", "1", "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    loss = {one["algorithm"]: one["loss"]["mean"] for one in printed["results"]}
    assert set(loss) == set(usable_players())
    assert loss["features"] < loss["without-bots"] + 0.1
    assert loss["features"] < min(loss["naive-tree"], loss["growthbook-tree"], loss["linear"]) - 0.3


class _Workspace:
    """Takes the arguments of Vowpal Wabbit, and plays the action with the lowest mean cost."""

    costs: ClassVar[list[list[float]]] = []

    def __init__(self, arguments: str) -> None:
        words = arguments.split()
        examples = Path(words[words.index("-d") + 1]).read_text().split("\n\n")[:-1]
        if "-t" not in words:
            _Workspace.costs = [[] for _ in examples[0].splitlines()[1:]]
            for example in examples:
                for place, line in enumerate(example.splitlines()[1:]):
                    label = line.split("|")[0]
                    if label:
                        _Workspace.costs[place].append(float(label.split(":")[1]))
            return
        best = int(np.argmin([np.mean(costs) for costs in _Workspace.costs]))
        Path(words[words.index("-p") + 1]).write_text(f"{best}:0.9\n\n" * len(examples))

    def finish(self) -> None:
        """Do nothing: the files are written."""


def test_vowpal_wabbit_is_one_of_the_learners_if_it_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a log without an attack, a learner without contexts does what the best constant does."""
    options = ("--attributes", "2", "--attack", "peace", "--users", "300", "--actions", "3")
    more = ("--repetitions", "1", "--processes", "1", "--algorithm", "constant,vowpal-wabbit")
    package = SimpleNamespace(Workspace=_Workspace)
    monkeypatch.setitem(sys.modules, "vowpalwabbit", package)
    result = called("simulate", *options, *more, "--json")
    assert result.exit_code == 0, result.output
    constant, vowpal_wabbit = json.loads(result.stdout)["results"]
    assert vowpal_wabbit["loss"]["mean"] == constant["loss"]["mean"]
    monkeypatch.setitem(sys.modules, "vowpalwabbit", None)
    result = called("simulate", *options, *more)
    assert "pip install vowpalwabbit" in str(result.exception or result.output)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--attack", "forge"), "did you mean forged?"),
        (("--algorithm", "tree"), "learner from attributes 'tree'"),
        (("--attributes", "1"), "--attributes is 1"),
        (("--goal", "regret"), "omit them"),
        (("--users", "5"), "--users is 5"),
        (("--base", "2"), "--base is 2"),
    ],
)
def test_invalid_options_for_worlds_with_attributes_are_rejected(
    options: tuple[str, ...], words: str
) -> None:
    result = called("simulate", "--attributes", "3", "--repetitions", "1", *options)
    assert words in str(result.exception or result.output)
