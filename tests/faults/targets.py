"""Fuzz targets: each takes bytes, and either succeeds or raises an ``InputError``.

Any other exception is a finding. Targets write to one file of their own folder, so each process
needs its own.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from unswayed import RobustMCB
from unswayed.errors import InputError
from unswayed.events import parsed_label, read_contexts, read_events
from unswayed.events.columns import check_bad_rows
from unswayed.events.sources import csv_header, find_files, named_columns
from unswayed.events.thinning import parsed_half_life
from unswayed.policy import Policy
from unswayed.tallies import tally_events
from unswayed.tallies.store import add_log, load_index, load_tallies
from unswayed.visible import escaped, visible


@dataclass(frozen=True, slots=True)
class Target:
    """One fuzz target: a function of bytes, seed inputs, and dictionary words."""

    run: Callable[[Path, bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    words: tuple[str, ...] = field(default=())


def small_log() -> pa.Table:
    """Return a log of a hundred rows."""
    rng = np.random.default_rng(0)
    users, contexts, actions = rng.integers([20, 3, 2], size=(100, 3)).T
    return pa.table(
        {
            "user": [f"u{code}" for code in users],
            "context": [f"s{code}" for code in contexts],
            "action": [f"a{code}" for code in actions],
            "reward": rng.random(100),
        }
    )


def as_csv(table: pa.Table) -> bytes:
    """Return a table as CSV."""
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    """Return a table as Parquet."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def as_json_lines(table: pa.Table) -> bytes:
    """Return a table as JSON lines."""
    return "\n".join(json.dumps(row) for row in table.to_pylist()).encode()


def refused(work: Callable[[], Any]) -> Any:
    """Return the result of a call, or None if it was refused in one printable sentence."""
    try:
        return work()
    except InputError as error:
        sentence = visible(str(error), most=2_000)
        if escaped(sentence) != sentence:
            raise AssertionError(f"not a sentence: {sentence!r}") from error
        return None


def reader(name: str) -> Callable[[Path, bytes], None]:
    """Return a target that reads a log of one format, refusing or dropping bad rows."""

    def run(folder: Path, data: bytes) -> None:
        path = folder / name
        path.write_bytes(data)
        choice = "drop" if len(data) % 2 else "error"
        reading = refused(lambda: read_events(path, on_bad_rows=choice))
        if reading is not None:
            tally_events(reading.events)
        if len(data) % 4 == 0:
            refused(lambda: read_contexts(path, columns=["context"], bins={}))

    return run


def run_header(folder: Path, data: bytes) -> None:
    """Read the first line of a text table, plain and compressed, and of JSON lines."""
    name = ("a.csv", "a.tsv", "a.csv.gz", "a.jsonl", "a.parquet")[len(data) % 5]
    (folder / name).write_bytes(data)
    files = find_files(str(folder / name))
    refused(lambda: csv_header(files))
    refused(lambda: named_columns(files))


def run_policy(folder: Path, data: bytes) -> None:
    """Load a policy; one that is accepted must decide, and survive a round trip."""
    path = folder / "policy.json"
    path.write_bytes(data)
    policy = refused(lambda: Policy.load(path))
    if policy is None:
        return
    value = policy.to_json()
    for context in policy.context_labels:
        policy.decide(context)
    if Policy.from_json(json.loads(json.dumps(value))).to_json() != value:
        raise AssertionError("another policy came back")


def run_index(folder: Path, data: bytes) -> None:
    """Load the index of a folder of tallies, and the files that it names."""
    (folder / "tallies.json").write_bytes(data)
    if refused(lambda: load_index(folder)) is not None:
        refused(lambda: load_tallies(folder))


def run_piece(folder: Path, data: bytes) -> None:
    """Load tallies with arbitrary entries."""
    if not (folder / "tallies.json").exists():
        add_log(folder, None, tally_events(read_events(small_log()).events), {})
    (entries,) = folder.glob("entries-*")
    entries.write_bytes(data)
    refused(lambda: load_tallies(folder))


