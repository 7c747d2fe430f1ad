"""`learn --features` and `predict --file` with the policy that it wrote."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import unswayed
from tests.learners.features.logs import BEST, shop_log, visits
from unswayed import Policy, learn_log
from unswayed.errors import InputError

START = "from unswayed.cli import start; start()"


def test_a_file_of_visits_gets_the_actions_of_its_leaves(
    rng: np.random.Generator, tmp_path: Path, capsys: Any
) -> None:
    log, policy, asked, out = (
        tmp_path / name for name in ("l.parquet", "p.json", "a.parquet", "o.parquet")
    )
    pq.write_table(shop_log(rng, is_pushed=True), log)
    features, figures = ("--features", "country,age,hour"), tmp_path / "figures"
    unswayed("learn", log, *features, "--alpha", 0.12, "--out", policy, "--figures", figures)
    assert {path.name for path in figures.glob("tree.*")} == {"tree.json", "tree.png", "tree.svg"}
    assert "contexts were learned from country, age, hour" in " ".join(
        capsys.readouterr().out.split()
    )
    table, best = visits(rng, 500)
    pq.write_table(table, asked)
    unswayed("predict", policy, "--file", asked, "--out", out)
    assert np.mean(np.array(pq.read_table(out)["action"].to_pylist()) == best) > 0.85


def test_numbers_in_a_csv_file_become_numbers(rng: np.random.Generator, tmp_path: Path) -> None:
    """Policies are the same as from Parquet; "07" stays text, and text for a number is rejected."""
    log, path, names = shop_log(rng), tmp_path / "log.csv", ["country", "age", "hour"]
    pq.write_table(log, tmp_path / "log.parquet")
    expected = learn_log(log, features=names).policy
    pa.csv.write_csv(log, path)
    policy = tmp_path / "policy.json"
    unswayed("learn", path, "--features", ",".join(names), "--out", policy)
    assert Policy.load(policy).to_json()["partition"] == expected.to_json()["partition"]
    unswayed("evaluate", path, "--policy", policy)
    hours = [f"{hour:02}" for hour in log["hour"].to_pylist()]
    padded = log.set_column(log.column_names.index("hour"), "hour", pa.array(hours))
    pa.csv.write_csv(padded, path)
    assert learn_log(path, features=["hour"]).policy.decide({"hour": "07"}).is_known
    ages = ["old", *log["age"].cast(pa.string()).to_pylist()[1:]]
    pa.csv.write_csv(log.set_column(log.column_names.index("age"), "age", pa.array(ages)), path)
    with pytest.raises(InputError, match="could not convert string to float"):
        unswayed("evaluate", path, "--policy", policy)


def test_a_policy_from_features_is_evaluated_in_its_leaves(
    rng: np.random.Generator, tmp_path: Path, capsys: Any
) -> None:
    """Every leaf's action yields ``BEST``; rows with new values get a default action."""
    log, other, policy = (tmp_path / name for name in ("l.parquet", "o.parquet", "p.json"))
    pq.write_table(shop_log(rng, is_pushed=True), log)
    unswayed("learn", log, "--features", "country,age,hour", "--alpha", 0.12, "--out", policy)
    capsys.readouterr()
    day = shop_log(rng, is_pushed=True)
    users = [f"new-{user}" for user in day["user"].to_pylist()]
    country = np.array(day["country"].to_pylist(), dtype=object)
    country[::50] = None
    day = day.set_column(0, "user", pa.array(users)).set_column(1, "country", pa.array(country))
    pq.write_table(day, other)
    for path, fitting in ((log, "cross-fitted"), (other, "as it is")):
        unswayed("evaluate", path, "--policy", policy, "--alpha", 0.12, "--json")
        found = json.loads(capsys.readouterr().out)
        assert found["fitting"]["how"] == fitting
        leaves = {row["context"]: row["robust"] for row in found["contexts"]}
        leaves.pop("(no leaf)", None)
        assert set(leaves) == set(Policy.load(policy).context_labels)
        assert all(value["low"] <= BEST <= value["high"] for value in leaves.values())
    assert any("2.0% of the visits are to contexts" in note for note in found["notes"])
    by_label = tmp_path / "label.json"
    unswayed("learn", log, "--context-column", "country", "--alpha", 0.12, "--out", by_label)
    with pytest.raises(InputError, match="different contexts"):
        unswayed("evaluate", log, "--policy", policy, "--baseline", by_label)
    words = day.set_column(2, "age", pa.array(["old"] * len(day)))
    pq.write_table(words, other)
    with pytest.raises(InputError, match="column 'age' contains text"):
        unswayed("evaluate", other, "--policy", policy)


def test_an_audit_with_features_finds_the_coalition_and_reports_by_leaf(
    rng: np.random.Generator, tmp_path: Path, capsys: Any
) -> None:
    log, clean = tmp_path / "log.parquet", tmp_path / "clean.parquet"
    pq.write_table(shop_log(rng, is_pushed=True), log)
    pq.write_table(shop_log(rng), clean)
    unswayed("audit", log, "--features", "country,age,hour", "--reference", clean, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "attacked"
    assert (found["items"][0]["action"], found["items"][0]["direction"]) == ("cola", "up")
    assert {row["naive"] for row in found["changed"]} == {"cola"}
    assert {row["robust"] for row in found["changed"]} == {"milk", "tea", "water"}
    assert all("country is" in row["context"] for row in found["changed"])
    assert found["reference"]["items"][0]["action"] == "cola"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--features", "country,agee"), "no column 'agee'"),
        (("--features", "age", "--context-column", "country,hour"), "--context-column"),
        (("--features", "age", "--trusted", "hour"), "--trusted names 'hour'"),
        (("--honest",), "--honest needs --features"),
    ],
)
def test_bad_features_end_with_one_sentence_and_code_2(
    options: tuple[str, ...], said: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    log = tmp_path / "log.parquet"
    pq.write_table(shop_log(rng), log)
    command = [sys.executable, "-c", START, "learn", str(log), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
