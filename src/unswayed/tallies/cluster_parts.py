"""Parts of a log, each read by one task wherever a worker is free; edges of bins over all parts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from unswayed.arrays import FloatArray
from unswayed.engine import Blocked, Workers, order_statistics
from unswayed.errors import InputError
from unswayed.events import Columns, Labels, OnBadRows, Provenance, read_events
from unswayed.events.bad_rows import LeftOut
from unswayed.events.bins import edge_ranks, edges_at, read_numbers, votes_on
from unswayed.events.databases import quiet_connection
from unswayed.events.files import Files
from unswayed.events.sources import damaged_file
from unswayed.tallies.log_data import LogData, n_events_of
from unswayed.tallies.log_tallies import MAX_BLOCKS, tally_events

#: Ours: rows of a Parquet file that one task reads, in whole row groups.
ROWS_PER_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or some row groups of a Parquet file."""

    address: str
    row_groups: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToRead:
    """What a task must know to read a part; ``bins`` holds the edges of binned columns."""

    columns: Columns
    on_bad_rows: OnBadRows
    bins: dict[str, tuple[float, ...]]
    min_propensity: float
    keeps_events: bool


@dataclass(frozen=True, slots=True, eq=False)
class ReadPart:
    """What a task made of a part. ``n_clipped`` counts small propensities, if there are any."""

    data: LogData
    provenance: Provenance
    left_out: LeftOut | None
    n_clipped: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What the driver gets to see of a part."""

    context_labels: Labels
    action_labels: Labels
    n_events: int
    n_clipped: int | None
    provenance: Provenance
    first_bad: int | None
    has_bad_rows: bool
    has_broken_lines: bool


def log_parts(files: Files) -> list[Part]:
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


def read_part(part: Part, how: HowToRead) -> ReadPart:
    """Read one part and tally it; it can be run again anywhere and gives the same bits."""
    reading = read_events(
        _rows_of(part, how.columns, None),
        columns=how.columns,
        on_bad_rows=how.on_bad_rows,
        bins=how.bins,
        name=part.address,
        is_part=True,
    )
    events = reading.events
    n_clipped = None
    if events.propensities is not None:
        n_clipped = int((events.propensities < how.min_propensity).sum())
    data: LogData = events
    if not how.keeps_events:
        data = tally_events(events, min_propensity=how.min_propensity)
    return ReadPart(data, reading.provenance, reading.left_out, n_clipped)


def numbers_of_part(part: Part, columns: Columns, keep_broken: bool) -> pa.Table:
    """Return the columns that are to be cut into bins, with hashes that identify users."""
    rows = _rows_of(part, columns, (columns.user, *columns.bins))
    return read_numbers(rows, columns, name=part.address, keep_broken=keep_broken)


def summary_of(part: ReadPart) -> Summary:
    """Return what the driver gets to see."""
    data, rest = part.data, part.left_out or LeftOut()
    return Summary(
        data.context_labels,
        data.action_labels,
        n_events_of(data),
        part.n_clipped,
        part.provenance,
        rest.first,
        rest.rows is not None and len(rest.rows) > 0,
        rest.lines is not None,
    )


def joined_provenance(source: str, parts: Sequence[Provenance]) -> Provenance:
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


def first_bad_row(summaries: Sequence[Summary]) -> int | None:
    """Return the number of the first bad row of all parts, from 1."""
    starts = np.cumsum([0, *(summary.provenance.n_rows for summary in summaries)])
    found = (
        int(start) + summary.first_bad
        for start, summary in zip(starts, summaries, strict=False)
        if summary.first_bad is not None
    )
    return next(found, None)


def _rows_of(part: Part, columns: Columns, wanted: Sequence[str] | None) -> Any:
    """Return what to read: an address, or the rows of a part of a Parquet file."""
    if part.row_groups is None:
        return part.address
    try:
        with fsspec.open(part.address, "rb") as file:
            parquet = pyarrow.parquet.ParquetFile(file)
            needed = columns.found_in(parquet.schema_arrow.names, where=part.address).needed
            return parquet.read_row_groups(part.row_groups, columns=list(wanted or needed))
    except InputError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(damaged_file(part.address, str(error))) from error


def settled_bins(
    workers: Workers,
    parts: Sequence[Part],
    columns: Columns,
    given: dict[str, tuple[float, ...]],
    *,
    keep_broken: bool,
) -> dict[str, tuple[float, ...]]:
    """Return the inner edges of every binned column, exactly those of ``robust_edges``.

    Edges that are given stay. A user's votes need all of the user's values, so these, and hashes of
    the users, are shuffled between the workers. Edges are then found by counting votes; only counts
    come here.
    """
    missing = {column: n for column, n in columns.bins.items() if column not in given}
    if not missing:
        return given
    wanted = replace(columns, bins=missing)
    calls = [(part, wanted, keep_broken) for part in parts]
    n_blocks = min(len(parts), MAX_BLOCKS)
    numbers = Blocked.made(workers, numbers_of_part, calls)
    users = numbers.regrouped(_by_user, pa.concat_tables, n_blocks, n_blocks)
    edges = {}
    for position, (column, n_bins) in enumerate(missing.items()):
        votes = users.transformed(_votes, position)
        n_votes = sum(votes.map_blocks(len))
        found = order_statistics(votes, edge_ranks(n_votes, n_bins)) if n_votes else []
        edges[column] = edges_at(found, column)
    return {**given, **edges}


def _by_user(numbers: pa.Table, n_blocks: int) -> list[pa.Table]:
    """Return the rows of the users that belong to each block; any fair choice would do."""
    block = numbers["lower"].to_numpy() % np.uint64(n_blocks)
    return [numbers.filter(pa.array(block == number)) for number in range(n_blocks)]


def _votes(numbers: pa.Table, position: int) -> FloatArray:
    with quiet_connection() as connection:
        connection.register("numbers", numbers)
        return votes_on(connection, "numbers", position)
