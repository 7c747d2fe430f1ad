"""Labels and arrays that grow while a learner runs, at constant cost per addition."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import IntArray
from unswayed.errors import InputError
from unswayed.events import Label, Labels, check_list

_SMALLEST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class GrowingLabels:
    """Labels in the order of their first appearance.

    Examples
    --------
    >>> seen = GrowingLabels()
    >>> seen.codes(["ann", "bob", "ann"]).tolist(), list(seen.labels())
    ([0, 1, 0], ['ann', 'bob'])
    """

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        self._codes: dict[Label, int] = {}
        self._type: type[Label] | None = None
        self.codes(labels)

    def __len__(self) -> int:
        return len(self._codes)

    def checked(self, labels: Iterable[object]) -> list[Label]:
        """Return labels as a list if all of them fit, or name the first that does not.

        Nothing changes, so a batch can be refused as a whole.
        """
        check_list(labels, "a column of labels")
        listed: list[Any] = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        kind = self._type
        for row, label in enumerate(listed):
            if kind is None and type(label) in (str, int):
                kind = type(label)
            if type(label) is not kind:
                raise InputError(
                    f"row {row}: label {label!r} does not fit: labels must be all strings or all "
                    "integers."
                )
            check_storable(label, row)
        return listed

    def known(self, label: object) -> int | None:
        """Return the code of a label that was seen before, None for any other."""
        return self._codes.get(label) if type(label) is self._type else None

    def codes(self, labels: Iterable[Label]) -> IntArray:
        """Return the codes of labels, giving new ones the next codes."""
        listed = self.checked(labels)
        if listed and self._type is None:
            self._type = type(listed[0])
        codes = self._codes
        return np.array([codes.setdefault(label, len(codes)) for label in listed], dtype=np.int64)

    def since(self, code: int) -> list[Label]:
        """Return the labels from a code on."""
        newest_first = islice(reversed(self._codes), len(self._codes) - code)
        return list(newest_first)[::-1]

    def labels(self) -> Labels:
        """Return the labels as they are now."""
        return Labels.of(self._codes)


def check_storable(label: Label, row: int) -> None:
    """Reject a label that cannot be hashed or serialised."""
    if isinstance(label, int):
        if not _SMALLEST <= label <= _LARGEST:
            raise InputError(
                f"row {row}: label {str(label)[:40]} does not fit into 64 bits; write it as a "
                "string."
            )
        return
    if isinstance(label, str) and not label.isascii():
        try:
            label.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"row {row}: label {label!r} is not valid Unicode text; decode it properly first."
            ) from None


class GrowingArray:
    """A one-dimensional array that doubles its room when it is full."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._room = np.zeros(16, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> npt.NDArray[Any]:
        """The appended values, as a writable view."""
        return self._room[: self._size]

    @property
    def room(self) -> npt.NDArray[Any]:
        """The whole buffer, including unused capacity."""
        return self._room

    def append(self, values: npt.ArrayLike) -> None:
        """Append values at the end."""
        new = np.asarray(values, self._room.dtype)
        end = self._size + len(new)
        if end > len(self._room):
            room = np.zeros(max(end, 2 * len(self._room)), self._room.dtype)
            room[: self._size] = self.values
            self._room = room
        self._room[self._size : end] = new
        self._size = end
