"""The command on real files, sound and unsound, as a new user would try it."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unswayed.cli.main import app
from unswayed.errors import InputError
from unswayed.policy import Policy

BEST = {"home": "tea", "search": "milk", "☕ café": "water"}


def café_log(
    rng: np.random.Generator, n: int = 6_000, n_users: int = 300, alpha: float = 0.1
) -> pa.Table:
    """Return a log in which each context has one best action and liars praise milk everywhere."""
    contexts, actions = np.array(list(BEST)), np.array(["tea", "milk", "water"])
    users = rng.integers(n_users, size=n)
    s, a = rng.integers(3, size=n), rng.integers(3, size=n)
    best = np.array([list(actions).index(action) for action in BEST.values()])
    rewards = (rng.random(n) < np.where(a == best[s], 0.9, 0.2)).astype(float)
    is_liar = users < alpha * n_users
    rewards[is_liar] = actions[a[is_liar]] == "milk"
    return pa.table(
        {
            "user": [f"user-{code}" for code in users],
            "context": contexts[s],
            "action": actions[a],
            "reward": rewards,
        }
    )


def unswayed(*arguments: object) -> None:
    """Run a command in this process."""
    app([str(argument) for argument in arguments], standalone_mode=False)


@pytest.fixture
def log(rng: np.random.Generator, tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    pq.write_table(café_log(rng), path)
    return path


def test_a_log_becomes_a_policy_with_all_that_was_promised(log: Path, tmp_path: Path) -> None:
    out, users, cells = tmp_path / "policy.json", tmp_path / "w.parquet", tmp_path / "cells.csv"
    unswayed("learn", log, "--alpha", 0.1, "--out", out, "--users", users, "--cells", cells)
    written = json.loads(out.read_text())
    assert {
        "format",
        "version",
        "created",
        "adversarial_fraction",
        "method",
        "policy",
        "mean_rewards",
        "context_probabilities",
    } <= set(written)
    assert written["policy"] == BEST
    assert set(written["mean_rewards"]["home"]["tea"]) == {
        *("mean", "low", "high", "n"),
        *("sampling_error", "bias_bound"),
    }
    assert written["source"]["read"]["rows"] == 6_000
    weights = pq.read_table(users)
    assert weights.column_names == ["user", "weight", "interactions"]
    assert sum(weights["interactions"].to_pylist()) == 6_000
    assert weights["weight"].to_numpy().max() <= 1
    with cells.open() as file:
        chosen = [row for row in csv.DictReader(file) if row["is_chosen"] == "true"]
    assert {row["context"]: row["action"] for row in chosen} == BEST


def test_the_default_method_discounts_and_claims_no_certificate(
    log: Path, tmp_path: Path, capsys: Any
) -> None:
    unswayed("learn", log, "--alpha", 0.1, "--out", tmp_path / "p.json")
    printed = " ".join(capsys.readouterr().out.split())
    assert "withstands" not in printed
    written = json.loads((tmp_path / "p.json").read_text())
    assert written["method"] == "discount"
    # A tenth of the users lie, loudly and all alike, and hardly anybody else pays for it.
    assert 0.05 < written["source"]["evidence"]["removed"] < 0.15
    assert "flip_fraction" not in written

    unswayed("learn", log, "--alpha", 0.1, "--method", "paper", "--out", tmp_path / "p.json")
    printed = " ".join(capsys.readouterr().out.split())
    # Plays were uniform: the filter decides, of which no bound is known either.
    assert "withstands: changing fewer accounts" not in printed
    written = json.loads((tmp_path / "p.json").read_text())
    assert written["method"] == "paper"
    assert "flip_fraction" not in written


def test_the_summary_comes_as_json(log: Path, tmp_path: Path, capsys: Any) -> None:
    unswayed("learn", log, "--out", tmp_path / "p.json", "--json")
    summary = json.loads(capsys.readouterr().out)
    assert (summary["n_users"], summary["n_actions"]) == (300, 3)
    (note,) = summary["notes"]  # the liars of the log praise milk everywhere
    assert "raise 'milk' in 3 contexts" in note


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
    answers = pq.read_table(out)
    assert answers["id"].to_pylist() == ["1", "2", "3", "4"]
    assert answers["is_known"].to_pylist() == [True, False, False, True]
    assert answers["action"].to_pylist()[::3] == ["tea", "water"]
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


def test_compare_tells_what_changed(log: Path, tmp_path: Path, capsys: Any) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    unswayed("learn", log, "--out", first)
    written = json.loads(first.read_text())
    table = written["mean_rewards"]["home"]
    table["water"]["mean"] = 99.0
    second.write_text(json.dumps(written))
    capsys.readouterr()
    unswayed("compare", first, second, "--json")
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert (change["context"], change["before"], change["after"]) == ("home", "tea", "water")
    unswayed("compare", first, first)
    assert "0 of 3 common contexts changed" in " ".join(capsys.readouterr().out.split())


def test_days_added_one_by_one_give_the_policy_of_all_days(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    table = café_log(rng)
    noise = pa.array(table["reward"].to_numpy() + rng.normal(size=len(table)))
    table = table.set_column(3, "reward", noise)  # rewards whose sums depend on the order
    whole = tmp_path / "whole.parquet"
    pq.write_table(table, whole)
    for day, part in enumerate([table.slice(0, 2_000), table.slice(2_000, 1), table.slice(2_001)]):
        path = tmp_path / f"day-{day}.parquet"
        pq.write_table(part, path)
        unswayed("learn", path, "--tallies", tmp_path / "tallies", "--out", tmp_path / "days.json")
    unswayed("learn", whole, "--out", tmp_path / "once.json")
    by_days, once = (Policy.load(tmp_path / name) for name in ("days.json", "once.json"))
    for name in ("mean_rewards", "low", "high", "counts", "context_probabilities"):
        np.testing.assert_array_equal(getattr(by_days, name), getattr(once, name))


@pytest.mark.parametrize("with_propensities", [False, True])
def test_days_under_a_cap_give_the_policy_of_all_days_under_it(
    with_propensities: bool, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Rewards are 0 or 1, so that users repeat the very same event on several days."""
    table = café_log(rng)
    if with_propensities:
        table = table.append_column("propensity", pa.array(np.full(len(table), 1 / 3)))
    pq.write_table(table, tmp_path / "whole.parquet")
    folder = tmp_path / "tallies"

    def learn(path: Path, cap: int, out: str, *more: object) -> None:
        unswayed("learn", path, "--max-interactions-per-user", cap, "--out", tmp_path / out, *more)

    for day, cap in enumerate((12, 5, 12, 12)):  # it may change from day to day
        path = tmp_path / f"day-{day}.parquet"
        pq.write_table(table.slice(1_500 * day, 1_500), path)
        learn(path, cap, "days.json", "--tallies", folder)
    learn(tmp_path / "whole.parquet", 12, "once.json")
    by_days, once = (Policy.load(tmp_path / name) for name in ("days.json", "once.json"))
    for name in ("mean_rewards", "low", "high", "counts", "context_probabilities"):
        np.testing.assert_array_equal(getattr(by_days, name), getattr(once, name))
    assert once.source["findings"]["most_interactions"] == 12


