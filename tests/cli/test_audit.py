"""`unswayed audit` on real files."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.audit.markets import market
from tests.cli.shop import unswayed
from tests.cli.test_main import run
from unswayed.errors import InputError

N_BOTS = 90


@pytest.fixture(scope="module")
def bots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log with bots that click item 7 and uniform logging by the server."""
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(900), 25)
    s, a = rng.integers(4, size=len(users)), rng.integers(10, size=len(users))
    rewards = (rng.random(len(users)) < np.where(a == s, 0.13, 0.04)).astype(float)
    rewards[(users < N_BOTS) & (a == 7)] = 1.0
    path = tmp_path_factory.mktemp("bots") / "log.parquet"
    table = {
        "user": users,
        "context": [f"c{code}" for code in s],
        "action": [f"item {code}" for code in a],
        "reward": rewards,
    }
    pq.write_table(pa.table(table), path)
    return path


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reviews") / "log.parquet"
    pq.write_table(market(np.random.default_rng(4), n_groups=12, burst=86_400.0).table(), path)
    return path


def test_bots_are_found_with_their_target_and_cost(
    bots: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = tmp_path / "users.parquet"
    unswayed("audit", bots, "--alpha", 0.15, "--users", users, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["attacked"] is True
    assert told["regime"]["name"] == "server"
    assert set(told["share"]) == {"estimate", "low", "high"}
    assert told["share"]["low"] <= told["share"]["estimate"] <= told["share"]["high"]
    assert told["share"]["low"] <= 0.1 <= told["share"]["high"] + 0.05
    top = told["items"][0]
    assert (top["action"], top["direction"]) == ("item 7", "up")
    # A tenth of the accounts report 1 where the mean is 0.04.
    assert top["shift"] == pytest.approx(0.096, abs=0.03)
    assert {"context", "naive", "robust", "cost"} <= set(told["changed"][0])
    assert "item 7" in {change["naive"] for change in told["changed"]}
    assert "item 7" not in {change["robust"] for change in told["changed"]}
    assert told["cost"] > 0.0
    table = pq.read_table(users)
    assert table.column_names[:6] == ["user", "weight", "score", "group", "reason", "interactions"]
    scores = table["score"].to_numpy()
    assert (np.diff(scores) <= 0).all()
    assert table.num_rows == 900
    first = table["user"].to_numpy()[:60]
    assert (first < N_BOTS).mean() > 0.9
    assert "raises 'item 7'" in table["group"].to_pylist()[0]
    assert "plays of 'item 7'" in table["reason"].to_pylist()[0]


def test_reviews_without_a_context_are_audited_by_lockstep(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = tmp_path / "users.csv"
    unswayed("audit", reviews, "--users", users, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["attacked"] is True
    assert told["regime"]["name"] == "users"
    assert told["groups"][0]["timeline"] is not None
    assert told["groups"][0]["seen"] > 10 * told["groups"][0]["expected"]
    lines = users.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"user","weight","score","group","reason","interactions"')
    # Paid accounts come after the 1,500 honest ones.
    top = [int(line.split(",")[0].strip('"').removeprefix("user ")) for line in lines[1:101]]
    assert np.mean(np.array(top) >= 1_500) > 0.95


def test_the_regime_can_be_stated(reviews: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unswayed("audit", reviews, "--regime", "users", "--json")
    assert json.loads(capsys.readouterr().out)["regime"]["reason"] == "as stated"


def test_limits_end_in_exit_code_three(reviews: Path) -> None:
    passed = run("audit", str(reviews), "--fail-share", "0.5")
    assert passed.returncode == 0, passed.stderr
    failed = run("audit", str(reviews), "--fail-share", "0.02", "--fail-shift", "0.5")
    assert failed.returncode == 3, failed.stderr
    assert "Alarm: at least" in failed.stdout
    assert "It takes at least 20 accounts" in " ".join(failed.stdout.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--regime", "bots"], "--regime is auto, server or users"),
        (["--fail-share", "7"], "--fail-share is 7"),
        (["--inject", "push"], "--inject is 'push': write KIND:SHARE, such as push:0.1"),
        (["--inject", "push:0.6"], "a share of all accounts above 0 and at most 0.45"),
        (["--inject", "shout:0.1", "--target", "item 7"], "with a kind of push, nuke, quiet"),
        (["--inject", "push:0.1"], "--inject needs --target"),
        (["--inject", "push:0.1", "--target", "tea"], "--target 'tea' is no action of the log"),
        (["--target", "item 7"], "--target requires --inject"),
        (["--alpha", "0.7"], "alpha is 0.7"),
        (["--users", "users.txt"], "cannot write a table to users.txt"),
        (["--out", "/nowhere/report.html"], "cannot write /nowhere/report.html"),
        (["--context-column", "place"], "no column 'place' for the context"),
        (["--user-column", "who"], "no column 'who' for the user"),
    ],
)
def test_bad_options_are_named_in_one_sentence(
    bots: Path, options: list[str], sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        unswayed("audit", bots, *options)
    assert sentence in caught.value.on_command_line


def test_one_user_or_equal_rewards_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,action,reward\na,x,1\na,y,0\n", encoding="utf-8")
    with pytest.raises(InputError, match="the log has one user"):
        unswayed("audit", path)
    path.write_text("user,action,reward\na,x,1\nb,y,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="rewards are 1 everywhere"):
        unswayed("audit", path)
    path.write_text("user,action,reward\na,x,1\nb,x,0\n", encoding="utf-8")
    with pytest.raises(InputError, match="there is 1 action"):
        unswayed("audit", path)


def test_cases_go_out_and_reviews_come_back(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Accounts reviewed as honest are left out of the next list of cases, in CSV or JSON."""
    unswayed("audit", reviews, "--cases", tmp_path / "cases.json")
    cases = json.loads((tmp_path / "cases.json").read_text(encoding="utf-8"))
    assert all(case["case"].startswith("case-") and case["reason"] for case in cases)
    known = tmp_path / "known.csv"
    known.write_text(f"user,status,date\n{cases[0]['user']},honest,\n", encoding="utf-8")
    table = tmp_path / "cases.csv"
    capsys.readouterr()
    unswayed("audit", reviews, "--cases", table, "--known", known, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "attacked"
    assert f'"{cases[0]["user"]}"' not in table.read_text(encoding="utf-8")
    assert f'"{cases[1]["user"]}"' in table.read_text(encoding="utf-8")
