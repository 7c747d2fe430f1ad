"""Read and tally a log on the workers of a cluster."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from unswayed.engine import Blocked, Workers
from unswayed.errors import InputError
from unswayed.events import Columns, Events, Labels, Provenance, read_events
from unswayed.events.attributes import UNKNOWN_VALUE, AttributeColumn, joined_columns
from unswayed.events.reading import check_usable, read_edges
from unswayed.events.sources import Files, damaged_file, find_files
from unswayed.tallies.log_data import (
    PreparedLog,
    merged_events,
    merged_logs,
    sorted_union,
    tally_events,
)
from unswayed.tallies.tallies import NO_LABELS, Tallies, UserTallies, n_blocks_for, user_bounds

#: Ours: rows of a Parquet file that one task reads, in whole row groups.
ROWS_PER_PART = 1 << 20


Attributes = Mapping[str, AttributeColumn]

#: Returns events with the leaves of their attributes as contexts; sent to the workers.
Place = Callable[[Events, Attributes], Events]

#: Returns all events of a log; what learns a partition of their attributes needs them.
Gather = Callable[[], tuple[Events, Attributes]]


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or some row groups of a Parquet file."""

    address: str
    row_groups: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReadPart:
    """A part of a log as a task read it; the driver gets it without its data.

    ``data`` are events until their attributes have leaves, and then tallies. ``n_clipped`` counts
    raised propensities, if there are any; ``first_bad`` is the number of the first bad row, from 1.
    """

    data: Tallies | Events | None
    provenance: Provenance
    first_bad: int | None
    n_clipped: int | None
    context_labels: Labels
    action_labels: Labels
    n_events: int
    attributes: Attributes = field(default_factory=dict)


def tally_on_cluster(
    workers: Workers,
    source: str,
    *,
    columns: Columns,
    on_bad_rows: str,
    min_propensity: float,
    with_users: bool = False,
    shaping: Callable[[Gather], Place] | None = None,
) -> PreparedLog:
    """Tally a log on a cluster; the driver loads the raw log only to learn a partition from it.

    Each part is read and tallied by one task, its users cut into ranges of their hash, and each
    range added up over all parts: a shuffle of tallies instead of rows. Sums are exact, so the
    blocks are the same bits as those that one machine cuts from the whole log.

    Parameters
    ----------
    workers
        The workers of the cluster.
    source, columns, on_bad_rows
        As ``read_events`` takes them; every worker can open the source.
    min_propensity
        As ``learn_log`` takes it.
    with_users
        Whether to return the users' labels.
    shaping
        How contexts come from features, if they do.
    """
    columns = read_edges(source, columns, keep_broken=on_bad_rows == "drop")
    calls = [
        (part, columns, on_bad_rows, min_propensity) for part in _log_parts(find_files(source))
    ]
    parts = Blocked.made(workers, _read_part, calls)
    found = parts.map_blocks(_without_data)
    provenance = _joined_provenance(source, [part.provenance for part in found])
    check_usable(provenance, _first_bad_row(found))
    if shaping is not None:
        place = shaping(partial(_gathered, parts))
        parts = parts.transformed(_placed, place, min_propensity)
        found = parts.map_blocks(_without_data)
        provenance = _joined_provenance(source, [part.provenance for part in found])
    labels = (
        sorted_union([part.context_labels for part in found], "contexts"),
        sorted_union([part.action_labels for part in found], "actions"),
    )
    n_blocks = n_blocks_for(sum(part.n_events for part in found))
    merge = partial(merged_logs, context_labels=labels[0], action_labels=labels[1])
    tallies = parts.transformed(attrgetter("data"))
    blocks = tallies.regrouped(_users_by_block, merge, n_blocks, n_blocks)
    users = NO_LABELS
    if with_users:
        users = Labels(np.concatenate(blocks.map_blocks(attrgetter("user_labels.values"))))
    sizes = tuple(blocks.map_blocks(attrgetter("n_users")))
    uniform = blocks.transformed(_uniform, sizes=sizes)
    return PreparedLog(
        tallies=UserTallies(uniform, len(labels[0]), len(labels[1]), users, *labels),
        provenance=provenance,
        clipped_share=_clipped_share(found),
    )


