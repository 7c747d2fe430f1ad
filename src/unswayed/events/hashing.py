"""Hashes of rows and labels, and the order of users by them: the same in every log and process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.events.databases import quiet_connection
from unswayed.events.encoding import as_arrow
from unswayed.events.labels import Labels

HashArray = npt.NDArray[np.uint64]

#: SQL: users are ordered by a hash of their label. So every range of hashes is a fair sample of
#: them, and blocks of users are ranges whatever users there are.
USER_HASH = "md5_number_lower({user}::VARCHAR)"


def text_hash(text: str) -> int:
    """Return a hash of one label, given as text, that DuckDB's ``md5_number_lower`` returns too.

    >>> text_hash("abc")
    8250560606382298838
    """
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "little")


def label_hashes(labels: Labels, codes: IntArray) -> HashArray:
    """Return the hash of the label behind each code; shape of ``codes``."""
    hashes = np.zeros(len(labels), np.uint64)
    for code in np.unique(codes).tolist():
        hashes[code] = text_hash(str(labels[code]))
    chosen: HashArray = hashes[codes]
    return chosen


def bits(column: FloatArray) -> HashArray:
    """View floats as their bit patterns, so that −0.0 and 0.0 differ."""
    return np.ascontiguousarray(column, np.float64).view(np.uint64)


@compiled
def row_hashes(columns: HashArray, starts: HashArray) -> HashArray:
    """Return a hash of each row of columns, shape (n_columns, n), and a number to start from."""
    hashes = starts.copy()
    for row in range(len(hashes)):
        state = hashes[row]
        for column in range(len(columns)):
            # The finaliser of splitmix64: every bit of the input moves every bit of the hash.
            state = state ^ columns[column, row]
            state = state + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
        hashes[row] = state
    return hashes


#: Ours: fewer texts are hashed one by one, in less time than it takes to compile the loop.
_FEW = 20_000

_WORD = np.uint64(0xFFFFFFFF)

#: RFC 1321: four numbers to start from, and for each of the 64 steps a sine and a rotation.
_START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint64)
_SINES = np.floor(np.abs(np.sin(np.arange(1, 65))) * 2.0**32).astype(np.uint64)
_ROTATIONS = np.repeat(
    np.array([[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], np.uint64),
    4,
    axis=0,
).ravel()


def text_hashes(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Return of each text what ``hashing.text_hash`` returns of one; shape (n,).

    Parameters
    ----------
    texts
        Shape (n,); strings, without nulls.

    Notes
    -----
    DuckDB's ``md5_number_lower`` gives the same numbers and takes four times as long.

    Examples
    --------
    >>> text_hashes(pa.array(["abc"])).tolist()
    [8250560606382298838]
    """
    if len(texts) < _FEW:
        return np.array([text_hash(text) for text in texts.to_pylist()], np.uint64)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return _lower_halves(ends, np.frombuffer(data or b"", np.uint8))


@compiled
def _lower_halves(
    ends: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint64]:
    """Return the last eight bytes of each text's MD5 as a number, the first of them the lowest."""
    hashes = np.empty(len(ends) - 1, np.uint64)
    words, state = np.empty(16, np.uint64), np.empty(4, np.uint64)
    for row in range(len(hashes)):
        start, n_bytes = int(ends[row]), int(ends[row + 1] - ends[row])
        state[:] = _START
        n_blocks = (n_bytes + 8) // 64 + 1  # one more byte ends the text, and eight say how long
        for block in range(n_blocks):
            words[:] = 0
            for byte in range(64 * block, min(64 * block + 64, n_bytes + 1)):
                value = np.uint64(data[start + byte]) if byte < n_bytes else np.uint64(0x80)
                words[(byte & 63) >> 2] |= value << np.uint64(8 * (byte & 3))
            if block == n_blocks - 1:
                words[14] = np.uint64(8 * n_bytes) & _WORD
                words[15] = np.uint64(8 * n_bytes) >> np.uint64(32)
            _add_block(state, words)
        hashes[row] = state[2] | state[3] << np.uint64(32)
    return hashes


