"""Hashes of rows by what they say, the same in every log, block and process."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.events.labels import Labels

HashArray = npt.NDArray[np.uint64]


def text_hash(text: str) -> int:
    """Return a hash of one label, given as text, that DuckDB's ``md5_number_lower`` returns too.

    >>> text_hash("abc")
    8250560606382298838
    """
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "little")


def label_hashes(labels: Labels, codes: npt.NDArray[np.int64]) -> HashArray:
    """Return the hash of the label behind each code; shape of ``codes``."""
    hashes = np.zeros(len(labels), np.uint64)
    for code in np.unique(codes).tolist():
        hashes[code] = text_hash(str(labels[code]))
    chosen: HashArray = hashes[codes]
    return chosen


def bits(column: npt.NDArray[np.float64]) -> HashArray:
    """Return numbers as their bits, which distinguish more than their values do."""
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
