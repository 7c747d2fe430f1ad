from __future__ import annotations

import json
from pathlib import Path

import pytest

from unswayed.cli.plan import plan
from unswayed.limits.planner import SHAPES, constants, paper_factor

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"
TEXT = PAGE.read_text(encoding="utf-8")


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