@compiled
def _add_block(state: npt.NDArray[np.uint64], words: npt.NDArray[np.uint64]) -> None:
    """Process one block of 16 words (RFC 1321, section 3.4)."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    for step in range(16):
        a, b, c, d = d, _turned(a, b, (b & c) | (~b & d), words[step], step), b, c
    for step in range(16, 32):
        word = words[(5 * step + 1) & 15]
        a, b, c, d = d, _turned(a, b, (d & b) | (~d & c), word, step), b, c
    for step in range(32, 48):
        word = words[(3 * step + 5) & 15]
        a, b, c, d = d, _turned(a, b, b ^ c ^ d, word, step), b, c
    for step in range(48, 64):
        word = words[(7 * step) & 15]
        a, b, c, d = d, _turned(a, b, c ^ (b | (~d & _WORD)), word, step), b, c
    state[0] = (state[0] + a) & _WORD
    state[1] = (state[1] + b) & _WORD
    state[2] = (state[2] + c) & _WORD
    state[3] = (state[3] + d) & _WORD


@compiled
def _turned(a: np.uint64, b: np.uint64, mixed: np.uint64, word: np.uint64, step: int) -> np.uint64:
    """One step of the MD5 compression function."""
    total, rotation = (a + mixed + _SINES[step] + word) & _WORD, _ROTATIONS[step]
    turned: np.uint64 = (total << rotation) | (total >> (np.uint64(32) - rotation))
    return (b + turned) & _WORD


def ordered_users(values: pa.Array | None) -> tuple[Labels, npt.NDArray[np.int32]]:
    """Return the distinct users in canonical order, and the code of each value."""
    if values is None:
        return Labels.of([]), np.empty(0, np.int32)
    hashes = _hashes(values)
    order = np.argsort(hashes)
    if (hashes[order[1:]] == hashes[order[:-1]]).any():  # of equal hashes the smaller label first
        labels = values.to_pylist()
        order = np.array(sorted(range(len(labels)), key=lambda row: (hashes[row], labels[row])))
    codes = np.empty(len(values), np.int32)
    codes[order] = np.arange(len(values), dtype=np.int32)
    return labels_of_column(pa.chunked_array([values.take(as_arrow(order))])), codes


def union_of_users(parts: Sequence[Labels]) -> tuple[Labels, list[npt.NDArray[np.int32]]]:
    """Return the union of users in canonical order, and each part's codes in it."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return Labels.of([]), [np.empty(0, np.int32) for _ in parts]
    if len({part.type_name for part in filled}) > 1:
        kinds = ", ".join(sorted({part.type_name for part in filled}))
        raise InputError(f"users are of different types ({kinds}); write them all as strings.")
    labels = pa.chunked_array([pa.array(part.values) for part in filled])
    with quiet_connection() as connection:
        connection.register("listed", pa.table({"label": labels, "place": np.arange(len(labels))}))
        connection.sql(
            f"""
            CREATE TABLE coded AS SELECT label, row_number() OVER (ORDER BY hash, label) - 1 AS code
            FROM (SELECT label, {USER_HASH.format(user="label")} AS hash FROM listed GROUP BY label)
            """
        )
        ordered: pa.ChunkedArray = connection.sql(
            "SELECT label FROM coded ORDER BY code"
        ).to_arrow_table()[0]
        codes: pa.ChunkedArray = connection.sql(
            "SELECT code::INTEGER AS code FROM listed JOIN coded USING (label) ORDER BY place"
        ).to_arrow_table()[0]
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    return labels_of_column(ordered), np.split(codes.to_numpy(), bounds)


def user_hashes(users: Labels) -> npt.NDArray[np.uint64]:
    """Return the hash of each user; shape (n_users,)."""
    return _hashes(pa.array(users.values))


def _hashes(labels: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the hash of each label, in their order; shape (n,)."""
    if pa.types.is_string(labels.type):
        return text_hashes(labels)
    with quiet_connection() as connection:  # which writes numbers as it does everywhere else
        connection.register("listed", pa.table({"label": labels}))
        texts = connection.sql("SELECT label::VARCHAR AS label FROM listed").to_arrow_table()[0]
    return np.concatenate([np.empty(0, np.uint64), *map(text_hashes, texts.chunks)])


def labels_of_column(values: pa.ChunkedArray) -> Labels:
    """Return the distinct values of an Arrow column as labels."""
    if pa.types.is_int64(values.type):
        return Labels(values.to_numpy())  # without a list in between: there may be millions
    if pa.types.is_string(values.type):  # whose to_numpy imports pandas, and is no faster
        texts = np.empty(len(values), object)
        texts[:] = values.to_pylist()
        return Labels(texts)
    return Labels.of(values.to_pylist())
