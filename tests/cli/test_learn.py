"""The command on valid and invalid files."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import BEST, café_log, unswayed
from unswayed.errors import InputError
from unswayed.policy import Policy


def test_a_policy_file_has_all_documented_fields(log: Path, tmp_path: Path) -> None:
    out, users, cells = tmp_path / "policy.json", tmp_path / "w.parquet", tmp_path / "cells.csv"
    unswayed("learn", log, "--alpha", 0.1, "--out", out, "--users", users, "--cells", cells)
    written = json.loads(out.read_text())
    assert {"adversarial_fraction", "method", "context_probabilities"} <= set(written)
    assert written["policy"] == BEST
    assert {"sampling_error", "bias_bound"} < set(written["mean_rewards"]["home"]["tea"])
    assert written["source"]["read"]["rows"] == 6_000
    weights = pq.read_table(users)
    assert weights.column_names == ["user", "weight", "interactions"]
    assert sum(weights["interactions"].to_pylist()) == 6_000
    assert weights["weight"].to_numpy().max() <= 1
    with cells.open() as file:
        chosen = [row for row in csv.DictReader(file) if row["is_chosen"] == "true"]
    assert {row["context"]: row["action"] for row in chosen} == BEST


def test_the_default_method_flags_colluders_and_certifies_nothing(
    log: Path, tmp_path: Path, capsys: Any
) -> None:
    unswayed("learn", log, "--alpha", 0.1, "--out", tmp_path / "p.json")
    printed = " ".join(capsys.readouterr().out.split())
    assert "withstands" not in printed
    written = json.loads((tmp_path / "p.json").read_text())
    assert written["method"] == "bounded"
    # A tenth of the users push the same action in all their plays, and hardly anybody else buys.
    assert 0.05 < written["source"]["evidence"]["removed"] < 0.15
    assert "flip_fraction" not in written

    unswayed("learn", log, "--alpha", 0.1, "--method", "paper", "--out", tmp_path / "p.json")
    printed = " ".join(capsys.readouterr().out.split())
    # Plays were uniform, so the filter decides, which certifies no bound either.
    assert "withstands: no coalition below" not in printed
    written = json.loads((tmp_path / "p.json").read_text())
    assert written["method"] == "paper"
    assert "flip_fraction" not in written


def test_the_summary_can_be_printed_as_json(log: Path, tmp_path: Path, capsys: Any) -> None:
    unswayed("learn", log, "--out", tmp_path / "p.json", "--json")
    summary = json.loads(capsys.readouterr().out)
    assert (summary["n_users"], summary["n_actions"]) == (300, 3)
    first, *_ = summary["notes"]  # the colluders of this log push milk everywhere
    assert "raises 'milk' in " in first


def column(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """Return a function that replaces a column by a constant, or by a function of its length."""

    def change(table: pa.Table) -> pa.Table:
        values = value(len(table)) if callable(value) else [value] * len(table)
        return table.set_column(table.column_names.index(name), name, pa.array(values))

    return change


def nothing(table: pa.Table) -> pa.Table:
    return table


UNSOUND: dict[str, tuple[Callable[[pa.Table], pa.Table], list[str], str]] = {
    "no rows": (lambda table: table.slice(0, 0), [], "has no rows"),
    "one user": (column("user", "ann"), [], "one user"),
    "one action": (column("action", "tea"), [], "one action"),
    "a missing column": (lambda t: t.rename_columns(["usr", "context", "action", "reward"]), [],
                         "Did you mean 'usr'"),
    "a column of the wrong type": (column("reward", "good"), [], "must be a number"),
    "every reward equal": (column("reward", 0.5), [], "rewards are 0.5 everywhere"),
    "infinite rewards": (column("reward", float("inf")), [], "reward is not finite"),
    "contexts with few visits": (column("context", lambda n: range(n)), [], "coarser contexts"),
    "alpha too large for the data": (nothing, ["--alpha", "0.48"], "smaller alpha"),
    "alpha of a half": (nothing, ["--alpha", "0.5"], "below 0.5"),
    "alpha that is no number": (nothing, ["--alpha", "some"], "give a number below"),
    "an unknown method": (nothing, ["--method", "magic"], "unknown method 'magic'"),
    "an unknown design": (nothing, ["--design", "magic"], "--design is"),
    "a bad choice for bad rows": (nothing, ["--on-bad-rows", "keep"], "on-bad-rows is"),
    "a cap of nothing": (nothing, ["--max-interactions-per-user", "0"], "at least one per user"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSOUND)
def test_a_log_without_enough_data_is_refused_with_a_remedy(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    change, arguments, sentence = UNSOUND[name]
    path, out = tmp_path / "log.parquet", tmp_path / "policy.json"
    pq.write_table(change(café_log(rng)), path)
    with pytest.raises(InputError) as caught:
        unswayed("learn", path, "--out", out, *arguments)
    assert sentence in caught.value.on_command_line
    assert not out.exists()


def test_forgetting_is_reported_and_bad_times_are_refused(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, dated = tmp_path / "policy.json", tmp_path / "dated.parquet"
    table = pq.read_table(log)
    pq.write_table(table.append_column("day", pa.array(np.arange(len(table)) / 100)), dated)
    unswayed(*("learn", dated, "--out", out, "--half-life", "20", "--time-column", "day", "--json"))
    printed = json.loads(capsys.readouterr().out)
    assert printed["changes"]["changes"] == []
    assert printed["changes"]["level"] == 0.01
    assert "with a half-life of 20" in printed["notes"][0]
    assert printed["n_events"] < 6_000
    out.unlink()
    for arguments, said in (
        (("--half-life", "7d"), "has no column 'time'; name it with --time-column"),
        (("--half-life=-7d",), "--half-life is '-7d': give a length of time above 0"),
        (("--half-life", "soon"), "--half-life is 'soon'"),
        (("--half-life", "7d", "--engine", "dask"), "--half-life works only with --engine local"),
    ):
        with pytest.raises(InputError) as caught:
            unswayed("learn", log, "--out", out, *arguments)
        assert said in caught.value.on_command_line
    assert not out.exists()


def test_an_unknown_share_is_estimated_and_written_down(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.parquet", tmp_path / "policy.json"
    pq.write_table(café_log(rng, alpha=0.2), log)
    unswayed("learn", log, "--alpha", "auto", "--out", out)
    policy = Policy.load(out)
    assert {context: policy.decide(context).action for context in BEST} == BEST
    assert policy.alpha >= 0.2
    told = policy.source["adversarial_fraction"]
    assert told["chosen"] == policy.alpha
    assert told["statement"] in policy.source["notes"]
    assert "was chosen from the data" in " ".join(capsys.readouterr().out.split())
