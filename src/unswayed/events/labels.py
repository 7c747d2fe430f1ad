"""Names of users, contexts and actions, and the codes 0, 1, 2, … that stand for them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import IntArray
from unswayed.errors import InputError

Label = str | int | float | bool

UNKNOWN = -1  # Code of an unknown label

_TYPE_NAMES: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """An ordered set of labels of one type; the position of a label is its code.

    Labels are strings, integers, numbers or booleans, which JSON preserves. Dates and times are
    stored as ISO text, and can be looked up by it.

    Parameters
    ----------
    values
        Shape (n,); an integer array, or an object array of anything else, without repeats.

    Examples
    --------
    >>> days = Labels.of(["monday", "friday"])
    >>> days.codes(["friday", "monday", "someday"]).tolist()
    [1, 0, -1]
    >>> days[0], len(days), "friday" in days
    ('monday', 2, True)
    >>> Labels.of([dt.date(2026, 1, 31)])[0]
    '2026-01-31'
    """

    values: IntArray | npt.NDArray[np.object_]
    _codes: dict[Label, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, labels: Iterable[object]) -> Labels:
        """Return the labels in the order given; reject repeats and mixed types."""
        check_list(labels, "a list of labels")
        listed = [_plain(label) for label in labels]
        result = cls(as_label_array(listed))
        if len(result._index()) != len(listed):
            seen: set[Label] = set()
            repeated = next(x for x in listed if x in seen or seen.add(x))  # type: ignore[func-returns-value]
            raise InputError(f"label {repeated!r} is given twice; each label must be given once.")
        return result

    @classmethod
    def numbered(cls, n: int) -> Labels:
        """Return the integer labels 0 … n − 1."""
        return cls(np.arange(n, dtype=np.int64))

    @classmethod
    def parsed(cls, texts: Iterable[str], type_name: str) -> Labels:
        """Rebuild labels from their ``texts`` and ``type_name``.

        >>> Labels.parsed(["True", "False"], "boolean")[0]
        True
        """
        return cls.of([parsed_label(text, type_name) for text in texts])

    @property
    def type_name(self) -> str:
        """One of "string", "integer", "number", "boolean"; "integer" if there are no labels."""
        is_integer = self.values.dtype.kind == "i" or not len(self)
        return "integer" if is_integer else _TYPE_NAMES[type(self[0])]

    @property
    def texts(self) -> list[str]:
        """The labels as text, for keys of JSON objects."""
        return [str(label) for label in self]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.values.tolist())

    def __getitem__(self, code: int) -> Label:
        label: Label = self.values[code : code + 1].tolist()[0]
        return label

    def __contains__(self, label: object) -> bool:
        return self.code(label) != UNKNOWN

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Labels)
            and (self.type_name == other.type_name or not len(self))
            and self.values.tolist() == other.values.tolist()
        )

    def __hash__(self) -> int:
        return hash(tuple(self.values.tolist()))

    def code(self, label: object) -> int:
        """Return the code of one label, or ``UNKNOWN``."""
        if type(label) is str:  # the common case, which is faster
            return self._index().get(label, UNKNOWN)
        plain = _plain(label)
        try:
            code = self._index().get(plain, UNKNOWN)
        except TypeError:  # unhashable values are not labels
            return UNKNOWN
        # In Python True == 1 == 1.0; in a log, 1 is not True.
        is_same = code == UNKNOWN or isinstance(plain, bool) == (self.type_name == "boolean")
        return code if is_same else UNKNOWN

    def codes(self, labels: Iterable[object]) -> IntArray:
        """Return the codes of many labels; unknown ones get ``UNKNOWN``."""
        listed: list[Any] = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        if all(type(label) is str for label in listed):  # the common case, see ``code``
            index = self._index()
            return np.array([index.get(label, UNKNOWN) for label in listed], dtype=np.int64)
        return np.array([self.code(label) for label in listed], dtype=np.int64)

    def _index(self) -> dict[Label, int]:
        if len(self._codes) < len(self.values):
            self._codes.update((label, code) for code, label in enumerate(self.values.tolist()))
        return self._codes


def check_list(values: object, role: str) -> None:
    """Reject a string where a list of labels is expected."""
    if isinstance(values, str | bytes):
        raise InputError(f"{role} is the text {values!r}; give a list, such as [{values!r}].")


def as_label_array(labels: Sequence[Any]) -> IntArray | npt.NDArray[np.object_]:
    """Return labels as an array of integers or of objects of one type; reject others."""
    if all(type(label) is int for label in labels):
        try:
            return np.array(labels, dtype=np.int64)
        except OverflowError:
            raise InputError(
                "an integer label does not fit into 64 bits; write the labels as strings."
            ) from None
    for label in labels:
        if type(label) not in _TYPE_NAMES or (type(label) is float and not math.isfinite(label)):
            raise InputError(
                f"{label!r} cannot be a label: labels are strings, integers, finite numbers, "
                "booleans or dates; drop the rows without one, or write them as strings."
            )
        if type(label) is str and not label.isascii() and not _is_unicode(label):
            raise InputError(
                f"label {label!r} is not valid Unicode text; decode it properly first."
            )
        if type(label) is not type(labels[0]):
            raise InputError(
                f"labels must be all of one type, and {labels[0]!r} and {label!r} are not; "
                "write them as strings."
            )
    result = np.empty(len(labels), dtype=np.object_)
    result[:] = labels
    return result


def _is_unicode(text: str) -> bool:
    """Whether a text is valid Unicode (no lone surrogates)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parsed_label(text: str, type_name: str) -> Label:
    """Parse the ``str`` of a label of this type; return the text itself if that fails."""
    try:
        match type_name:
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "boolean":
                return {"true": True, "false": False}[text.lower()]
            case _:
                return text
    except (ValueError, KeyError):
        return text


def _plain(label: object) -> Any:
    """Return numpy scalars as Python values and dates as ISO text."""
    match label:
        case np.generic():
            return _plain(label.item())
        case dt.datetime():
            return label.isoformat(sep=" ")
        case dt.date() | dt.time():
            return label.isoformat()
        case _:
            return label
