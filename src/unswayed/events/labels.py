"""Names of users, contexts and actions, and the codes 0, 1, 2, … that stand for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from unswayed.errors import InputError

Label = str | int

#: The code of a label that is not known.
UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """An ordered set of labels, all strings or all integers; the position of a label is its code.

    Parameters
    ----------
    values
        Shape (n,); an integer array, or an object array of strings, without repeats.

    Examples
    --------
    >>> days = Labels.of(["monday", "friday"])
    >>> days.codes(["friday", "monday", "someday"]).tolist()
    [1, 0, -1]
    >>> days[0], len(days), "friday" in days
    ('monday', 2, True)
    """

    values: npt.NDArray[np.int64] | npt.NDArray[np.object_]
    _codes: dict[Label, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, labels: Iterable[Label]) -> Labels:
        """Return the labels in the order given; repeats and mixed types are refused."""
        listed = [label.item() if isinstance(label, np.generic) else label for label in labels]
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

    @property
    def are_integers(self) -> bool:
        """Whether the labels are integers and not strings."""
        return self.values.dtype.kind == "i"

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.values.tolist())

    def __getitem__(self, code: int) -> Label:
        label: Label = self.values[code : code + 1].tolist()[0]
        return label

    def __contains__(self, label: object) -> bool:
        return label in self._index()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.values.tolist() == other.values.tolist()

    def __hash__(self) -> int:
        return hash(tuple(self.values.tolist()))

    def code(self, label: Label) -> int:
        """Return the code of one label, or ``UNKNOWN``."""
        return self._index().get(label, UNKNOWN)

    def codes(self, labels: Iterable[Label]) -> npt.NDArray[np.int64]:
        """Return the codes of many labels; unknown ones get ``UNKNOWN``."""
        index = self._index()
        listed = labels.tolist() if isinstance(labels, np.ndarray) else labels
        return np.array([index.get(label, UNKNOWN) for label in listed], dtype=np.int64)

    def extended(self, labels: Iterable[Label]) -> Labels:
        """Return these labels followed by those of ``labels`` that are new, codes unchanged."""
        fresh = list(dict.fromkeys(label for label in labels if label not in self))
        return Labels.of([*self, *fresh]) if fresh else self

    def _index(self) -> dict[Label, int]:
        if len(self._codes) < len(self.values):
            self._codes.update((label, code) for code, label in enumerate(self.values.tolist()))
        return self._codes


def as_label_array(labels: Sequence[Label]) -> npt.NDArray[np.int64] | npt.NDArray[np.object_]:
    """Return labels as an array of integers or of strings; anything else is refused."""
    if all(type(label) is int for label in labels):
        return np.array(labels, dtype=np.int64)
    if all(isinstance(label, str) for label in labels):
        return np.array(labels, dtype=np.object_)
    odd = next((x for x in labels if type(x) is not int and not isinstance(x, str)), labels[0])
    raise InputError(
        f"labels must be all strings or all integers, and {odd!r} does not fit; "
        "write them as strings."
    )
