"""The pages of the planner and of the limits say what the commands print."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from unswayed.cli.limits import limits
from unswayed.cli.plan import plan
from unswayed.limits import can_hide
from unswayed.limits.planner import SHAPES, constants, paper_factor

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "planning.md").read_text(encoding="utf-8")
LIMITS = (DOCS / "limits.md").read_text(encoding="utf-8")


def test_the_page_quotes_the_output_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    plan(0.1, 0.05, contexts=100, actions=20, delta=0.1, json=True)
    words = json.loads(capsys.readouterr().out)["words"]
    assert "\n".join(words) in TEXT


def test_the_page_lists_the_fitted_factors() -> None:
    for fraction in (0.03, 0.1, 0.2, 0.3):
        factors = [paper_factor(shape, fraction, 0.1) for shape in SHAPES]
        assert f"| {fraction:g} | {factors[0]:.2f} | {factors[1]:.2f} |" in TEXT
    for row in constants()["methods"]["paper"]["traffic"]:
        if "shape" in row:
            assert f" {(row['mean'] / row['usual']) ** 2:.2f} |" in TEXT
    prices = constants()["methods"]["paper"]["few_users"]
    assert f"e is {prices['frequent']:g} and {prices['mixed']:g}" in TEXT


def test_the_page_of_limits_quotes_the_output_of_the_command() -> None:
    assert "\n".join(can_hide(0.1, 10, 0.2).words) in LIMITS


def test_the_command_prints_words_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    limits(0.1, 10, 0.2, users=50)
    printed = " ".join(capsys.readouterr().out.split())
    assert "a coalition of 20% cannot fully hide a gap of 0.1" in printed
    assert "20.39%" in printed
    assert "0.519" in printed


def test_json_output_contains_the_whole_answer(capsys: pytest.CaptureFixture[str]) -> None:
    limits(0.1, 10, 0.2, json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(asdict(can_hide(0.1, 10, 0.2))))
