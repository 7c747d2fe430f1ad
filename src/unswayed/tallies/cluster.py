"""Read and tally a log on the workers of a cluster."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from unswayed.engine import Blocked, Workers
from unswayed.errors import InputError
from unswayed.events import Columns, Labels, Provenance, read_events
from unswayed.events.reading import Place, read_edges
from unswayed.events.sources import damaged_file, find_files
from unswayed.tallies.log_data import PreparedLog, merged_logs, prepared, sorted_union
from unswayed.tallies.tallies import NO_LABELS, Tallies, UserTallies, n_blocks_for, user_bounds

ROWS_PER_PART = 1 << 20  # Ours: rows of a Parquet file that one task reads, in whole row groups


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or some row groups of a Parquet file."""

    address: str
    row_groups: tuple[int, ...] | None = None


def tally_on_cluster(
    workers: Workers,
    source: str,
    *,
    columns: Columns,
    on_bad_rows: str,
    min_propensity: float,
    with_users: bool = False,
    place: Place | None = None,
) -> PreparedLog:
    """Tally a log on a cluster; the driver never loads the raw log.

    Each part is read and tallied by one task, its users cut into ranges of their hash, and each
    range added up over all parts: a shuffle of tallies instead of rows. Sums are exact, so the
    blocks have the same bits as those cut from the whole log on one machine.

    Every worker must be able to open the source. ``with_users`` says whether to return the users'
    labels; ``place`` maps features to contexts.
    """
    columns = read_edges(source, columns, keep_broken=on_bad_rows == "drop")
    parts = Blocked.made(
        workers,
        _read_part,
        [(part, columns, on_bad_rows, min_propensity, place) for part in _log_parts(source)],
    )
    found = parts.map_blocks(_without_rows)
    provenance = Provenance.joined(source, [part.provenance for part in found])
    provenance.check_usable()
    labels = (
        sorted_union([part.tallies.context_labels for part in found], "contexts"),
        sorted_union([part.tallies.action_labels for part in found], "actions"),
    )
    n_blocks = n_blocks_for(provenance.n_events)
    merge = partial(merged_logs, context_labels=labels[0], action_labels=labels[1])
    tallies = parts.transformed(attrgetter("tallies"))
    blocks = tallies.regrouped(_users_by_block, merge, n_blocks, n_blocks)
    users = NO_LABELS
    if with_users:
        users = Labels(np.concatenate(blocks.map_blocks(attrgetter("user_labels.values"))))
    sizes = tuple(blocks.map_blocks(attrgetter("n_users")))
    uniform = blocks.transformed(_uniform, sizes=sizes)
    clipped = [part.n_clipped for part in found if part.n_clipped is not None]
    return PreparedLog(
        tallies=UserTallies(uniform, len(labels[0]), len(labels[1]), users, *labels),
        provenance=provenance,
        n_clipped=sum(clipped) if clipped else None,
    )


def _log_parts(source: str) -> list[Part]:
    """Cut files into parts for one task each; only the footers of Parquet files are read."""
    files = find_files(source)
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


def _read_part(
    part: Part, columns: Columns, on_bad_rows: str, min_propensity: float, place: Place | None
) -> PreparedLog:
    """Read and tally one part; the result is the same, bit for bit, on every worker."""
    reading = read_events(
        _rows_of(part, columns),
        columns=columns,
        on_bad_rows=on_bad_rows,
        name=part.address,
        is_part=True,
    )
    return prepared(
        reading if place is None else reading.placed(place), min_propensity=min_propensity
    )


def _rows_of(part: Part, columns: Columns) -> Any:
    """Return the source of a part: an address, or the rows of some row groups."""
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


def _without_rows(part: PreparedLog) -> PreparedLog:
    """Return a part without the rows of its tallies, to be sent to the driver."""
    assert isinstance(part.tallies, Tallies)
    return replace(part, tallies=part.tallies.of_range(0, 0))


def _users_by_block(tallies: Tallies, n_blocks: int) -> list[Tallies]:
    """Return the tallies of the users whose hash is in each block's range."""
    bounds = user_bounds(tallies.user_labels, n_blocks)
    return [tallies.of_range(first, last) for first, last in itertools.pairwise(bounds)]


def _uniform(tallies: Tallies) -> Tallies:
    # Labels are not needed on the workers, so they are not sent.
    return tallies.uniform().labelled(NO_LABELS, NO_LABELS, NO_LABELS)
