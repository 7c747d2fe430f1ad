"""The coverage benchmark: interrupted runs resume, and one bound covers all settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from scipy import stats

from evaluate import fewest_covered, main


def test_an_interrupted_measurement_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"

    def run(n_logs: int) -> str:
        options = ["--size", "small", "--kinds", "binary", "--attacks", "none", "--alpha", "0.1"]
        monkeypatch.setattr(
            sys, "argv", ["evaluate", *options, "--logs", str(n_logs), "--rows", str(rows)]
        )
        main()
        return capsys.readouterr().out

    first, before = run(1), rows.read_text()
    assert run(0) == run(1) == first
    assert rows.read_text() == before
    assert "2/2" in run(2) or "1/2" in run(2)
    assert rows.read_text().startswith(before)
    assert len(rows.read_text().splitlines()) == 2


def test_valid_intervals_fall_short_in_any_setting_with_the_stated_chance() -> None:
    least = fewest_covered(100, 120)
    assert 120 * stats.binom.cdf(least - 1, 100, 0.95) <= 0.05
    assert 120 * stats.binom.cdf(least, 100, 0.95) > 0.05
