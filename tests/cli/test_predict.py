"""Policies read back: predicted for contexts, files and users, and compared."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import café_log, unswayed
from unswayed.errors import InputError
from unswayed.policy import Policy


def test_predict_answers_for_a_context_and_for_a_file(
    log: Path, tmp_path: Path, capsys: Any
) -> None:
    policy, out = tmp_path / "policy.json", tmp_path / "actions.parquet"
    unswayed("learn", log, "--out", policy)
    capsys.readouterr()
    unswayed("predict", policy, "--context", "search", "--context", "nowhere", "--json")
    known, unknown = json.loads(capsys.readouterr().out)
    assert (known["action"], known["is_known"], unknown["is_known"]) == ("milk", True, False)
    asked = tmp_path / "asked.csv"
    asked.write_text("id,context\n1,home\n2,nowhere\n3,\n4,☕ café\n")
    unswayed("predict", policy, "--file", asked, "--out", out)
    rows = pq.read_table(out)
    assert rows["id"].to_pylist() == ["1", "2", "3", "4"]
    assert rows["is_known"].to_pylist() == [True, False, False, True]
    assert rows["action"].to_pylist()[::3] == ["tea", "water"]
    assert "2 have a context" in " ".join(capsys.readouterr().out.split())


def test_predict_cuts_a_file_into_the_bins_of_the_log(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    n = 6_000
    prices, actions = rng.uniform(0, 10, size=n), rng.integers(2, size=n)
    rewards = (rng.random(n) < np.where((prices < 5) == (actions == 0), 0.9, 0.2)).astype(float)
    table = {"user": rng.integers(300, size=n), "action": actions, "reward": rewards}
    log, policy, out = (tmp_path / name for name in ("log.parquet", "p.json", "out.csv"))
    pq.write_table(pa.table({**table, "land": ["FR"] * n, "price": prices}), log)
    unswayed(
        *("learn", log, "--context-column", "land,price", "--context-bins", "price:4"),
        *("--out", policy),
    )
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"land": "FR", "price": 1.0}\n{"price": 9.5, "land": "FR"}\n')
    unswayed("predict", policy, "--file", asked, "--out", out)
    with out.open() as file:
        assert [row["action"] for row in csv.DictReader(file)] == ["0", "1"]


def test_predict_says_what_a_worst_case_bound_rests_on(
    rng: np.random.Generator, tmp_path: Path, capsys: Any
) -> None:
    """Mean and sampling error come first; where there is no bound, or none of use, it says so."""
    n = 4000
    users = np.arange(n) // 2
    columns = {"user": users, "context": rng.choice(["home", "rare"], p=[0.99, 0.01], size=n)}
    actions = rng.choice(["tea", "milk"], size=len(users))
    clicked = (rng.random(n) < np.where(actions == "tea", 0.3, 0.1)).astype(float)
    log, policy = tmp_path / "log.parquet", tmp_path / "policy.json"

    def shown(rewards: np.ndarray, *options: str) -> tuple[str, list[dict[str, Any]]]:
        pq.write_table(pa.table({**columns, "action": actions, "reward": rewards}), log)
        unswayed("learn", log, "--alpha", "0.2", "--out", policy, *options)
        asked = ("predict", policy, "--context", "home", "--context", "rare")
        capsys.readouterr()
        unswayed(*asked)
        text = " ".join(capsys.readouterr().out.split())
        unswayed(*asked, "--json")
        return text, json.loads(capsys.readouterr().out)

    text, (home, rare) = shown(clicked)
    assert text.index("mean") < text.index("sampling") < text.index("at least")
    assert "hold if rewards can only be 0 or 1, as all in this log." in text
    assert 0 < home["low"] < home["mean"] < home["high"] < 1
    assert "bound" not in home
    # Twenty users visit each cell of the rare context, and 400 may collude.
    assert (rare["low"], rare["high"], rare["bound"]) == (0.0, 1.0, "none useful")
    assert "no useful worst-case bound at this click rate and alpha = 0.2" in text
    assert rare["sampling_error"] < 0.5

    text, (home, _) = shown(clicked, "--reward-range", "0,1")
    assert home["condition"] == "rewards lie between 0 and 1"
    assert "hold if rewards lie between 0 and 1." in text

    text, (home, _) = shown(100.0 * clicked)
    assert (home["low"], home["bound"], home["condition"]) == (None, "no bound", None)
    assert "no bound: without a range or deviation of rewards there is none" in text

    text, (home, _) = shown(100.0 * clicked, "--reward-deviation", "50")
    assert home["condition"] == "the standard deviation of rewards is at most 50"
    assert home["low"] < 100.0 * 0.3 < home["high"]


def test_compare_reports_what_changed(log: Path, tmp_path: Path, capsys: Any) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    unswayed("learn", log, "--out", first)
    written = json.loads(first.read_text())
    table = written["mean_rewards"]["home"]
    table["water"] = {**table["water"], "mean": 99.0, "excluded": False}
    written["policy"]["home"] = "water"
    second.write_text(json.dumps(written))
    capsys.readouterr()
    unswayed("compare", first, second, "--json")
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert (change["context"], change["before"], change["after"]) == ("home", "tea", "water")
    unswayed("compare", first, first)
    assert "0 of 3 common contexts changed" in " ".join(capsys.readouterr().out.split())


def test_users_of_another_taste_get_their_own_decisions(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At home users 0 to 9 want water and nothing else; everybody else wants tea."""
    table = café_log(rng, n=30_000, n_users=150, alpha=0.0)
    users, contexts, actions = (table[name].to_pylist() for name in ("user", "context", "action"))
    few = {f"user-{code}" for code in range(10)}
    rewards = [
        float(action == "water") if user in few and context == "home" else reward
        for user, context, action, reward in zip(
            users, contexts, actions, table["reward"].to_pylist(), strict=True
        )
    ]
    log, out = tmp_path / "log.parquet", tmp_path / "policy.json"
    pq.write_table(table.set_column(3, "reward", [rewards]), log)
    unswayed("learn", log, "--out", out, "--personal")
    assert "decisions of their own" in capsys.readouterr().out.replace("\n", " ")
    policy = Policy.load(out)
    assert policy.decide("home").action == "tea"
    assert [policy.decide("home", user).action for user in sorted(few)].count("water") >= 8
    unswayed("predict", out, "--context", "home", "--user", "user-99", "--json")
    assert json.loads(capsys.readouterr().out)[0]["action"] == "tea"
    with pytest.raises(InputError, match="common policy"):
        unswayed("predict", out, "--file", log, "--user", "ann", "--out", tmp_path / "x.csv")
    with pytest.raises(InputError) as caught:
        unswayed("learn", log, "--personal", "--engine", "dask")
    assert "--personal is for --engine local" in caught.value.on_command_line


