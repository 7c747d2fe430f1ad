"""Users are coded in the order of a hash of their labels, however a log is read."""

import hashlib
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from unswayed.events import Labels, read_events, reading
from unswayed.events.hashing import USER_HASH, user_hashes


@pytest.mark.parametrize("n", [10, 6_000])
def test_hashes_of_few_and_of_many_users_equal_md5_of_the_standard_library(
    rng: np.random.Generator, n: int
) -> None:
    alphabet = np.array(list("abcXYZ019-_ äß中😀"))
    texts = ["".join(rng.choice(alphabet, size=k % 70)) + f"#{k}" for k in range(n)]
    expected = [hashlib.md5(text.encode()).digest()[8:] for text in texts]
    found = user_hashes(Labels.of(texts))
    assert found.tolist() == [int.from_bytes(half, "little") for half in expected]


@pytest.mark.parametrize("kind", [str, int, float, lambda code: code % 2 == 0])
def test_users_are_found_again_in_later_batches(
    kind: Callable[[int], object], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log is read in batches of rows; codes of users are the same in all batches."""
    monkeypatch.setattr(reading, "_BATCH", 2_048)  # minimum number of rows that DuckDB returns
    users: list[Any] = [kind(code) for code in rng.integers(3_000, size=20_000).tolist()]
    n = len(users)
    table = pa.table({"user": users, "context": [0] * n, "action": [0] * n, "reward": np.arange(n)})
    events = read_events(table).events
    labels = list(events.user_labels)
    assert sorted(labels) == sorted(set(users))
    order = np.argsort(events.rewards)
    assert [labels[code] for code in events.users[order]] == users


def test_positive_and_negative_zero_are_one_user() -> None:
    table = pa.table({"user": [-0.0, 0.0], "context": [0, 0], "action": [0, 1], "reward": [0, 1]})
    assert str(list(read_events(table).events.user_labels)) == "[0.0]"


@pytest.mark.parametrize(
    "users", [["ann", "", "bob"], [3, -7, 2**62], [0.5, 1e300, -2.0], [True, False], []]
)
def test_hashes_of_users_of_every_type_equal_those_of_sql(users: list[object]) -> None:
    """A cluster divides users into blocks in SQL; the blocks must be the same."""
    expected = [
        duckdb.execute(f"SELECT {USER_HASH.format(user='?')}", [user]).fetchall()[0][0]
        for user in users
    ]
    assert user_hashes(Labels.of(users)).tolist() == expected
