"""Codes for the values of a long column that comes in pieces, in one pass.

A database would group the column to find its distinct values and then join it with their codes: two
passes, each with a hash table. Here one table does both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed.arrays import IntArray
from unswayed.compiled import compiled

Starts = npt.NDArray[np.integer[Any]]
Words = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]

#: Ours: initial capacity of the hash table and its word storage; both grow by doubling.
_FIRST_SIZE = 1 << 12

_NONE, _ONE = np.uint64(0), np.uint64(1)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Fibonacci hashing)

# The second word of a key, where it is none of the value: a last word begins with at most 56.
_SINGLE = ~_NONE
_HASHED = np.uint64(0xFE << 56)


class Encoder:
    """Numbers the distinct values of a column in the order in which they are first seen.

    Text is distinguished by its bytes; numbers and booleans by the bytes of their eight-byte form.
    Values of up to fifteen bytes lie in the hash table itself, so that finding one takes one look
    into memory; of longer ones their hash does, and the values are compared apart.

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
        # Key and entry: the code plus one, and for a long value its place below, in the upper half.
        self._slots = np.zeros((_FIRST_SIZE, 3), np.uint64)
        # Long values one after another, each after the number of its words.
        self._known = np.empty(_FIRST_SIZE, np.uint64)
        self._n_known = 0
        self._seed = 0

    @property
    def n_values(self) -> int:
        """How many distinct values were seen."""
        return self._n_values

    def codes(self, column: pa.Array) -> Codes:
        """Return the code of each value; shape (n,). All columns have one type, and no nulls."""
        starts, words = _as_words(column)
        n_before, n_known_before = self._n_values, self._n_known
        codes = np.empty(len(column), np.int32)
        while not self._fill_codes(starts, words, codes):
            # Two long values share a hash: with another one they hardly do.
            self._seed += 1
            self._n_values, self._n_known = n_before, n_known_before
            self._rebuild(len(self._slots))
        if self._n_values > n_before:
            rows = _first_rows(codes, n_before, self._n_values)
            self._values.append(column.take(as_arrow(rows)))
        return codes

    def values(self) -> pa.Array | None:
        """Return the distinct values in the order of their codes; nothing if none was seen."""
        return pa.concat_arrays(self._values) if self._values else None

    def _fill_codes(self, starts: Starts, words: Words, codes: Codes) -> bool:
        """Fill in codes, adding new values; return False if two values share a hash."""
        keys = _keys(starts, words, self._seed)
        entries = np.empty(len(codes), np.uint64)
        n_done = 0
        while True:
            n_done, self._n_values, self._n_known = _look_up(
                keys,
                starts,
                words,
                n_done,
                entries,
                self._slots,
                self._known,
                self._n_values,
                self._n_known,
            )
            if n_done == len(codes):
                return _agree(starts, words, entries, self._known, codes)
            self._grow(int(starts[n_done + 1] - starts[n_done]))

    def _grow(self, n_words: int) -> None:
        """Make room for one more value of ``n_words`` words."""
        if 2 * self._n_values >= len(self._slots):
            self._rebuild(2 * len(self._slots))
        if self._n_known + 1 + n_words > len(self._known):
            more = np.empty(max(self._n_known, n_words + 1), np.uint64)
            self._known = np.concatenate([self._known[: self._n_known], more])

    def _rebuild(self, n_slots: int) -> None:
        """Put the known values into new slots."""
        slots = np.zeros((n_slots, 3), np.uint64)
        _refill(self._slots, slots, self._known, self._n_values, self._seed)
        self._slots = slots


