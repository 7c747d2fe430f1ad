"""Attributes of a campaign with features: checked, and put into the leaves of a partition."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unswayed.events.attributes import plain_text
from unswayed.learners.features.encoding import LEVEL_USERS, MOST_LEVELS
from unswayed.policy.partition import Partition
from unswayed.service.errors import Refusal, suggested
from unswayed.service.settings import FeatureSettings, Settings

#: The level of values that are not among a feature's own.
OTHER_LEVEL = "(other)"

#: Ours: bytes of all texts of a request, so that a token stays short.
MOST_BYTES = 1_024

Attributes = dict[str, str | float | None]


def read_attributes(settings: Settings, given: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a request as they are recorded, or refuse them.

    One that is left out is missing. A number with declared bins is the lower edge of its bin. Of a
    category with declared levels any other value is ``OTHER_LEVEL``.
    """
    for name in given.keys() - settings.features.keys():
        raise _refused(f"there is no feature {suggested(name, sorted(settings.features))}")
    found: Attributes = {
        name: _value(name, feature, given.get(name)) for name, feature in settings.features.items()
    }
    n_bytes = sum(len(value.encode()) for value in found.values() if isinstance(value, str))
    if n_bytes > MOST_BYTES:
        raise _refused(f"the attributes have {n_bytes:,} bytes; give {MOST_BYTES:,} at most.")
    return found


def _value(name: str, feature: FeatureSettings, value: Any) -> str | float | None:
    if value is None:
        return None
    if feature.type == "number":
        if isinstance(value, str | bool) or not math.isfinite(value):
            raise _refused(f"attribute {name!r} must be a finite number, or null.")
        return float(value) if not feature.bins else _lower_edge(feature.bins, value)
    text = plain_text(value) or ""
    try:
        text.encode()
        is_text = "\0" not in text  # PostgreSQL takes none
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise _refused(f"attribute {name!r} is not valid Unicode text without NUL.")
    return text if not feature.levels or text in feature.levels else OTHER_LEVEL


def _lower_edge(bins: Sequence[float], value: float) -> float:
    """Return the lower edge of a number's bin; a number below the first edge if there is none."""
    place = bisect_right(bins, value)
    return bins[place - 1] if place else min(bins[0] - 1.0, math.nextafter(bins[0], -math.inf))


def _refused(message: str) -> Refusal:
    return Refusal(422, "bad_attributes", message)


def leaf_of(partition: Partition, attributes: Attributes) -> str | None:
    """Return the leaf of recorded attributes; None if a value is unknown where it matters."""
    placed: dict[str, Any] = {}
    for feature in partition.features:
        value = attributes.get(feature.name)
        is_other = OTHER_LEVEL in feature.levels and value not in feature.levels
        placed[feature.name] = OTHER_LEVEL if is_other and value is not None else value
    return partition.leaf(placed)


def with_common_levels(
    settings: Settings, events: pa.Table, partition: Partition | None = None
) -> pa.Table:
    """Return recorded events in which rare levels of categories are ``OTHER_LEVEL``.

    For a new partition those are rare that fewer than ``LEVEL_USERS`` users have, or that are not
    among the ``MOST_LEVELS`` most common: otherwise accounts could claim any number of leaves.
    """
    known = {} if partition is None else {one.name: one.levels for one in partition.features}
    for name, feature in settings.features.items():
        levels = known.get(name)
        if feature.type == "number" or (levels is not None and OTHER_LEVEL not in levels):
            continue
        column = events[name]
        kept = pa.array(_common(events["user"], column) if levels is None else levels, pa.string())
        is_kept = pc.or_(pc.is_in(column, kept), pc.is_null(column))
        folded = pc.if_else(is_kept, column, OTHER_LEVEL)
        events = events.set_column(events.schema.get_field_index(name), name, folded)
    return events


def _common(users: pa.ChunkedArray, levels: pa.ChunkedArray) -> list[str]:
    """Return the levels that enough users have, the most common first."""
    pairs = pa.table({"user": users, "level": levels}).group_by(["user", "level"]).aggregate([])
    counts = pairs.group_by("level").aggregate([("user", "count")]).to_pylist()
    enough = [row for row in counts if row["level"] and row["user_count"] >= LEVEL_USERS]
    enough.sort(key=lambda row: (-row["user_count"], row["level"]))
    return [row["level"] for row in enough[:MOST_LEVELS]]
