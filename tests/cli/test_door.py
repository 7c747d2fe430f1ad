"""First steps of a new user: common mistakes, and terminal output."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from tests.cli.shop import unswayed
from tests.cli.test_main import run
from tests.refusals import refusal
from unswayed import Policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a log of clicks with long labels, and policies learned from it and from another."""
    path = tmp_path_factory.mktemp("door")
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(600), 20)
    contexts = rng.choice(["coffee break", "late-night-in-Reykjavík"], size=len(users))
    actions = rng.choice(["espresso", "cold-brewed-single-origin", "MegaCola"], size=len(users))
    rewards = rng.random(len(users)) < np.where(actions == "espresso", 0.03, 0.008)
    fake = users < 60
    rewards[fake] = actions[fake] == "MegaCola"
    log = {"user": users, "context": contexts, "action": actions, "reward": rewards.astype(int)}
    pacsv.write_csv(pa.table(log), path / "log.csv")
    log["context"] = np.where(contexts == "coffee break", "am", "pm")
    pacsv.write_csv(pa.table(log), path / "other.csv")
    for name in ("log", "other"):
        done = run("learn", f"{name}.csv", "--out", f"{name}.json", "--json", cwd=path)
        assert done.returncode == 0, done.stderr
        (path / f"{name}-summary.json").write_text(done.stdout)
    return path


def decisions_of(folder: Path) -> list[dict[str, Any]]:
    """Return the decisions that ``learn --json`` printed."""
    listed: list[dict[str, Any]] = json.loads((folder / "log-summary.json").read_text())[
        "decisions"
    ]
    return listed


def wide(folder: Path, width: int, *arguments: str) -> str:
    """Run the command on a terminal of the given width."""
    done = subprocess.run(
        [Path(sys.executable).with_name("unswayed"), *arguments],
        cwd=folder,
        env={"COLUMNS": str(width), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout


@pytest.mark.parametrize("method", ["bounded", "paper"])
def test_the_summary_fits_80_columns_and_shortens_no_label(folder: Path, method: str) -> None:
    """Labels are complete, click rates are percentages, columns are explained, --json agrees."""
    options = ("learn", "log.csv", "--method", method, "--out", "p.json")
    shown = wide(folder, 80, *options)
    assert max(map(len, shown.splitlines())) <= 80
    for label in ("late-night-in-Reykjavík", "cold-brewed-single-origin", "espresso", "naive"):
        assert label in shown
    decisions = decisions_of(folder)
    if method != "bounded":
        decisions = json.loads(wide(folder, 80, *options, "--json"))["decisions"]
    for row in decisions:
        assert row["action"] == "espresso"
        assert row["naive"] == "MegaCola"
        assert f"{100 * row['mean']:.3g}%" in shown
        assert f"{100 * row['lead']:.3g}%" in shown
        assert row["low"] <= row["mean"] <= row["high"]
        half = max(row["high"] - row["mean"], row["mean"] - row["low"])
        assert row["sampling_error"] + row["bias_bound"] == pytest.approx(half)
    columns = ["share", "mean", "lead", "naive", "median", "ratio", "repeated"]
    columns += ["withstands"] * (decisions[0]["withstands"] is not None)
    for column in columns:
        assert f"{column}:" in shown.replace("\n", " "), f"column {column} is not explained"


def test_decisions_are_sorted_by_the_number_of_visits(folder: Path) -> None:
    shares = [row["share"] for row in decisions_of(folder)]
    assert shares == sorted(shares, reverse=True)


def test_misspelt_contexts_get_a_suggestion(folder: Path) -> None:
    arguments = ("predict", "log.json", "--context", "Coffee Break", "--context", "nowhere")
    shown = " ".join(run(*arguments, cwd=folder).stdout.split())
    assert "Did you mean 'coffee break'?" in shown
    responses = json.loads(run(*arguments, "--json", cwd=folder).stdout)
    assert [row["did_you_mean"] for row in responses] == ["coffee break", None]
    assert [row["is_known"] for row in responses] == [False, False]


@pytest.mark.parametrize(
    "script",
    [
        ["-m", "unswayed", "predict", "log.json", "--context", "am"],
        ["-m", "unswayed", "--help"],
        ["-c", "from unswayed import Policy; Policy.load('log.json').decide('am')"],
    ],
    ids=["predict", "help", "scorer"],
)
def test_applying_a_policy_imports_neither_compiler_nor_database(
    folder: Path, script: list[str]
) -> None:
    """-X importtime writes a line for each imported module to standard error."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *script],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=folder,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "unswayed" in loaded
    heavy = {"numba", "scipy", "duckdb", "pyarrow", "fsspec", "matplotlib", "pandas"}
    assert not heavy & loaded


def test_predicting_for_a_log_keeps_its_own_action_column(folder: Path) -> None:
    done = run("predict", "log.json", "--file", "log.csv", "--out", "played.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "'policy_action'" in done.stdout
    rows = list(csv.DictReader((folder / "played.csv").read_text().splitlines()))
    assert {row["policy_action"] for row in rows} == {"espresso"}
    assert len({row["action"] for row in rows}) == 3
    again = run("predict", "log.json", "--file", "played.csv", "--out", "x.csv", cwd=folder)
    assert again.returncode == 2
    assert "column 'policy_action' already" in again.stderr


def test_policies_without_a_common_context_are_not_compared(folder: Path) -> None:
    shown = " ".join(run("compare", "log.json", "other.json", cwd=folder).stdout.split())
    assert "no context in common" in shown
    assert "nan" not in shown
    assert "'am', 'pm'" in shown


def test_an_existing_policy_is_replaced_only_if_it_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --out an existing policy.json is kept, and nothing is computed."""
    monkeypatch.chdir(tmp_path)
    log, policy = folder / "log.csv", tmp_path / "policy.json"
    policy.write_text("learned before")
    assert refusal(unswayed, "learn", log) == (
        "policy.json exists; replace it with --out policy.json, or name another file."
    )
    assert policy.read_text() == "learned before"
    unswayed("learn", log, "--out", "policy.json")
    assert Policy.load(policy).context_labels.texts == ["coffee break", "late-night-in-Reykjavík"]


@pytest.mark.parametrize("command", ["audit", "learn"])
def test_a_policy_is_refused_as_a_log(folder: Path, command: str) -> None:
    path = folder / "log.json"
    arguments = ["--out", folder / "p.json"] if command == "learn" else []
    assert refusal(unswayed, command, path, *arguments) == (
        f"{path} is a policy, not a log; give the log, with one line for each event."
    )


def test_notes_use_the_singular_for_one_and_format_ratios(tmp_path: Path) -> None:
    """One account has a thousand events, the others have one each; one row has no reward."""
    rng = np.random.default_rng(0)
    users = np.concatenate([np.zeros(1030, int), np.arange(1, 500)])
    actions = rng.choice(["tea", "milk"], size=len(users))
    rewards = [*(rng.random(len(users) - 1) < 0.3).astype(float).tolist(), None]
    log = {"user": users, "context": ["home"] * len(users), "action": actions, "reward": rewards}
    pacsv.write_csv(pa.table(log), tmp_path / "log.csv")
    done = run("learn", "log.csv", "--on-bad-rows", "drop", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1,030" in done.stdout
    assert "e+03" not in done.stdout
    assert "rows left out: 1 (" in done.stdout