def test_groups_get_their_own_decisions(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A third of the users wants water at home and tea in the café; nobody lies."""
    table = café_log(rng, n=30_000, n_users=150, alpha=0.0)
    wanted = {"home": "water", "☕ café": "tea"}
    rewards = [
        float(rng.random() < (0.9 if action == wanted[context] else 0.2))
        if int(user.removeprefix("user-")) < 50 and context in wanted
        else reward
        for user, context, action, reward in zip(
            *(table[name].to_pylist() for name in ("user", "context", "action", "reward")),
            strict=True,
        )
    ]
    log, out = tmp_path / "log.parquet", tmp_path / "policy.json"
    pq.write_table(table.set_column(3, "reward", [rewards]), log)
    unswayed("learn", log, "--out", out, "--groups", "auto", "--alpha", "0.2")
    assert "do not support groups of taste" in capsys.readouterr().out.replace("\n", " ")
    unswayed("predict", out, "--context", "home", "--user", "user-3", "--json")
    assert json.loads(capsys.readouterr().out)[0]["action"] == "tea"
    unswayed("learn", log, "--out", out, "--groups", "auto", "--alpha", "0")
    assert "of taste (error rate 1%" in capsys.readouterr().out.replace("\n", " ")
    policy = Policy.load(out)
    assert policy.decide("home").action == "tea"
    members = [policy.decide("home", f"user-{code}").action for code in range(150)]
    assert members[:50].count("water") >= 48
    assert members[50:].count("tea") >= 98
    unswayed("predict", out, "--context", "home", "--user", "user-3", "--json")
    assert json.loads(capsys.readouterr().out)[0]["action"] == "water"
    for arguments, said in (
        (("--groups", "1"), "--groups is '1': give a number of groups from 2 to 20, or auto"),
        (("--groups", "2", "--personal"), "--groups and --personal exclude each other"),
        (("--groups", "2", "--engine", "dask"), "--groups is for --engine local"),
    ):
        with pytest.raises(InputError) as caught:
            unswayed("learn", log, "--out", out, *arguments)
        assert said in caught.value.on_command_line


def test_a_common_policy_has_nothing_to_say_of_a_user(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.json"
    unswayed("learn", log, "--out", out)
    with pytest.raises(InputError, match="learn it with --personal"):
        unswayed("predict", out, "--context", "home", "--user", "ann")
