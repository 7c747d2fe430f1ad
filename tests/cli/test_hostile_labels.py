"""Labels that attack the terminal or spreadsheet in which they are shown."""

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.test_main import run
from unswayed.reports.policies import without_formulas
from unswayed.visible import visible

CLEAR = "\x1b[2J\x1b]0;owned\x07"
HOSTILE = [f"{CLEAR}home", "a\nb\rc", "\x9b31mred", "\u202egnp.exe", "=cmd|'/c calc'!A1"]
ACTIVE = {"\x1b", "\x07", "\x9b", "\r", "\u202e", "\x7f"}


@pytest.fixture
def log(rng: np.random.Generator, tmp_path: Path) -> Path:
    """Return a log in which every label is hostile and one has a megabyte."""
    n, contexts = 4_000, [*HOSTILE, "x" * 1_000_000]
    s, a = rng.integers(len(contexts), size=n), rng.integers(2, size=n)
    table = pa.table(
        {
            "user": [f"=u{code}" for code in rng.integers(200, size=n)],
            "context": [contexts[code] for code in s],
            "action": [("+tea\x1b[1m", "@milk")[code] for code in a],
            "reward": (rng.random(n) < np.where(a == s % 2, 0.9, 0.1)).astype(float),
        }
    )
    path = tmp_path / "log.parquet"
    pq.write_table(table, path)
    return path


def test_hostile_labels_are_escaped_when_they_are_shown(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.json"
    learned = run("learn", str(log), "--method", "paper", "--out", str(out))
    assert learned.returncode == 0, learned.stderr
    asked = run("predict", str(out), "--context", HOSTILE[0])
    as_json = run("predict", str(out), "--context", HOSTILE[2], "--json")
    compared = run("compare", str(out), str(out), "--json")
    refused = run("learn", str(log), "--context-column", "\x1b[2Jnone")
    for result in (learned, asked, as_json, compared, refused):
        assert not ACTIVE & set(result.stdout + result.stderr)
        assert len(result.stdout + result.stderr) < 20_000
    assert "x1b[2J" in learned.stdout.replace("\n", "")
    assert "1,000,000" in learned.stdout
    assert json.loads(as_json.stdout)[0]["context"] == HOSTILE[2]
    assert refused.returncode == 2


def test_tables_contain_no_formulas_and_labels_can_be_restored(
    log: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    users, cells = tmp_path / "users.csv", tmp_path / "cells.csv"
    request.addfinalizer(partial(csv.field_size_limit, csv.field_size_limit(2_000_000)))
    out = ["--out", str(tmp_path / "policy.json"), "--users", str(users), "--cells", str(cells)]
    assert run("learn", str(log), "--method", "paper", *out).returncode == 0
    for path, column, expected in (
        (users, "user", {f"=u{code}" for code in range(200)}),
        (cells, "action", {"+tea\x1b[1m", "@milk"}),
    ):
        with path.open(newline="") as file:
            written = [row[column] for row in csv.DictReader(file)]
        assert all(text.startswith("'") for text in written)
        assert {text[1:] for text in written} == expected


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=20))
def test_neutral_text_is_never_a_formula_and_always_reversible(texts: list[str]) -> None:
    written = without_formulas(pa.table({"label": texts}))["label"].to_pylist()
    for text, cell in zip(texts, written, strict=True):
        assert cell.removeprefix("'") == text
        if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n"):
            float(cell)  # only numbers may begin with a sign


@given(st.text())
def test_visible_text_contains_no_control_characters(text: str) -> None:
    shown = visible(text, most=50)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    shown.encode()
