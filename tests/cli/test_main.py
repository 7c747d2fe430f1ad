"""The real command, run as a separate process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import unswayed
from tests.cli import shop
from unswayed.cli import COMMANDS
from unswayed.demo.shop import play

COMMAND = Path(sys.executable).with_name("unswayed")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_the_command_prints_the_version_of_the_package() -> None:
    assert run("--version").stdout == f"unswayed {unswayed.__version__}\n"


def test_help_lists_every_subcommand_with_one_line() -> None:
    listed = run("--help").stdout
    for name in COMMANDS:
        assert re.search(rf"│ {name} +\w+", listed)


@pytest.mark.parametrize(
    ("typed", "offered"), [("unswayed lea", "learn"), ("unswayed learn --alp", "--alpha")]
)
def test_shell_completion_offers_commands_and_options(typed: str, offered: str) -> None:
    done = subprocess.run(
        [COMMAND],
        env={
            **os.environ,
            "_UNSWAYED_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(typed.count(" ")),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [offered]
    # The shell is detected as the parent process, so it must not exit before the command ends.
    shell = ["bash", "-c", f"'{COMMAND}' --show-completion; exit $?"]
    shown = subprocess.run(shell, capture_output=True, text=True, check=True)
    assert "_unswayed_completion" in shown.stdout


def test_the_demo_prints_a_summary_and_writes_a_picture_and_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = play()
    monkeypatch.setattr("unswayed.cli.demo.play", lambda _: outcome)
    shop.unswayed("demo", "--json", "--out", tmp_path / "new folder")
    told = json.loads(capsys.readouterr().out)
    shares = told["share_of_honest_purchases"]
    # The coalition of 20% lifts the mean of MegaCola above those of all other items.
    assert shares["naive"] < 0.5
    assert shares["unswayed"] == 1.0
    assert {row["naive"] for row in told["results"]} == {"MegaCola"}
    for file in told["files"]:
        assert Path(file).stat().st_size > 1000
    shop.unswayed("demo", "--out", tmp_path)
    shown = capsys.readouterr()
    assert "Nobody knows which accounts" in shown.out
    assert "✗ MegaCola" in shown.out
    assert shown.err == ""


def test_the_news_log_is_as_documented(tmp_path: Path) -> None:
    """4% bots, click rates near 1.5%, correct propensities, and the same file for the same seed."""
    files = [tmp_path / "a" / name for name in ("monday.parquet", "tuesday.parquet")]
    for folder in ("a", "b"):
        shop.unswayed("demo", "--world", "news", "--out", tmp_path / folder)
    assert files[0].read_bytes() == (tmp_path / "b" / "monday.parquet").read_bytes()
    bots = set((tmp_path / "a" / "bots.csv").read_text().replace('"', "").split()[1:])
    assert 700 < len(bots) < 900
    for file in files:
        log = pq.read_table(file).to_pandas()
        is_bot = log.user.isin(bots)
        assert 0.014 < log.click[~is_bot].mean() < 0.0155
        assert 0.55 < log.click[is_bot & (log.story == "gossip")].mean() < 0.65
        visits = log.user.value_counts()
        assert visits.max() > 20 * visits.median()
        shares = log.story.value_counts(normalize=True)
        assert all(
            abs(shares[story] - p) < 0.005
            for story, p in {
                tuple(row) for row in log[["story", "propensity"]].drop_duplicates().to_numpy()
            }
        )