def _log_parts(files: Files) -> list[Part]:
    """Cut files into parts for one task each; only the footers of Parquet files are read."""
    addresses = [files.file_system.unstrip_protocol(path) for path in files.paths]
    if files.format != "parquet":
        return [Part(address) for address in addresses]
    parts = []
    for position, address in enumerate(addresses):
        try:
            with files.opened(position) as file:
                footer = pyarrow.parquet.ParquetFile(file).metadata
                sizes = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InputError(damaged_file(address, str(error))) from error
        firsts = [total // ROWS_PER_PART for total in itertools.accumulate(sizes, initial=0)]
        for _, groups in itertools.groupby(range(len(sizes)), key=firsts.__getitem__):
            parts.append(Part(address, tuple(groups)))
    return parts


def _read_part(part: Part, columns: Columns, on_bad_rows: str, min_propensity: float) -> ReadPart:
    """Read one part and tally it; it can be run again anywhere and gives the same bits."""
    reading = read_events(
        _rows_of(part, columns),
        columns=columns,
        on_bad_rows=on_bad_rows,
        name=part.address,
        is_part=True,
    )
    events = reading.events
    n_clipped = None
    if events.propensities is not None:
        n_clipped = int((events.propensities < min_propensity).sum())
    data = events if columns.features else tally_events(events, min_propensity=min_propensity)
    return ReadPart(
        data,
        reading.provenance,
        reading.first_bad,
        n_clipped,
        events.context_labels,
        events.action_labels,
        len(events),
        reading.attributes,
    )


def _placed(part: ReadPart, place: Place, min_propensity: float) -> ReadPart:
    """Return a part with leaves as contexts."""
    assert isinstance(part.data, Events)
    events = place(part.data, part.attributes)
    return replace(
        part,
        data=tally_events(events, min_propensity=min_propensity),
        provenance=part.provenance.without(len(part.data) - len(events), UNKNOWN_VALUE),
        context_labels=events.context_labels,
        n_events=len(events),
        attributes={},
    )


def _gathered(parts: Blocked[ReadPart]) -> tuple[Events, dict[str, AttributeColumn]]:
    """Return the events and attributes of all parts, as reading them as one log would."""
    pairs: list[tuple[Events, Attributes]] = parts.map_blocks(attrgetter("data", "attributes"))
    events = merged_events([part for part, _ in pairs])
    return events, joined_columns([columns for _, columns in pairs])


def _rows_of(part: Part, columns: Columns) -> Any:
    """Return what to read: an address, or the rows of a part of a Parquet file."""
    if part.row_groups is None:
        return part.address
    try:
        with fsspec.open(part.address, "rb") as file:
            parquet = pyarrow.parquet.ParquetFile(file)
            needed = columns.found_in(parquet.schema_arrow.names, where=part.address).needed
            return parquet.read_row_groups(part.row_groups, columns=list(needed))
    except InputError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(damaged_file(part.address, str(error))) from error


def _without_data(part: ReadPart) -> ReadPart:
    return replace(part, data=None, attributes={})


def _joined_provenance(source: str, parts: Sequence[Provenance]) -> Provenance:
    """Return what was read from a log, given what was read from its parts."""
    bad_rows: Counter[str] = Counter()
    for part in parts:
        bad_rows.update(part.bad_rows)
    firsts = [part.first_time for part in parts if part.first_time is not None]
    lasts = [part.last_time for part in parts if part.last_time is not None]
    return replace(
        parts[0],
        source=source,
        n_rows=sum(part.n_rows for part in parts),
        bad_rows=dict(sorted(bad_rows.items())),
        first_time=min(firsts, default=None),
        last_time=max(lasts, default=None),
    )


def _first_bad_row(parts: Sequence[ReadPart]) -> int | None:
    """Return the number of the first bad row of all parts, from 1."""
    starts = itertools.accumulate((part.provenance.n_rows for part in parts), initial=0)
    found = (
        start + part.first_bad
        for start, part in zip(starts, parts, strict=False)
        if part.first_bad is not None
    )
    return next(found, None)


def _clipped_share(parts: Sequence[ReadPart]) -> float | None:
    """Return the share of the propensities that were raised; None without propensities."""
    clipped = [part.n_clipped for part in parts if part.n_clipped is not None]
    n_events = sum(part.n_events for part in parts)
    return sum(clipped) / n_events if clipped and n_events else None


def _users_by_block(tallies: Tallies, n_blocks: int) -> list[Tallies]:
    """Return the tallies of the users whose hash is in each block's range."""
    bounds = user_bounds(tallies.user_labels, n_blocks)
    return [tallies.of_range(first, last) for first, last in itertools.pairwise(bounds)]


def _uniform(tallies: Tallies) -> Tallies:
    # Labels are not needed on the workers, which would send them along.
    return tallies.uniform().labelled(NO_LABELS, NO_LABELS, NO_LABELS)
