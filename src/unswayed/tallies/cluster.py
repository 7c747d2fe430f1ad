"""Read and tally a log on the workers of a cluster."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from unswayed.arrays import FloatArray
from unswayed.engine import Blocked, Workers, order_statistics
from unswayed.errors import InputError, option
from unswayed.events import Columns, Labels, OnBadRows, Provenance, read_events
from unswayed.events.column_sql import edge_ranks, edges_at, read_numbers, votes_on
from unswayed.events.databases import is_database, quiet_connection
from unswayed.events.reading import LeftOut, check_usable, write_parts
from unswayed.events.sources import Files, damaged_file, find_files
from unswayed.tallies.log_data import (
    Dropped,
    LogData,
    PreparedLog,
    digest_of,
    digest_text,
    merged_data,
    sorted_union,
    tallied,
    tally_events,
    users_by_block,
)
from unswayed.tallies.store import Index, has_piece, load_piece, save_index, write_piece
from unswayed.tallies.tallies import MAX_BLOCKS, NO_LABELS, Tallies, UserTallies, n_blocks_for

#: Ours: rows of a Parquet file that one task reads, in whole row groups.
ROWS_PER_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or some row groups of a Parquet file."""

    address: str
    row_groups: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReadPart:
    """A part of a log as a task read it; ``n_clipped`` counts raised propensities, if any."""

    data: LogData
    provenance: Provenance
    left_out: LeftOut
    n_clipped: int | None


class Summary(NamedTuple):
    """Summary of a part, which is sent to the driver."""

    context_labels: Labels
    action_labels: Labels
    n_events: int
    n_clipped: int | None
    provenance: Provenance
    first_bad: int | None


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


def read_part(
    part: Part,
    columns: Columns,
    on_bad_rows: OnBadRows,
    bins: dict[str, tuple[float, ...]],
    min_propensity: float,
    keeps_events: bool,
) -> ReadPart:
    """Read one part and tally it; it can be run again anywhere and gives the same bits.

    ``bins`` holds the edges of binned columns.
    """
    reading = read_events(
        _rows_of(part, columns, None),
        columns=columns,
        on_bad_rows=on_bad_rows,
        bins=bins,
        name=part.address,
        is_part=True,
    )
    events = reading.events
    n_clipped = None
    if events.propensities is not None:
        n_clipped = int((events.propensities < min_propensity).sum())
    data = events if keeps_events else tally_events(events, min_propensity=min_propensity)
    return ReadPart(data, reading.provenance, reading.left_out or LeftOut(), n_clipped)


def numbers_of_part(part: Part, columns: Columns, keep_broken: bool) -> pa.Table:
    """Return the columns that are to be cut into bins, with hashes that identify users."""
    rows = _rows_of(part, columns, (columns.user, *columns.bins))
    return read_numbers(rows, columns, name=part.address, keep_broken=keep_broken)


def summary_of(part: ReadPart) -> Summary:
    """Return the summary of a part."""
    data = part.data
    labels = (data.context_labels, data.action_labels)
    return Summary(*labels, data.n_events, part.n_clipped, part.provenance, part.left_out.first)


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
    users = numbers.regrouped(_numbers_by_block, pa.concat_tables, n_blocks, n_blocks)
    edges = {}
    for position, (column, n_bins) in enumerate(missing.items()):
        votes = users.transformed(_votes, position)
        n_votes = sum(votes.map_blocks(len))
        found = order_statistics(votes, edge_ranks(n_votes, n_bins)) if n_votes else []
        edges[column] = edges_at(found, column)
    return {**given, **edges}


def _numbers_by_block(numbers: pa.Table, n_blocks: int) -> list[pa.Table]:
    """Return the rows of the users of each block."""
    block = numbers["lower"].to_numpy() % np.uint64(n_blocks)
    return [numbers.filter(pa.array(block == number)) for number in range(n_blocks)]


def _votes(numbers: pa.Table, position: int) -> FloatArray:
    with quiet_connection() as connection:
        connection.register("numbers", numbers)
        return votes_on(connection, "numbers", position)


