from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unswayed.cli.plan import plan as plan_command
from unswayed.cli.plan import plan_words
from unswayed.limits.planner import plan_traffic

COMMAND = Path(sys.executable).with_name("unswayed")
# A wide terminal, so that messages are not wrapped.
WIDE = {**os.environ, "COLUMNS": "200"}
GOOD = {"--contexts": "100", "--actions": "20", "--alpha": "0.1", "--epsilon": "0.05"}


def plan(contexts: int, actions: int, alpha: float, epsilon: float, **options: Any) -> None:
    """Run the command in this process."""
    plan_command(alpha, epsilon, contexts=contexts, actions=actions, **options)


def test_the_command_prints_words_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    plan(100, 20, 0.1, 0.05, users=50_000)
    printed = " ".join(capsys.readouterr().out.split())
    expected = plan_traffic(np.full(100, 0.01), 20, 0.1, 0.05, 0.1, n_users=50_000)
    for sentence in plan_words(expected):
        assert sentence in printed
    assert "No constants are fitted for method bounded" in printed
    assert "plays per user" in printed


def test_a_lower_bound_of_one_play_is_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """At least one play is needed to learn, with or without a coalition."""
    for contexts, alpha, is_said in ((100, 0.1, True), (2, 0.02, False)):
        plan(contexts, 2, alpha, 0.9 * alpha / (2 if is_said else 1))
        assert ("no method can promise that" in capsys.readouterr().out) == is_said


def test_json_output_contains_the_whole_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan(6, 3, 0.2, 0.1, context_probabilities="zipf:1.0", json=True)
    printed = json.loads(capsys.readouterr().out)
    weights = 1 / np.arange(1, 7)
    expected = plan_traffic(weights / weights.sum(), 3, 0.2, 0.1, 0.1)
    assert printed["plan"] == json.loads(json.dumps(asdict(expected)))


def test_probabilities_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "contexts.txt"
    path.write_text("0.5, 0.3\n0.2\n")
    plan(3, 2, 0.2, 0.1, context_probabilities=str(path), json=True)
    complexity = json.loads(capsys.readouterr().out)["plan"]["complexity"]
    assert complexity == pytest.approx(0.5**0.5 + 0.3**0.5 + (2 * 0.2) ** 0.5)


def test_the_command_printed_with_a_plan_confirms_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The negative control has a sixteenth of the plays, so its bound is four times as large."""
    plan(4, 4, 0.25, 0.15, json=True)
    found = json.loads(capsys.readouterr().out)
    *_, printed = found["words"][-1].partition("To try both: ")
    losses = {}
    for interactions in (n := found["plan"]["methods"][0]["interactions_per_user"], n // 16):
        done = subprocess.run(
            [
                *(COMMAND, *printed.split()[1:], "--json", "--algorithm", "paper"),
                *("--repetitions", "3", "--interactions", str(interactions)),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        losses[interactions] = json.loads(done.stdout)["results"][0]["suboptimality"]["mean"]
    assert losses[n] <= 0.15 < losses[n // 16]


def written_log(path: Path, *, n_users: int, plays: int, rng: np.random.Generator) -> Path:
    """Write a log of clicks around 2% in three contexts with four actions, played evenly."""
    n = n_users * plays
    table = {
        "who": np.repeat(np.arange(n_users), plays),
        "context": rng.choice(["home", "search", "cart"], n, p=[0.6, 0.3, 0.1]),
        "action": rng.integers(4, size=n),
        "reward": (rng.random(n) < 0.02).astype(float),
    }
    pq.write_table(pa.table(table), path)
    return path


def test_a_plan_from_a_log_has_the_logs_traffic(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written_log(tmp_path / "log.parquet", n_users=2_000, plays=20, rng=rng)
    plan_command(0.1, 0.01, str(log), user_column="who", json=True)
    found = json.loads(capsys.readouterr().out)
    planned = found["plan"]
    assert (planned["n_contexts"], planned["n_actions"], planned["n_users"]) == (3, 4, 2_000)
    # The standard error of the rate is .0007 for 40,000 plays, and about .0022 for cells of 4,000.
    assert planned["traffic"]["base"] == pytest.approx(0.02, abs=0.005)
    assert not planned["traffic"]["is_heavy_tailed"]
    assert planned["traffic"]["exploration"] == 1.0
    needed = planned["methods"][0]["interactions_per_user"]
    assert found["log"]["interactions_per_user"] == 20.0
    assert found["log"]["more_interactions"] == max(0, needed - 20)
    assert 0.0 < found["log"]["hidden_by"] < 0.5
    assert any("plays per user of 2,000 users" in sentence for sentence in found["words"])
    plan_command(0.1, 0.01, str(log), user_column="who")
    printed = " ".join(capsys.readouterr().out.split())
    assert "could hide a difference of 0.02 from every method" in printed


def test_a_plan_reads_a_database_and_bins_like_learn(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n = 20_000
    rows = zip(
        (f"u{code}" for code in np.repeat(np.arange(1_000), 20)),
        rng.random(n).tolist(),
        rng.integers(4, size=n).tolist(),
        (rng.random(n) < 0.3).astype(float).tolist(),
        strict=True,
    )
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE log (user TEXT, age REAL, action INTEGER, reward REAL)")
        database.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
    database.close()
    plan_command(
        *(0.1, 0.05, f"sqlite:///{tmp_path / 'shop.db'}"),
        query="SELECT * FROM log",
        context_column="age",
        context_bins=["age:3"],
        json=True,
    )
    planned = json.loads(capsys.readouterr().out)["plan"]
    assert (planned["n_contexts"], planned["n_actions"], planned["n_users"]) == (3, 4, 1_000)
