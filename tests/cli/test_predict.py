"""Saved policies: predictions for contexts, files and users, and comparisons."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import unswayed
from tests.policy.test_policy import policy_by_age
from unswayed.errors import InputError
from unswayed.policy import Policy


def test_predict_accepts_a_context_or_a_file(log: Path, tmp_path: Path, capsys: Any) -> None:
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
    unswayed("predict", policy, "--file", asked, "--out", out, "--json")
    assert json.loads(capsys.readouterr().out) == {"out": str(out), "rows": 4, "unknown": 2}


def test_predict_uses_the_bins_of_the_log(rng: np.random.Generator, tmp_path: Path) -> None:
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
    asked.write_text('{"land": "FR", "price": 1.0}\n{"price": 9.5, "land": "FR"}\n{"land": "FR"}\n')
    unswayed("predict", policy, "--file", asked, "--out", out)
    with out.open() as file:
        found = [(row["action"], row["is_known"]) for row in csv.DictReader(file)]
    assert found[:2] == [("0", "true"), ("1", "true")]
    assert found[2][1] == "false"
    loaded = Policy.load(policy)
    assert loaded.decide({"land": "FR", "price": 9.5}).action == 1
    assert not loaded.decide(("FR", None)).is_known


def test_files_that_lack_features_or_numbers_are_refused(tmp_path: Path) -> None:
    policy, asked, out = (tmp_path / name for name in ("p.json", "asked.csv", "out.csv"))
    policy_by_age().save(policy)
    asked.write_text('age\n20\n50\n""\n')
    unswayed("predict", policy, "--file", asked, "--out", out)
    with out.open() as file:
        assert [row["action"] for row in csv.DictReader(file)][:2] == ["tea", "milk"]
    for text, words in (("ago\n20\n", "Did you mean 'ago'?"), ("age\nold\n", "'age' is 'old'")):
        asked.write_text(text)
        with pytest.raises(InputError, match=re.escape(words)):
            unswayed("predict", policy, "--file", asked, "--out", out)


def test_predict_states_the_assumption_of_a_worst_case_bound(
    rng: np.random.Generator, tmp_path: Path, capsys: Any
) -> None:
    """The mean and its sampling error come first; missing and uninformative bounds are stated."""
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