def test_a_cap_on_tallies_that_were_made_without_is_refused(log: Path, tmp_path: Path) -> None:
    arguments = ("learn", log, "--tallies", tmp_path / "t", "--out", tmp_path / "p.json")
    unswayed(*arguments)
    with pytest.raises(InputError, match="from the first log on, in a new folder"):
        unswayed(*arguments, "--max-interactions-per-user", 9)


def test_adding_a_day_twice_is_refused(log: Path, tmp_path: Path) -> None:
    arguments = ("learn", log, "--tallies", tmp_path / "t", "--out", tmp_path / "p.json")
    unswayed(*arguments)
    with pytest.raises(InputError, match="count twice"):
        unswayed(*arguments)


def test_a_cap_is_told(log: Path, tmp_path: Path, capsys: Any) -> None:
    unswayed(
        *("learn", log, "--max-interactions-per-user", 10, "--out", tmp_path / "p.json", "--json")
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary["most_interactions"] == 10
    assert "had more than 10 interactions" in summary["notes"][0]


def test_actions_without_support_are_refused_unless_they_are_allowed(
    rng: np.random.Generator, tmp_path: Path, capsys: Any
) -> None:
    table = café_log(rng)
    is_missing = np.logical_and(
        table["context"].to_numpy() == "home", table["action"].to_numpy() == "water"
    )
    path = tmp_path / "log.parquet"
    pq.write_table(table.filter(pa.array(~is_missing)), path)
    arguments = ("learn", path, "--out", tmp_path / "p.json", "--json")
    with pytest.raises(InputError, match="'water' was never played in context 'home'"):
        unswayed(*arguments)
    unswayed(*arguments, "--allow-unplayed")
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("means come out too large" in note for note in notes)
    policy = Policy.load(tmp_path / "p.json")
    assert policy.decide("home").action == "tea"


def column(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """Return a change of one column to a constant, or to what a function makes of its length."""

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
    "an unknown method": (nothing, ["--method", "magic"], "unknown method 'magic'"),
    "an unknown design": (nothing, ["--design", "magic"], "--design is"),
    "an unknown format": (nothing, ["--format", "xlsx"], "--format is"),
    "bins of a column that is no context": (nothing, ["--context-bins", "price:3"], "'price'"),
    "a bad choice for bad rows": (nothing, ["--on-bad-rows", "keep"], "on-bad-rows is"),
    "a query on a file": (nothing, ["--query", "SELECT 1"], "--query needs"),
    "a query on a cluster": (nothing, ["--engine", "dask", "--query", "SELECT 1"],
                             "write it to Parquet files"),
    "a cap of nothing": (nothing, ["--max-interactions-per-user", "0"], "at least one a user"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSOUND)
def test_what_cannot_be_learned_from_is_refused_with_a_sentence_that_helps(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    change, arguments, sentence = UNSOUND[name]
    path, out = tmp_path / "log.parquet", tmp_path / "policy.json"
    pq.write_table(change(café_log(rng)), path)
    with pytest.raises(InputError) as caught:
        unswayed("learn", path, "--out", out, *arguments)
    assert sentence in caught.value.on_command_line
    assert not out.exists()


def test_a_million_contexts_with_few_visits_are_refused(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    n = 1_500_000
    path = tmp_path / "log.parquet"
    pq.write_table(
        pa.table(
            {
                "user": rng.integers(50_000, size=n),
                "context": rng.integers(1_000_000, size=n),
                "action": rng.integers(3, size=n),
                "reward": rng.random(n),
            }
        ),
        path,
    )
    with pytest.raises(InputError, match="coarser contexts"):
        unswayed("learn", path, "--out", tmp_path / "policy.json")


def test_the_real_command_ends_with_code_2_and_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "broken.csv"
    path.write_text("user,context,action,reward\nann,home,tea,1\nann,home\n")
    result = subprocess.run(
        [Path(sys.executable).with_name("unswayed"), "learn", path],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert result.returncode == 2
    assert "broken line" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_attacks_on_decisions_are_had_from_the_command_line(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every decision gets the share that changed it; without attacks the default has none."""
    out = tmp_path / "policy.json"
    for certify, is_attacked in (("bounds", False), ("attack", True)):
        unswayed("learn", log, "--out", out, "--certify", certify, "--json")
        rows = json.loads(capsys.readouterr().out)["decisions"]
        shares = {row["context"]: row["falls_to"] for row in rows}
        assert set(shares) == set(BEST)
        assert Policy.load(out).flip_fraction is None
        for share in shares.values():
            # Liars are a tenth already; to turn a lead of .7 takes a good part of the others.
            assert (share is not None and 0.05 < share <= 0.5) if is_attacked else share is None
    unswayed("learn", log, "--out", out, "--certify", "attack")
    assert "falls to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--certify", "maybe"], "choose one of none, bounds, attack"),
        (["--certify", "attack", "--engine", "dask"], "--engine local"),
    ],
)
def test_attacks_that_cannot_be_had_are_refused_in_a_sentence(
    log: Path, tmp_path: Path, arguments: list[str], says: str
) -> None:
    out = tmp_path / "policy.json"
    with pytest.raises(InputError) as caught:
        unswayed("learn", log, "--out", out, *arguments)
    assert says in caught.value.on_command_line
    assert not out.exists()


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


def test_forgetting_is_said_and_bad_times_get_a_sentence(
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
        (("--half-life", "7d", "--engine", "dask"), "--half-life is for --engine local"),
    ):
        with pytest.raises(InputError) as caught:
            unswayed("learn", log, "--out", out, *arguments)
        assert said in caught.value.on_command_line
    assert not out.exists()


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
