from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from unswayed.cli.limits import limits
from unswayed.limits import can_hide


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