def tally_on_cluster(
    workers: Workers,
    source: str,
    *,
    columns: Columns,
    on_bad_rows: OnBadRows,
    min_propensity: float,
    max_interactions_per_user: int | None = None,
    folder: Path | None = None,
    index: Index | None = None,
    with_users: bool = False,
) -> PreparedLog:
    """Tally a log on a cluster; the driver never loads the raw log.

    Each part is read and tallied by one task, its users cut into ranges of their hash, and each
    range added up over all parts: a shuffle of tallies instead of rows. Sums are exact, so the
    blocks are the same bits as those that one machine cuts from the whole log. A cap needs all
    events of a user, so with one, events are shuffled.

    Parameters
    ----------
    workers
        The workers of the cluster.
    source, columns, on_bad_rows
        As ``read_events`` takes them; every worker can open the source.
    min_propensity, max_interactions_per_user
        As ``learn_log`` takes them.
    folder, index
        Folder of tallies to which this log is added, and its index. This machine and every worker
        must see the folder under the same name.
    with_users
        Whether to return the users' labels.
    """
    if is_database(source):
        refuse_query()
    before = index or Index()
    keeps_events = max_interactions_per_user is not None or before.keeps_events
    parts, found = _read(
        workers, source, columns, on_bad_rows, min_propensity, keeps_events, dict(before.bins)
    )
    provenance = joined_provenance(source, [summary.provenance for summary in found])
    check_usable(provenance, on_bad_rows, first_bad=first_bad_row(found))
    if on_bad_rows.quarantine is not None and provenance.bad_rows:
        write_parts(_bad_rows(parts, found), on_bad_rows)
    labels = (
        sorted_union([before.context_labels, *(s.context_labels for s in found)], "contexts"),
        sorted_union([before.action_labels, *(s.action_labels for s in found)], "actions"),
    )
    n_events = before.n_events + sum(summary.n_events for summary in found)
    blocks = _by_user(parts.transformed(attrgetter("data")), n_blocks_for(n_events), labels)
    if folder is not None:
        digest = digest_text(blocks.map_blocks(digest_of))
        index = replace(
            before.with_log(digest, provenance.to_json(), provenance.bins),
            keeps_events=keeps_events,
            context_labels=labels[0],
            action_labels=labels[1],
            n_events=n_events,
        )
        blocks, index = _stored(blocks, folder, before, index)
    logs = blocks.transformed(tallied, min_propensity, max_interactions_per_user)
    n_users, dropped = zip(*logs.map_blocks(_size_and_dropped), strict=True)
    users = NO_LABELS
    if with_users:
        users = Labels(np.concatenate(logs.map_blocks(_user_values)))
    uniform = logs.transformed(_uniform, sizes=n_users)
    return PreparedLog(
        tallies=UserTallies(uniform, len(labels[0]), len(labels[1]), users, *labels),
        provenance=provenance,
        clipped_share=_clipped_share(found),
        dropped=Dropped(*map(sum, zip(*dropped, strict=True))),
        n_logs=None if folder is None or index is None else len(index.logs),
    )


def _read(
    workers: Workers,
    source: str,
    columns: Columns,
    on_bad_rows: OnBadRows,
    min_propensity: float,
    keeps_events: bool,
    bins: dict[str, tuple[float, ...]],
) -> tuple[Blocked[ReadPart], list[Summary]]:
    """Read the parts of a log; return them, and what was found in them."""
    parts = log_parts(find_files(source))
    settled = settled_bins(workers, parts, columns, bins, keep_broken=on_bad_rows.keeps_going)
    how = (columns, on_bad_rows, settled, min_propensity, keeps_events)
    read = Blocked.made(workers, read_part, [(part, *how) for part in parts])
    return read, read.map_blocks(summary_of)


def _clipped_share(found: Sequence[Summary]) -> float | None:
    """Return the share of the propensities that were raised; None without propensities."""
    clipped = [part.n_clipped for part in found if part.n_clipped is not None]
    n_events = sum(part.n_events for part in found)
    return sum(clipped) / n_events if clipped and n_events else None


def _bad_rows(parts: Blocked[ReadPart], found: Sequence[Summary]) -> Iterator[pa.Table]:
    """Yield the bad rows of all parts, then the broken lines: one table at a time comes here."""
    for kind in ("rows", "lines"):
        for place, summary in enumerate(found):
            if summary.provenance.bad_rows:
                table: pa.Table | None = parts.ask(place, attrgetter(f"left_out.{kind}"))
                if table is not None and len(table):
                    yield table


def _by_user(
    parts: Blocked[LogData], n_blocks: int, labels: tuple[Labels, Labels]
) -> Blocked[LogData]:
    """Return blocks of users, each summed over all parts."""
    merge = partial(merged_data, context_labels=labels[0], action_labels=labels[1])
    return parts.regrouped(users_by_block, merge, n_blocks, n_blocks)


def _stored(
    fresh: Blocked[LogData], folder: Path, before: Index, index: Index
) -> tuple[Blocked[LogData], Index]:
    """Add blocks to those of a folder, and return what it holds then.

    The new pieces are read back from the folder: were they kept as sums of the old ones, a worker
    that dies would need files that are gone by then.
    """
    labels, workers = (index.context_labels, index.action_labels), fresh.workers
    total = fresh
    if before.pieces:
        calls = [(before, folder, name) for name in before.pieces]
        old = _by_user(Blocked.made(workers, load_piece, calls), fresh.n_blocks, labels)
        total = old.combined(fresh, _merged, *labels)
    names = index.piece_names(fresh.n_blocks)
    total.map_blocks(_write, folder, pieces=names)
    if not all(has_piece(folder, name) for name in names):
        raise InputError(
            f"the workers wrote their tallies to {folder}, and this machine does not see them; "
            f"give {option('--tallies')} a folder that all machines share."
        )
    index = replace(index, pieces=names)
    save_index(folder, index)
    return Blocked.made(workers, load_piece, [(index, folder, name) for name in names]), index


def _merged(old: LogData, fresh: LogData, context_labels: Labels, action_labels: Labels) -> LogData:
    labels = {"context_labels": context_labels, "action_labels": action_labels}
    return merged_data([old, fresh], **labels)


def _write(data: LogData, name: str, folder: Path) -> None:
    write_piece(folder, name, data)


def _size_and_dropped(block: tuple[Tallies, Dropped]) -> tuple[int, Dropped]:
    log, dropped = block
    return len(log.user_labels), dropped


def _user_values(block: tuple[Tallies, Dropped]) -> Any:
    return block[0].user_labels.values


def _uniform(block: tuple[Tallies, Dropped]) -> Tallies:
    # Labels are not needed on the workers, which would send them along.
    return block[0].uniform().labelled(NO_LABELS, NO_LABELS, NO_LABELS)


def refuse_query() -> NoReturn:
    """Reject a query: workers read files."""
    raise InputError(
        "workers cannot open the result of a query: write it to Parquet files in a place that "
        "every worker can open and learn from those, or use "
        f"{option('--engine', 'local', python='learn_log')}."
    )
