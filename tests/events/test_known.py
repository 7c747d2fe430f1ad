"""The file of reviewed accounts: contents and errors."""

import datetime as dt
from pathlib import Path

import pytest

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.events.known import read_known


def _written(folder: Path, text: str) -> Path:
    path = folder / "known.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_last_review_of_an_account_counts_until_the_end_of_its_day(tmp_path: Path) -> None:
    path = _written(
        tmp_path, "user,status,date\n7,honest,2026-11-18\n7,fake,2026-11-17\n8,fake,\n99,honest,\n"
    )
    is_fake, honest_until = read_known(path).of(Labels.of([8, 7, 6]))
    end = dt.datetime(2026, 11, 19, tzinfo=dt.UTC).timestamp()
    assert is_fake.tolist() == [True, False, False]
    assert honest_until.tolist() == [-float("inf"), end, -float("inf")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,status\na,fake\n", "need user and status"),
        ("user,status\na,spam\n", "line 2: status is honest or fake, not 'spam'"),
        ("user,status\n,fake\n", "line 2: user is empty"),
        ("user,status,date\na,fake,yesterday\n", "line 2: date is 'yesterday'"),
        ("", "has the columns none"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_known(_written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.csv: No such file or directory\.$"):
        read_known(tmp_path / "gone.csv")
