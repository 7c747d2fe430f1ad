"""Codes for the values of a long column that comes in pieces, in one pass.

A database would group the column to find its distinct values and then join it with their codes: two
passes, each with a hash table. Here one table does both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed.compiled import compiled

Starts = npt.NDArray[np.integer[Any]]
Words = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]

#: Ours: slots and words to begin with; both double when they run short.
_FIRST_SIZE = 1 << 12

_NONE, _ONE = np.uint64(0), np.uint64(1)
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Fibonacci hashing)


class Encoder:
    """Numbers the distinct values of a column in the order in which they are first seen.

    Text is told apart by its bytes; numbers and booleans by the bytes of their eight-byte form.

    Examples
    --------
    >>> encoder = Encoder()
    >>> encoder.codes(pa.array(["b", "a", "b"])).tolist(), encoder.codes(pa.array(["c"])).tolist()
    ([0, 1, 0], [2])
    >>> encoder.values().to_pylist()
    ['b', 'a', 'c']
    """

    def __init__(self) -> None:
        self._values: list[pa.Array] = []
        self._n_values = 0
        self._starts = np.zeros(_FIRST_SIZE, np.int64)
        self._words = np.empty(_FIRST_SIZE, np.uint64)
        self._slots = np.zeros((_FIRST_SIZE, 2), np.uint64)  # a hash, and a code plus one or zero
        self._seed = 0

    def codes(self, column: pa.Array) -> Codes:
        """Return the code of each value; shape (n,). All columns have one type, and no nulls."""
        starts, words = _as_words(column)
        n_before = self._n_values
        while True:
            codes = self._codes_by_hash(starts, words)
            if _agree(starts, words, codes, self._starts, self._words):
                break
            # Two values share a hash: with another one they hardly do.
            self._seed += 1
            self._n_values = n_before
            self._rebuild(len(self._slots))
        if self._n_values > n_before:
            rows = _first_rows(codes, n_before, self._n_values)
            self._values.append(column.take(as_arrow(rows)))
        return codes

    def values(self) -> pa.Array | None:
        """Return the distinct values in the order of their codes; nothing if none was seen."""
        return pa.concat_arrays(self._values) if self._values else None

    def _codes_by_hash(self, starts: Starts, words: Words) -> Codes:
        """Return codes, and add new values, as if equal hashes meant equal values."""
        hashes = _hashes(starts, words, self._seed)
        codes = np.empty(len(hashes), np.int32)
        n_done = 0
        while True:
            n_done, self._n_values = _look_up(
                hashes,
                starts,
                words,
                n_done,
                codes,
                self._slots,
                self._starts,
                self._words,
                self._n_values,
            )
            if n_done == len(codes):
                return codes
            self._grow(int(starts[n_done + 1] - starts[n_done]))

    def _grow(self, n_words: int) -> None:
        """Make room for one more value of so many words."""
        if 2 * self._n_values >= len(self._slots):
            self._starts = np.concatenate([self._starts, np.zeros_like(self._starts)])
            self._rebuild(2 * len(self._slots))
        n_used = int(self._starts[self._n_values])
        if n_used + n_words > len(self._words):
            more = np.empty(max(n_used, n_words), np.uint64)
            self._words = np.concatenate([self._words, more])

    def _rebuild(self, n_slots: int) -> None:
        """Put the known values into new slots."""
        hashes = _hashes(self._starts[: self._n_values + 1], self._words, self._seed)
        self._slots = _filled(hashes, np.zeros((n_slots, 2), np.uint64))


def as_arrow(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return integers as Arrow without ``pyarrow.array``, which imports pandas where it can."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _as_words(column: pa.Array) -> tuple[Starts, Words]:
    """Return each value as words of eight bytes, and where its words begin; shape (n + 1,)."""
    n = len(column)
    if pa.types.is_string(column.type):
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + n + 1]
        return _packed(ends, np.frombuffer(data or b"", np.uint8))
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy() + 0.0  # there are two zeros, which are equal
    else:
        numbers = column.cast(pa.int64()).to_numpy()
    return np.arange(n + 1), numbers.view(np.uint64)


@compiled
def _packed(ends: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> tuple[Starts, Words]:
    """Return texts as words; the last word of each holds up to seven bytes and their number."""
    starts = np.zeros(len(ends), np.int64)
    for row in range(len(ends) - 1):
        starts[row + 1] = starts[row] + (ends[row + 1] - ends[row]) // 8 + 1
    words = np.empty(starts[-1], np.uint64)
    for row in range(len(ends) - 1):
        place, word, n_bits = starts[row], _NONE, _NONE
        for byte in data[ends[row] : ends[row + 1]]:
            word |= np.uint64(byte) << n_bits
            n_bits += np.uint64(8)
            if n_bits == np.uint64(64):
                words[place] = word
                place += 1
                word, n_bits = _NONE, _NONE
        words[place] = word | n_bits << np.uint64(56)
    return starts, words


# Hashing, looking up and comparing are loops of their own: short loops keep several loads from
# memory under way at once, and one loop that did all took three times as long.


@compiled
def _hashes(starts: Starts, words: Words, seed: int) -> Words:
    """Return a hash of each value (multiply and fold)."""
    hashes = np.empty(len(starts) - 1, np.uint64)
    for row in range(len(hashes)):
        state = np.uint64(seed)
        for place in range(starts[row], starts[row + 1]):
            state = (state ^ words[place]) * _ODD
            state ^= state >> np.uint64(32)
        state *= _ODD
        hashes[row] = state ^ (state >> np.uint64(29))
    return hashes


@compiled
def _look_up(
    hashes: Words,
    starts: Starts,
    words: Words,
    n_done: int,
    codes: Codes,
    slots: Words,
    known_starts: Starts,
    known: Words,
    n_values: int,
) -> tuple[int, int]:
    """Fill ``codes`` until a new value finds no room; return how many rows and values there are."""
    mask = np.uint64(len(slots) - 1)
    for row in range(n_done, len(codes)):
        slot = hashes[row] & mask
        while slots[slot, 1] != _NONE and slots[slot, 0] != hashes[row]:
            slot = (slot + _ONE) & mask
        if slots[slot, 1] == _NONE:
            start, length = known_starts[n_values], starts[row + 1] - starts[row]
            if 2 * n_values >= len(slots) or start + length > len(known):
                return row, n_values
            known[start : start + length] = words[starts[row] : starts[row + 1]]
            n_values += 1
            known_starts[n_values] = start + length
            slots[slot, 0], slots[slot, 1] = hashes[row], np.uint64(n_values)
        codes[row] = np.int32(slots[slot, 1] - _ONE)
    return len(codes), n_values


@compiled
def _agree(starts: Starts, words: Words, codes: Codes, known_starts: Starts, known: Words) -> bool:
    """Return whether every row holds the value that its code stands for."""
    for row in range(len(codes)):
        start, known_start = starts[row], known_starts[codes[row]]
        length = starts[row + 1] - start
        if known_starts[codes[row] + 1] - known_start != length:
            return False
        for place in range(length):
            if words[start + place] != known[known_start + place]:
                return False
    return True


@compiled
def _filled(hashes: Words, slots: Words) -> Words:
    """Return empty slots filled with the codes of known values."""
    mask = np.uint64(len(slots) - 1)
    for code in range(len(hashes)):
        slot = hashes[code] & mask
        while slots[slot, 1] != _NONE:
            slot = (slot + _ONE) & mask
        slots[slot, 0], slots[slot, 1] = hashes[code], np.uint64(code + 1)
    return slots


@compiled
def _first_rows(codes: Codes, first: int, last: int) -> npt.NDArray[np.int64]:
    """Return where each code from ``first`` up to ``last`` comes first."""
    rows = np.empty(last - first, np.int64)
    n_found = 0
    for row in range(len(codes)):
        if codes[row] == first + n_found:
            rows[n_found] = row
            n_found += 1
    return rows
