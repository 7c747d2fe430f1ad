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
_PLACE = np.uint64(0xFFFFFFFF)  # the part of a slot that says where its value lies
_TAG = ~_PLACE  # the part that is compared with the hash
_HALF = np.uint64(32)


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
        # Known values one after another: a word with code and number of words, then the words.
        self._known = np.empty(_FIRST_SIZE, np.uint64)
        self._n_known = 0
        # Half a hash, and a place among the known values plus one; zero where a slot is free.
        self._slots = np.zeros(_FIRST_SIZE, np.uint64)
        self._seed = 0

    def codes(self, column: pa.Array) -> Codes:
        """Return the code of each value; shape (n,). All columns have one type, and no nulls."""
        starts, words = _as_words(column)
        n_before, n_known_before = self._n_values, self._n_known
        codes = np.empty(len(column), np.int32)
        while True:
            places = self._places_by_hash(starts, words)
            if _agree(starts, words, places, self._known, codes):
                break
            # Two values share a hash: with another one they hardly do.
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

    def _places_by_hash(self, starts: Starts, words: Words) -> npt.NDArray[np.uint32]:
        """Return where each value is known, and add new ones, as if hashes told values apart."""
        hashes = _hashes(starts, words, self._seed)
        places = np.empty(len(hashes), np.uint32)
        n_done = 0
        while True:
            n_done, self._n_values, self._n_known = _look_up(
                hashes,
                starts,
                words,
                n_done,
                places,
                self._slots,
                self._known,
                self._n_values,
                self._n_known,
            )
            if n_done == len(places):
                return places
            self._grow(int(starts[n_done + 1] - starts[n_done]))

    def _grow(self, n_words: int) -> None:
        """Make room for one more value of so many words."""
        if 2 * self._n_values >= len(self._slots):
            self._rebuild(2 * len(self._slots))
        if self._n_known + 1 + n_words > len(self._known):
            more = np.empty(max(self._n_known, n_words + 1), np.uint64)
            self._known = np.concatenate([self._known[: self._n_known], more])

    def _rebuild(self, n_slots: int) -> None:
        """Put the known values into new slots."""
        self._slots = np.zeros(n_slots, np.uint64)
        _fill(self._known[: self._n_known], self._slots, self._seed)


def as_arrow(numbers: npt.NDArray[np.int64]) -> pa.Array:
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


# Hashing, looking up and comparing are loops of their own: short loops keep several loads from
# memory under way at once, and one loop that did all took three times as long.


@compiled
def _hash(words: Words, first: int, last: int, seed: int) -> np.uint64:
    """Return a hash of the words from ``first`` up to ``last`` (multiply and fold)."""
    state = np.uint64(seed)
    for place in range(first, last):
        state = (state ^ words[place]) * _ODD
        state ^= state >> _HALF
    state *= _ODD
    return state ^ (state >> np.uint64(29))


@compiled
def _hashes(starts: Starts, words: Words, seed: int) -> Words:
    """Return a hash of each value."""
    hashes = np.empty(len(starts) - 1, np.uint64)
    for row in range(len(hashes)):
        hashes[row] = _hash(words, starts[row], starts[row + 1], seed)
    return hashes


@compiled
def _look_up(
    hashes: Words,
    starts: Starts,
    words: Words,
    n_done: int,
    places: npt.NDArray[np.uint32],
    slots: Words,
    known: Words,
    n_values: int,
    n_known: int,
) -> tuple[int, int, int]:
    """Fill ``places`` until a new value finds no room; return how many rows, values and words."""
    mask = np.uint64(len(slots) - 1)
    for row in range(n_done, len(places)):
        slot = hashes[row] & mask
        tag = hashes[row] & _TAG
        while slots[slot] != _NONE and slots[slot] & _TAG != tag:
            slot = (slot + _ONE) & mask
        if slots[slot] == _NONE:
            length = starts[row + 1] - starts[row]
            if 2 * n_values >= len(slots) or n_known + 1 + length > len(known):
                return row, n_values, n_known
            known[n_known] = np.uint64(n_values) << _HALF | np.uint64(length)
            for place in range(length):
                known[n_known + 1 + place] = words[starts[row] + place]
            slots[slot] = tag | np.uint64(n_known + 1)
            n_values += 1
            n_known += 1 + length
        places[row] = (slots[slot] & _PLACE) - _ONE
    return len(places), n_values, n_known


@compiled
def _agree(
    starts: Starts, words: Words, places: npt.NDArray[np.uint32], known: Words, codes: Codes
) -> bool:
    """Fill ``codes``; return whether every row holds the value that its code stands for."""
    for row in range(len(places)):
        start, place = starts[row], np.int64(places[row])
        length = starts[row + 1] - start
        if known[place] & _PLACE != np.uint64(length):
            return False
        for word in range(length):
            if words[start + word] != known[place + 1 + word]:
                return False
        codes[row] = np.int32(known[place] >> _HALF)
    return True


@compiled
def _fill(known: Words, slots: Words, seed: int) -> None:
    """Put known values into empty slots."""
    mask = np.uint64(len(slots) - 1)
    place = 0
    while place < len(known):
        after = place + 1 + int(known[place] & _PLACE)
        hashed = _hash(known, place + 1, after, seed)
        slot = hashed & mask
        while slots[slot] != _NONE:
            slot = (slot + _ONE) & mask
        slots[slot] = (hashed & _TAG) | np.uint64(place + 1)
        place = after


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