def as_arrow(numbers: IntArray) -> pa.Array:
    """Return integers as Arrow without ``pyarrow.array``, which imports pandas where it can."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _as_words(column: pa.Array) -> tuple[Starts, Words]:
    """Return each value as words of eight bytes, and where its words begin; shape (n + 1,)."""
    n = len(column)
    if pa.types.is_string(column.type):
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + n + 1]
        used = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
        padded = np.zeros(len(used) + 8, np.uint8)  # a word may be read at every byte
        padded[: len(used)] = used
        at_bytes = np.ndarray(len(used) + 1, np.uint64, padded, strides=(1,))
        return _packed(ends, at_bytes)
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy() + 0.0  # there are two zeros, which are equal
    else:
        numbers = column.cast(pa.int64()).to_numpy()
    return np.arange(n + 1), numbers.view(np.uint64)


@compiled
def _packed(ends: npt.NDArray[np.int32], at_bytes: Words) -> tuple[Starts, Words]:
    """Return texts as words; the last word of each holds up to seven bytes and their number.

    ``at_bytes`` holds the eight bytes that begin at each byte of the texts.
    """
    starts = np.zeros(len(ends), np.int64)
    for row in range(len(ends) - 1):
        starts[row + 1] = starts[row] + (ends[row + 1] - ends[row]) // 8 + 1
    words = np.empty(starts[-1], np.uint64)
    for row in range(len(ends) - 1):
        place, byte = starts[row], ends[row] - ends[0]
        while place < starts[row + 1] - 1:
            words[place] = at_bytes[byte]
            place += 1
            byte += 8
        n_bits = np.uint64(ends[row + 1] - ends[0] - byte) * np.uint64(8)
        words[place] = (at_bytes[byte] & ((_ONE << n_bits) - _ONE)) | n_bits << np.uint64(56)
    return starts, words


# Keys, looking up and comparing are loops of their own: short loops keep several loads from memory
# under way at once, and one loop that did all took three times as long.


@compiled
def _hash(words: Words, first: int, last: int, seed: int) -> np.uint64:
    """Return a hash of the words from ``first`` up to ``last`` (multiply and fold)."""
    state = np.uint64(seed)
    for place in range(first, last):
        state = (state ^ words[place]) * _ODD
        state ^= state >> _HALF
    return state


@compiled
def _keys(starts: Starts, words: Words, seed: int) -> Words:
    """Return the key of each value: its one or two words, or a hash of more; shape (n, 2)."""
    keys = np.empty((len(starts) - 1, 2), np.uint64)
    for row in range(len(keys)):
        start, length = starts[row], starts[row + 1] - starts[row]
        if length > 2:
            keys[row, 0] = _hash(words, start, start + length, seed)
            keys[row, 1] = _HASHED
        else:
            keys[row, 0] = words[start]
            keys[row, 1] = words[start + 1] if length == 2 else _SINGLE
    return keys


@compiled
def _slot_of(slots: Words, first: np.uint64, second: np.uint64) -> np.uint64:
    """Return the slot of a key: where it is, or the free one where it may be put."""
    mask = np.uint64(len(slots) - 1)
    mixed = (first ^ (second * _ODD)) * _ODD
    slot = (mixed ^ (mixed >> _HALF)) & mask
    while slots[slot, 2] != _NONE and (slots[slot, 0] != first or slots[slot, 1] != second):
        slot = (slot + _ONE) & mask
    return slot


@compiled
def _look_up(
    keys: Words,
    starts: Starts,
    words: Words,
    n_done: int,
    entries: Words,
    slots: Words,
    known: Words,
    n_values: int,
    n_known: int,
) -> tuple[int, int, int]:
    """Fill ``entries`` until a new value finds no room; return how many rows, values and words."""
    for row in range(n_done, len(entries)):
        slot = _slot_of(slots, keys[row, 0], keys[row, 1])
        if slots[slot, 2] == _NONE:
            length = starts[row + 1] - starts[row]
            if 2 * n_values >= len(slots) or n_known + 1 + length > len(known):
                return row, n_values, n_known
            n_values += 1
            slots[slot, 0], slots[slot, 1] = keys[row, 0], keys[row, 1]
            slots[slot, 2] = np.uint64(n_values)
            if length > 2:
                slots[slot, 2] |= np.uint64(n_known) << _HALF
                known[n_known] = np.uint64(length)
                for place in range(length):
                    known[n_known + 1 + place] = words[starts[row] + place]
                n_known += 1 + length
        entries[row] = slots[slot, 2]
    return len(entries), n_values, n_known


@compiled
def _agree(starts: Starts, words: Words, entries: Words, known: Words, codes: Codes) -> bool:
    """Fill ``codes``; return whether every row holds the value that its code stands for."""
    for row in range(len(codes)):
        codes[row] = np.int32((entries[row] & _LOW) - _ONE)
        start, length = starts[row], starts[row + 1] - starts[row]
        if length > 2:
            place = np.int64(entries[row] >> _HALF)
            if known[place] != np.uint64(length):
                return False
            for word in range(length):
                if words[start + word] != known[place + 1 + word]:
                    return False
    return True


@compiled
def _refill(old: Words, slots: Words, known: Words, n_values: int, seed: int) -> None:
    """Insert the first ``n_values`` values into empty slots."""
    for place in range(len(old)):
        entry = old[place, 2]
        if entry == _NONE or entry & _LOW > np.uint64(n_values):
            continue
        first, second = old[place, 0], old[place, 1]
        if second == _HASHED:
            start = int(entry >> _HALF) + 1
            first = _hash(known, start, start + int(known[start - 1]), seed)
        slot = _slot_of(slots, first, second)
        while slots[slot, 2] != _NONE:  # two values share a hash: both are kept
            slot = (slot + _ONE) & np.uint64(len(slots) - 1)
        slots[slot, 0], slots[slot, 1], slots[slot, 2] = first, second, entry


@compiled
def _first_rows(codes: Codes, first: int, last: int) -> IntArray:
    """Row of the first occurrence of each code from ``first`` up to ``last``."""
    rows = np.empty(last - first, np.int64)
    n_found = 0
    for row in range(len(codes)):
        if codes[row] == first + n_found:
            rows[n_found] = row
            n_found += 1
    return rows
