"""Origin of a policy: enough to tell whether another log has the same events."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unswayed.arrays import IntArray
from unswayed.events import Labels
from unswayed.events.hashing import user_hashes

Relation = Literal["same", "overlapping", "other", "unknown"]

BINS = 256
"""Number of accounts in the sketch. Each is represented by eight bits of its hash: enough to tell
whether two logs share accounts, too few to identify an account."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Fingerprint of a log.

    ``users`` is a sketch of the accounts: for each of 256 ranges of hashes, eight bits of the
    smallest hash in hexadecimal, or two dots if the range is empty. It is empty if the accounts are
    unknown.
    """

    digest: str  # digest of the event counts of all cells
    users: str = ""
    first_time: str | None = None  # in the format of the log; None without times
    last_time: str | None = None

    @classmethod
    def of(
        cls,
        contexts: Labels,
        actions: Labels,
        counts: IntArray,
        users: Labels,
        times: tuple[str | None, str | None] = (None, None),
    ) -> Origin:
        """Return the origin of a log; ``counts`` has shape (n_contexts, n_actions)."""
        is_met, is_played = counts.any(axis=1), counts.any(axis=0)
        names = [contexts.values[is_met].tolist(), actions.values[is_played].tolist()]
        digest = hashlib.blake2b(json.dumps(names).encode(), digest_size=16)
        digest.update(counts[np.ix_(is_met, is_played)].astype("<i8").tobytes())
        if not len(users):
            return cls(digest.hexdigest(), "", *times)
        hashes = np.sort(user_hashes(users))
        bins, first = np.unique(hashes >> np.uint64(56), return_index=True)
        marks = [".."] * BINS
        smallest = (hashes[first] & np.uint64(0xFF)).tolist()
        for place, mark in zip(bins.tolist(), smallest, strict=True):
            marks[place] = f"{mark:02x}"
        return cls(digest.hexdigest(), "".join(marks), *times)

    def to_json(self) -> dict[str, Any]:
        """Return the origin as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, value: object) -> Origin | None:
        """Return the origin that ``to_json`` wrote, or None for other values."""
        if not isinstance(value, Mapping) or not isinstance(value.get("digest"), str):
            return None
        texts = {name: value.get(name) for name in cls.__slots__}
        return cls(**{name: text for name, text in texts.items() if isinstance(text, str)})

    def relation(self, other: Origin) -> Relation:
        """Return how the events of two logs are related, as far as it is known.

        Logs of disjoint periods or different accounts are different. Without times, logs with the
        same accounts may or may not share events.
        """
        one, two = _span(self), _span(other)
        are_timed = False
        if one is not None and two is not None and type(one[0]) is type(two[0]):
            are_timed = True
            if one[1] < two[0] or two[1] < one[0]:
                return "other"
        if self.digest == other.digest:
            return "same"
        if not self.users or not other.users:
            return "unknown"
        if not _share_users(self.users, other.users):
            return "other"
        return "overlapping" if are_timed else "unknown"


def _share_users(one: str, other: str) -> bool:
    """Return whether two sketches agree more often than by chance."""
    pairs = [(one[k : k + 2], other[k : k + 2]) for k in range(0, 2 * BINS, 2)]
    filled = [(a, b) for a, b in pairs if ".." not in (a, b)]
    by_chance = len(filled) / 256.0
    return sum(a == b for a, b in filled) > by_chance + 3.0 * math.sqrt(by_chance)


def _span(origin: Origin) -> tuple[Any, Any] | None:
    """Return the first and last time, as numbers if they are numeric; None without times."""
    if origin.first_time is None or origin.last_time is None:
        return None
    try:
        return float(origin.first_time), float(origin.last_time)
    except ValueError:
        return origin.first_time, origin.last_time