def run_texts(_: Path, data: bytes) -> None:
    """Parse every kind of option text."""
    text = data.decode("utf-8", "surrogateescape")
    for parse in (check_bad_rows, parsed_half_life):
        refused(lambda parse=parse: parse(text))  # type: ignore[misc]
    for kind in ("integer", "number", "boolean", "string"):
        parsed_label(text, kind)
    visible(text, most=50).encode()


def run_online(_: Path, data: bytes) -> None:
    """Send any sequence of requests; afterwards the learner must act like an untouched one."""
    secret = bytes(16)
    learner = RobustMCB(0.1, actions=["tea", "milk"], contexts=["home"], secret=secret)
    stream = iter(data)

    def number() -> int:
        return next(stream, 0)

    def label() -> Any:
        kinds: tuple[Any, ...] = ("home", None, 7, 1.5, b"x", "\ud800", 2**70, True, ("t",))
        choice = number()
        return kinds[choice % 16] if choice % 16 < len(kinds) else f"label-{choice}"

    def reward() -> Any:
        return (1.0, 0, -2.5, float("nan"), float("inf"), None, "x", 1e300, 10**400)[number() % 9]

    for _turn in range(len(data) // 3):
        match number() % 4:
            case 0:
                refused(lambda: learner.decide(label(), label()))
            case 1:
                refused(lambda: learner.observe(label(), label(), label(), reward()))
            case 2:
                refused(lambda: learner.decide_many([label(), label()], [label(), label()]))
            case 3:
                refused(lambda: learner.observe("ann", "home", learner.decide("ann", "home"), 1.0))
    if learner._users._type is int:
        return
    users = [f"fresh-{code}" for code in range(5)]
    fresh = RobustMCB(0.1, actions=["tea", "milk"], contexts=["home"], secret=secret)
    if learner.decide_many(users, ["home"] * 5) != fresh.decide_many(users, ["home"] * 5):
        raise AssertionError("other actions than an untouched learner")


def sound_policies() -> list[bytes]:
    """Return valid policies as JSON."""
    from tests.policy.test_damaged_policies import sound

    value = sound()
    return [json.dumps(value).encode(), json.dumps({**value, "flip_fraction": None}).encode()]


def sound_index() -> list[bytes]:
    """Return a valid index of a folder of tallies."""
    index = {
        "format": "unswayed-tallies",
        "version": 3,
        "piece": "000001-x",
        "contexts": ["home"],
        "actions": ["tea", "milk"],
        "events": 1,
        "logs": [{"source": "monday", "digest": "x"}],
    }
    return [json.dumps(index).encode()]


def sound_piece() -> list[bytes]:
    """Return valid entries of a tallies file."""
    tallies = tally_events(read_events(small_log()).events)
    columns = {"cells": tallies.cells, "counts": tallies.counts, "sums": tallies.sums}
    return [as_parquet(pa.table({**columns, "squares": tallies.squares}))]


def random_bytes() -> list[bytes]:
    """Return some sequences of requests."""
    rng = np.random.default_rng(0)
    return [rng.bytes(60) for _ in range(8)]


_HEADER_WORDS = ("user", "context", "action", "reward", "propensity", "time")

TARGETS: dict[str, Target] = {
    "policy": Target(
        run_policy,
        sound_policies,
        ("mean_rewards", "actions", "null", "1e999", "NaN", "\\\\ud800", "flip_fraction"),
    ),
    "index": Target(run_index, sound_index),
    "online": Target(run_online, random_bytes),
    "texts": Target(run_texts, lambda: [b"7d", b"drop", b"1.5 h", b"-1.5e3"]),
    "header": Target(
        run_header, lambda: [as_csv(small_log()), gzip.compress(as_csv(small_log()))], _HEADER_WORDS
    ),
    "csv": Target(reader("a.csv"), lambda: [as_csv(small_log())], _HEADER_WORDS),
    "csv.gz": Target(
        reader("a.csv.gz"), lambda: [gzip.compress(as_csv(small_log()))], _HEADER_WORDS
    ),
    "jsonl": Target(reader("a.jsonl"), lambda: [as_json_lines(small_log())], _HEADER_WORDS),
    "parquet": Target(reader("a.parquet"), lambda: [as_parquet(small_log())], _HEADER_WORDS),
    "piece": Target(run_piece, sound_piece),
}
