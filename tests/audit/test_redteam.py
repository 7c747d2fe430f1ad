"""Red-team tests: coalitions injected into a log, through `unswayed audit --inject`."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unswayed
from tests.cli.shop import unswayed as run

SHARES = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4]


def _log(rng: np.random.Generator, *, clicks: float = 0.25, n_bots: int = 0) -> pa.Table:
    users = np.repeat(np.arange(600), 20)
    items = rng.integers(4, size=len(users))
    rewards = (rng.random(len(users)) < clicks).astype(float)
    rewards[(users < n_bots) & (items == 2)] = 1.0
    return pa.table({"user": users, "action": items, "reward": rewards})


def test_the_share_from_which_a_push_is_detected_is_reported(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, report = tmp_path / "log.parquet", tmp_path / "report.html"
    pq.write_table(_log(rng), log)
    options = ["--regime", "server", "--inject", "push:0.15", "--target", "1", "--out", report]
    run("audit", log, *options, "--json")
    told = json.loads(capsys.readouterr().out)
    # Injected accounts are not part of the audit itself.
    assert told["verdict"] != "attacked"
    team = told["red_team"]
    assert (team["kind"], team["target"], team["accounts"]) == ("push", "1", 600)
    assert [row["share"] for row in team["sizes"]] == SHARES
    none, *others = team["sizes"]
    assert (none["accounts"], none["detected"], none["naive_shift"]) == (0, None, 0.0)
    for row in others:
        assert row["accounts"] == round(row["share"] / (1.0 - row["share"]) * 600)
        # Members report 1 where the mean was 0.25, so it moves by 0.75 times their share.
        assert row["naive_shift"] == pytest.approx(0.75 * row["share"], abs=0.03)
        if row["attacked"]:
            assert abs(row["robust_shift"]) < row["naive_shift"] / 2
            assert row["detected"] > 0.5
            assert row["false_positives"] < 0.1
    start = team["found_from"]
    assert start <= 0.2
    assert all(row["attacked"] for row in others if row["share"] >= start)
    assert not team["sizes"][SHARES.index(start) - 1]["attacked"]
    finds = f"The audit finds this attack from {start:.0%} of the accounts on."
    assert team["statement"].startswith(finds)
    page = html.unescape(re.sub(r"<[^>]+>", " ", report.read_text(encoding="utf-8")))
    assert page.index("attacked?") < page.index(team["statement"])
    run("audit", log, *options)
    printed = capsys.readouterr().out
    assert printed.index("attacked?") < printed.index(team["statement"])
    assert re.search(r"40%.*400.*attacked", printed)


def test_lies_are_the_best_or_the_worst_reward_and_large_logs_are_sampled(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unswayed.audit.comparing.MOST_ACCOUNTS", 500)
    log = _log(rng, clicks=0.004)
    rare = unswayed.audit_log(log, inject="quiet:0.4", target=1, regime="server")
    assert rare.red_team is not None
    assert rare.red_team.accounts == 500
    # A third of the plays of two fifths of the accounts.
    assert rare.red_team.sizes[-1]["naive_shift"] == pytest.approx(0.4 / 3, abs=0.02)
    usual = unswayed.audit_log(_log(rng), inject="nuke:0.05", target=1, regime="server")
    assert usual.red_team is not None
    assert usual.red_team.sizes[-1]["naive_shift"] == pytest.approx(-0.25 * 0.4, abs=0.02)
    # Verdicts that do not increase with the share are reported unchanged.
    none, *_, last = ({**row, "attacked": False} for row in usual.red_team.sizes)
    missed = replace(usual.red_team, sizes=[none, last])
    assert missed.statement == "The audit finds this attack at no share up to 40%."
    odd = replace(missed, sizes=[none, {**last, "share": 0.2, "attacked": True}, last])
    assert odd.found_from is None
    assert odd.statement == "The audit finds this attack at 20%, but not at larger shares."


def test_an_attacked_log_is_reported_as_attacked(rng: np.random.Generator) -> None:
    found = unswayed.audit_log(_log(rng, n_bots=120), inject="push:0.1", target=1, regime="server")
    assert found.verdict == "attacked"
    assert found.red_team is not None
    assert found.red_team.found_from is None
    assert "attacked even without injected accounts" in found.red_team.statement
