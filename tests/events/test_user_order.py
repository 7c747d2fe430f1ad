import duckdb
import numpy as np
import pyarrow as pa
import pytest

from unswayed.events import Labels, hashing
from unswayed.events.hashing import USER_HASH, text_hash, text_hashes, user_hashes


@pytest.mark.parametrize("few", [0, 1_000])
def test_texts_of_every_length_have_the_md5_of_the_standard_library(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Lengths around 56 and 64 bytes need one block more; some characters take several bytes."""
    monkeypatch.setattr(hashing, "_FEW", few)
    alphabet = np.array(list("abcXYZ019-_ äß中😀"))
    texts = ["".join(rng.choice(alphabet, size=n)) for n in range(200)]
    column = pa.array(texts)
    assert text_hashes(column).tolist() == [text_hash(text) for text in texts]
    assert text_hashes(column.slice(50, 20)).tolist() == [text_hash(text) for text in texts[50:70]]
    assert len(text_hashes(column.slice(0, 0))) == 0


@pytest.mark.parametrize(
    "users", [["ann", "", "bob"], [3, -7, 2**62], [0.5, 1e300, -2.0], [True, False], []]
)
def test_users_of_every_type_have_the_hash_that_sql_gives_them(users: list[object]) -> None:
    """Blocks of a cluster are cut by SQL, and must be the same blocks."""
    expected = [
        duckdb.execute(f"SELECT {USER_HASH.format(user='?')}", [user]).fetchall()[0][0]
        for user in users
    ]
    assert user_hashes(Labels.of(users)).tolist() == expected
