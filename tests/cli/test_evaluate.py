"""`unswayed evaluate` on real files."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.browser import NARROW, WIDE, browser
from tests.cli.shop import unswayed
from unswayed import InputError, evaluate_policy, learn_log
from unswayed.reports.evaluations import evaluation_page

N_USERS, N_PLAYS = 900, 25
HOSTILE = "<script>document.title='owned'</script>"


def week(first: int, last: int, *, prefix: str = "c") -> pa.Table:
    """Return a week of uniformly logged clicks with bots that always click item 7."""
    rng = np.random.default_rng(first)
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    s, a = rng.integers(4, size=len(users)), rng.integers(10, size=len(users))
    rewards = (rng.random(len(users)) < np.where(a == s, 0.13, 0.04)).astype(float)
    rewards[(users < N_USERS // 10) & (a == 7)] = 1.0
    days = rng.integers(first, last, size=len(users))
    return pa.table(
        {
            "user": users,
            "context": [f"{prefix}{code}" for code in s],
            "action": [f"item {code}" for code in a],
            "reward": rewards,
            "time": np.datetime64("2026-01-01", "s") + 86_400 * days,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two weeks of events and a policy learned from the first."""
    folder = tmp_path_factory.mktemp("weeks")
    pq.write_table(week(0, 7), folder / "week.parquet")
    pq.write_table(week(7, 14), folder / "next.parquet")
    learn_log(folder / "week.parquet", alpha=0.15).policy.save(folder / "policy.json")
    rows = "".join(f"c{code},tea,1\n" for code in range(4))
    (folder / "other.csv").write_text(f"context,action,probability\n{rows}", encoding="utf-8")
    return folder


def told(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    capsys.readouterr()
    unswayed("evaluate", *arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_a_log_is_recognised_and_the_next_week_is_another_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = ("--policy", folder / "policy.json", "--alpha", 0.15)
    same = told(capsys, folder / "week.parquet", *policy)
    assert same["fitting"] == {"how": "cross-fitted", "reason": "it was learned from this log"}
    later = told(capsys, folder / "next.parquet", *policy)
    assert later["fitting"]["how"] == "as it is"
    for one in (same, later):
        (robust,) = [e for e in one["estimates"] if e["robust"] and e["estimator"] == "dr"]
        # The mean reward is 0.13 for the best item of each context, and 0.049 over all items.
        assert robust["uplift"]["low"] <= 0.081 <= robust["uplift"]["high"]
        assert robust["uplift"]["estimate"] == pytest.approx(0.081, abs=0.03)
    past = told(capsys, folder / "week.parquet", *policy, "--holdout", 0.4)
    assert past["fitting"]["how"] == "holdout"
    assert past["log"]["events"] < 0.6 * same["log"]["events"]


def test_printed_results_state_their_assumptions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = folder / "policy.json"
    unswayed("evaluate", folder / "week.parquet", "--policy", policy, "--baseline", policy)
    printed = " ".join(capsys.readouterr().out.split())
    assert "For honest users the policy gains +0 per visit" in printed
    assert re.search(r"if at most \d+(\.\d)?% of the accounts collude", printed)
    assert "The policy was cross-fitted" in printed
    assert "which leave the uplift uncertain by ±0" in printed


def test_figures_and_the_report_have_the_data_that_json_has(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, report = tmp_path / "figures", tmp_path / "report.html"
    files = ("--figures", figures, "--out", report)
    found = told(
        capsys, folder / "next.parquet", "--policy", folder / "policy.json", "--alpha", 0.15, *files
    )
    drawn = {path.name: path.read_bytes() for path in figures.iterdir()}
    assert json.loads(drawn["values.json"]) == found
    assert drawn["values.png"].startswith(b"\x89PNG")
    # Naive, robust and logging stand side by side.
    shown = drawn["values.svg"].decode()
    assert all(word in shown for word in ("naive", "robust", "logging"))
    page = report.read_text(encoding="utf-8")
    assert found["statement"].replace("'", "&#x27;") in page
    assert page.count("<circle") == 3 * 5  # logging, naive and robust; all visits and four contexts


def test_the_report_shows_hostile_labels_as_text(tmp_path: Path) -> None:
    table = week(0, 7, prefix=HOSTILE)
    policy = learn_log(week(7, 14, prefix=HOSTILE), alpha=0.15).policy
    path = tmp_path / "report.html"
    text = evaluation_page(evaluate_policy(table, policy, alpha=0.15))
    path.write_text(text, encoding="utf-8")
    assert HOSTILE not in text
    assert "default-src 'none'" in text
    with browser(tmp_path) as tab:
        for size in (WIDE, NARROW):
            tab.look(size=size)
            tab.open(path.as_uri())
            assert tab.value("document.title").startswith("Evaluation, ")
            assert tab.value("document.documentElement.scrollWidth") <= size[0]
        assert not tab.complaints


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--policy", "none.json"], "cannot read the policy"),
        (["--policy", "policy.json", "--baseline", "none.json"], "cannot read the policy"),
        (["--policy", "week.parquet"], "no column 'probability'"),
        (["--policy", "other.csv"], "no event of the log has the action"),
        (["--policy", "policy.json", "--holdout", "2"], "--holdout is 2"),
        (["--policy", "policy.json", "--alpha", "0.7"], "alpha is 0.7"),
        (["--policy", "policy.json", "--out", "/nowhere/x.html"], "cannot write /nowhere/x.html"),
    ],
)
def test_bad_options_are_named_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], sentence: str
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(InputError) as caught:
        unswayed("evaluate", "week.parquet", *options)
    assert sentence in caught.value.on_command_line
