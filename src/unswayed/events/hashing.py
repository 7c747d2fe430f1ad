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
from unswayed.events.labels import Labels
from unswayed.events.sources import quiet_connection

HashArray = npt.NDArray[np.uint64]

#: SQL for the hash that orders users. Every range of hashes is a fair sample of the users, and
#: blocks of users are such ranges.
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
    """Return a hash of each row of ``columns``, shape (n_columns, n), given one seed per row."""
    hashes = starts.copy()
    for row in range(len(hashes)):
        state = hashes[row]
        for column in range(len(columns)):
            # The finaliser of splitmix64: every input bit affects every bit of the hash.
            state = state ^ columns[column, row]
            state = state + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
        hashes[row] = state
    return hashes


_FEW = 5_000  # Ours: fewer labels are hashed one by one, which is faster than opening a connection


def ordered_users(values: pa.Array | None) -> tuple[Labels, npt.NDArray[np.int32]]:
    """Return the distinct users in canonical order, and the code of each value."""
    if values is None:
        return Labels.of([]), np.empty(0, np.int32)
    hashes = _hashes(values)
    order = np.argsort(hashes)
    if (hashes[order[1:]] == hashes[order[:-1]]).any():  # equal hashes are ordered by label
        labels = values.to_pylist()
        order = np.array(sorted(range(len(labels)), key=lambda row: (hashes[row], labels[row])))
    codes = np.empty(len(values), np.int32)
    codes[order] = np.arange(len(values), dtype=np.int32)
    # pyarrow.array would import pandas if it is installed.
    places = pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)])
    return labels_of_column(pa.chunked_array([values.take(places)])), codes


def union_of_users(parts: Sequence[Labels]) -> tuple[Labels, list[npt.NDArray[np.int32]]]:
    """Return the union of users in canonical order, and each part's codes in it."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return Labels.of([]), [np.empty(0, np.int32) for _ in parts]
    if len({part.type_name for part in filled}) > 1:
        kinds = ", ".join(sorted({part.type_name for part in filled}))
        raise InputError(f"users are of different types ({kinds}); write them all as strings.")
    columns = pa.chunked_array([pa.array(part.values) for part in filled])
    encoded = columns.dictionary_encode().combine_chunks()
    users, places = ordered_users(encoded.dictionary)
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    return users, np.split(places[np.from_dlpack(encoded.indices)], bounds)


def user_hashes(users: Labels) -> HashArray:
    """Return the hash of each user; shape (n_users,)."""
    return _hashes(pa.array(users.values))


def _hashes(labels: pa.Array) -> HashArray:
    """Return the hash of each label, in their order; shape (n,)."""
    is_plain = pa.types.is_string(labels.type) or pa.types.is_int64(labels.type)
    if len(labels) < _FEW and is_plain:
        return np.array([text_hash(str(label)) for label in labels.to_pylist()], np.uint64)
    with quiet_connection() as connection:
        connection.register("listed", pa.table({"label": labels}))
        found = connection.sql(f"SELECT {USER_HASH.format(user='label')} AS hash FROM listed")
        return np.concatenate([np.from_dlpack(chunk) for chunk in found.to_arrow_table()[0].chunks])


def labels_of_column(values: pa.ChunkedArray) -> Labels:
    """Return the distinct values of an Arrow column as labels."""
    if pa.types.is_int64(values.type):
        # avoids a list of possibly millions of Python objects
        return Labels(values.to_numpy())
    if pa.types.is_string(values.type):  # to_numpy would import pandas, and is no faster
        texts = np.empty(len(values), object)
        texts[:] = values.to_pylist()
        return Labels(texts)
    return Labels.of(values.to_pylist())
