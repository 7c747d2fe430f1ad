"""Damaged and empty files, and files with false metadata, are refused in one helpful sentence."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.events.logs import random_log
from unswayed.errors import InputError
from unswayed.events import read_events

HEADER = "user,context,action,reward\n"


@pytest.fixture
def parquet(rng: np.random.Generator, tmp_path: Path) -> bytes:
    """Return the bytes of a valid Parquet file."""
    path = tmp_path / "sound.parquet"
    pq.write_table(random_log(rng), path)
    data = path.read_bytes()
    path.unlink()
    return data


def refused(path: Path, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read_events(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        *((name, b"", "empty|cut short|no column") for name in ("a.parquet", "a.csv", "a.jsonl")),
        ("a.csv", HEADER, "has no rows"),
        ("a.csv", HEADER.encode() + b"\xff\xfe,s,a,1\n", "cannot read|broken"),
        ("a.csv", b"\xd9\x00\xff", "not text in UTF-8"),
        ("a.csv.gz", HEADER + "u,s,a,1\n", "cannot read"),
        ("a.parquet", HEADER + "u,s,a,1\n", "not what its name says"),
        ("a.xlsx", b"PK", "cannot be recognised by its name"),
    ],
)
def test_a_file_that_is_not_a_log_is_refused(
    name: str, content: bytes | str, reason: str, tmp_path: Path
) -> None:
    refused(written(tmp_path / name, content), reason)


def test_a_parquet_file_without_rows_is_refused(rng: np.random.Generator, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(random_log(rng).slice(0, 0), path)
    refused(path, "has no rows")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_parquet_file_is_refused(share: float, parquet: bytes, tmp_path: Path) -> None:
    refused(written(tmp_path / "a.parquet", parquet[: int(len(parquet) * share)]), "cut short")


def test_a_footer_that_claims_two_gigabytes_is_refused(parquet: bytes, tmp_path: Path) -> None:
    lie = parquet[:-8] + struct.pack("<I", 0x7FFFFFFF) + b"PAR1"
    refused(written(tmp_path / "a.parquet", lie), "damaged")


def test_a_header_that_claims_ten_billion_rows_is_refused(parquet: bytes, tmp_path: Path) -> None:
    """The number of rows in the footer is forged; nothing of that size may be allocated."""
    (size,) = struct.unpack("<I", parquet[-8:-4])
    footer = parquet[-8 - size : -8]
    honest, lie = _thrift_i64(400), _thrift_i64(10_000_000_000)
    assert (
        footer.count(honest) >= 2
    )  # numbers of rows of the file and of the row group, and numbers of values of the columns
    footer = footer.replace(honest, lie)
    data = parquet[: -8 - size] + footer + struct.pack("<I", len(footer)) + b"PAR1"
    refused(written(tmp_path / "a.parquet", data), "damaged|larger than it can be")


def _thrift_i64(value: int) -> bytes:
    """Return an i64 field in Thrift's compact protocol: field header and zigzag varint."""
    value, out = value << 1, b"\x16"
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def test_a_truncated_gzip(tmp_path: Path) -> None:
    rows = "".join(f"u{i},s,a,{i % 7}\n" for i in range(5_000))
    packed = gzip.compress((HEADER + rows).encode())
    refused(written(tmp_path / "a.csv.gz", packed[: len(packed) // 2]), "cannot read|cut short")


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_repeated_column_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    names = ["user", "context", "action", "reward", "user"]
    match kind:
        case "csv":
            written(path, ",".join(names) + "\nu,s,a,1,v\n")
        case "jsonl":
            written(path, '{"user": "u", "context": 1, "action": 1, "reward": 1, "user": "v"}\n')
        case _:
            pq.write_table(pa.Table.from_arrays([pa.array([1])] * 5, names=names), path)
    refused(path, "'user' more than once")


def test_rewards_that_are_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = {"user": ["u"], "context": ["s"], "action": ["a"], "reward": ["good"]}
    pq.write_table(pa.table(table), path)
    with pytest.raises(InputError, match="column 'reward' holds text, and the reward"):
        read_events(path)


@pytest.mark.parametrize("column", ["user", "context", "action", "reward"])
def test_a_column_of_lists_is_refused(column: str) -> None:
    table = {"user": ["u"], "context": ["s"], "action": ["a"], "reward": [1.0], column: [[1, 2]]}
    with pytest.raises(InputError, match=f"column '{column}' holds"):
        read_events(pa.table(table))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere.parquet", "there is no file")
    refused(tmp_path, "holds no files")
    refused(tmp_path / "*.parquet", "no file matches")


def test_a_folder_of_several_formats_is_refused(parquet: bytes, tmp_path: Path) -> None:
    written(tmp_path / "a.parquet", parquet)
    written(tmp_path / "a.csv", HEADER)
    refused(tmp_path, "several formats")


def test_a_number_is_rejected_as_a_log() -> None:
    with pytest.raises(InputError, match="a log is a path"):
        read_events(42)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
def test_damaged_compressed_files_are_refused_in_one_sentence(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    lines = [HEADER.encode()] if name.startswith("a.csv") else []
    for number in range(200):
        row = (f"u{number % 9}", f"s{number % 3}", f"a{number % 2}", number % 7)
        keys = HEADER.strip().split(",")
        text = ",".join(map(str, row)) if lines else str(dict(zip(keys, row, strict=True)))
        lines.append(text.replace("'", '"').encode() + b"\n")
    sound = gzip.compress(b"".join(lines))
    n_refused = 0
    for _ in range(60):
        damaged = bytearray(sound)
        for place in rng.integers(len(sound), size=rng.integers(1, 5)):
            damaged[place] = rng.integers(256)
        try:
            read_events(written(tmp_path / name, bytes(damaged)))
        except InputError as error:
            n_refused += "\n" not in str(error)
    assert n_refused > 30


@pytest.mark.parametrize("length", [1 << 18, 1 << 21])
def test_a_csv_header_may_have_long_fields(length: int, tmp_path: Path) -> None:
    header = "user,context,action,reward," + "x" * length + "\n"
    refused(written(tmp_path / "a.csv", header + "u,s,a,1,2\n"), "first line")


def test_the_name_of_the_temporary_folder_may_contain_a_quote(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "it's"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert len(read_events(random_log(rng)).events) == 400
