from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from unswayed.cli.plan import plan
from unswayed.errors import InputError
from unswayed.limits.plan_words import plan_words
from unswayed.limits.planner import plan_traffic

COMMAND = Path(sys.executable).with_name("unswayed")
# Wide, so that messages are not wrapped in the middle of words.
WIDE = {**os.environ, "COLUMNS": "200"}
PLANNED = ("discount", "paper")
GOOD = {"--contexts": "100", "--actions": "20", "--alpha": "0.1", "--epsilon": "0.05"}


def test_the_command_prints_words_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    plan(100, 20, 0.1, 0.05, users=50_000)
    printed = " ".join(capsys.readouterr().out.split())
    expected = plan_traffic(np.full(100, 0.01), 20, 0.1, 0.05, 0.1, methods=PLANNED, n_users=50_000)
    for sentence in plan_words(expected):
        assert sentence in printed
    assert "plays per user" in printed


def test_numbers_that_were_borrowed_are_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    """Constants are fitted for the paper's method only, and the table shows no others."""
    plan(100, 20, 0.1, 0.05)
    printed = " ".join(capsys.readouterr().out.split())
    assert "the policy that method paper learns loses at most 0.05" in printed
    assert (
        "No constants were fitted for method discount: the numbers are those of method paper. With "
        "--verify they are tried on discount." in printed
    )
    assert "method: paper" in printed
    assert "method: discount" not in printed


def test_the_command_prints_the_whole_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    plan(6, 3, 0.2, 0.1, context_probabilities="zipf:1.0", json=True)
    printed = json.loads(capsys.readouterr().out)
    weights = 1 / np.arange(1, 7)
    expected = plan_traffic(weights / weights.sum(), 3, 0.2, 0.1, 0.1, methods=PLANNED)
    assert printed["plan"] == json.loads(json.dumps(asdict(expected)))
    assert printed["verification"] is None


def test_probabilities_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "contexts.txt"
    path.write_text("0.5, 0.3\n0.2\n")
    plan(3, 2, 0.2, 0.1, context_probabilities=str(path), json=True)
    complexity = json.loads(capsys.readouterr().out)["plan"]["complexity"]
    assert complexity == pytest.approx(0.5**0.5 + 0.3**0.5 + (2 * 0.2) ** 0.5)


def test_verifying_says_what_was_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    plan(2, 2, 0.3, 0.25, verify=True, repetitions=1)
    printed = " ".join(capsys.readouterr().out.split())
    assert "the worst attack" in printed
    plan(2, 2, 0.3, 0.25, verify=True, repetitions=1, json=True)
    found = json.loads(capsys.readouterr().out)["verification"]
    assert found["plan"]["n_contexts"] == 2
    assert found["method"] == "discount"
    assert found["trials"][0]["share_within"] <= found["trials"][-1]["share_within"]


@pytest.mark.parametrize("text", ["zipf:x", "zipf:-1", "zipf:inf", "uniform:2", "missing.txt"])
def test_probabilities_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="it must be uniform, zipf:EXPONENT"):
        plan(3, 2, 0.2, 0.1, context_probabilities=text)


@pytest.mark.parametrize(
    ("content", "message"),
    [("0.5 half", "one number for each"), ("0.5 0.5", "2 numbers for 3"), ("1 1 1", "sum to 3")],
)
def test_a_file_that_holds_no_probabilities_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "contexts.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        plan(3, 2, 0.2, 0.1, context_probabilities=str(path))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--epsilon": "0.1"}, "nothing to plan"),
        ({"--epsilon": "0"}, "above 0"),
        ({"--alpha": "0"}, "without a coalition"),
        ({"--alpha": "1"}, "share of the users"),
        ({"--alpha": "0.4"}, "below one third"),
        ({"--delta": "0"}, "failure probability"),
        ({"--contexts": "0"}, "contexts is 0"),
        ({"--contexts": "1000000000"}, "contexts is 1,000,000,000: more than 10,000,000"),
        ({"--actions": "1000000000"}, "more than 1,000,000 are out of reach"),
        ({"--actions": "1"}, "at least 2"),
        ({"--users": "10"}, "users cannot learn"),
        ({"--arrival-ratio": "1"}, "arrival ratio"),
        ({"--context-probabilities": "nonsense"}, "it must be uniform"),
    ],
)
def test_the_real_command_refuses_bad_input_in_one_sentence(
    changes: dict[str, str], words: str
) -> None:
    options = [part for pair in (GOOD | changes).items() for part in pair]
    done = subprocess.run(
        [COMMAND, "plan", *options],
        capture_output=True,
        text=True,
        check=False,
        env=WIDE,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
