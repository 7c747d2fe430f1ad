"""A log on a Dask cluster: read, grouped and tallied where its parts lie."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import fsspec
import pyarrow.parquet

from unswayed.errors import InputError
from unswayed.events import Columns, Labels, OnBadRows, Provenance, read_events
from unswayed.events.databases import is_database
from unswayed.events.files import Files, find_files
from unswayed.tallies.blocked import BlockedTallies, n_blocks_for, row_slice, user_bounds
from unswayed.tallies.blocks import DaskBlocks
from unswayed.tallies.labelled import LabelledTallies, merged_logs, sorted_union, tally_events

#: Ours: rows of a Parquet file that one task reads, in whole row groups.
ROWS_PER_PART = 1 << 20


#: Ours: how long to try to reach a scheduler.
CONNECT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or some row groups of a Parquet file."""

    address: str
    row_groups: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ClusterLog:
    """The tallies of a log on a cluster; the raw log never comes here.

    ``labelled`` are futures of each block's tallies with its users.
    """

    tallies: BlockedTallies
    context_labels: Labels
    action_labels: Labels
    provenance: Provenance
    labelled: DaskBlocks[LabelledTallies]


@contextmanager
def connected(scheduler: str | None) -> Iterator[Any]:
    """Yield a Dask client: of the scheduler at an address, or of processes on this machine."""
    try:
        distributed: Any = import_module("distributed")  # publishes no types
    except ImportError as error:
        raise InputError(
            "the Dask engine needs more packages; install them with "
            "pip install 'unswayed[cluster]'."
        ) from error
    if scheduler is None:
        # One thread each: a block is worked on by one thread, here as on any other engine.
        with (
            distributed.LocalCluster(
                n_workers=os.cpu_count() or 1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise InputError(f"there is no Dask scheduler at {scheduler}: {error}.") from error
    with client:
        yield client


def tally_on_cluster(
    client: Any,
    source: str,
    *,
    columns: Columns,
    on_bad_rows: OnBadRows,
    min_propensity: float,
) -> ClusterLog:
    """Tally a log on a cluster.

    Each part is read and tallied by one task, its users cut into ranges of their hash, and each
    range added up over all parts: a shuffle of tallies instead of rows. Sums are exact, so the
    blocks are the same bits as those that one machine cuts from the whole log.
    """
    _check_options(source, columns, on_bad_rows)
    parts = log_parts(find_files(source))
    read = [
        client.submit(_read_part, part, columns, on_bad_rows, min_propensity, pure=False)
        for part in parts
    ]
    summaries = client.gather([client.submit(_summary, future, pure=False) for future in read])
    context_labels = sorted_union([summary.context_labels for summary in summaries], "contexts")
    action_labels = sorted_union([summary.action_labels for summary in summaries], "actions")
    n_blocks = n_blocks_for(sum(summary.n_events for summary in summaries))
    blocks = []
    for block in range(n_blocks):
        slices = [client.submit(_slice, future, n_blocks, block, pure=False) for future in read]
        blocks.append(client.submit(_merged, slices, context_labels, action_labels, pure=False))
    labelled: DaskBlocks[LabelledTallies] = DaskBlocks(client, blocks)
    tallies = BlockedTallies(
        labelled.transformed(LabelledTallies.uniform),
        tuple(labelled.map_blocks(_n_users)),
        len(context_labels),
        len(action_labels),
    )
    provenance = _joined(source, [summary.provenance for summary in summaries])
    return ClusterLog(tallies, context_labels, action_labels, provenance, labelled)


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
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot read {address}: it is damaged or cut short, or not what its name says "
                f"({error})."
            ) from error
        firsts = [total // ROWS_PER_PART for total in itertools.accumulate(sizes, initial=0)]
        for _, groups in itertools.groupby(range(len(sizes)), key=firsts.__getitem__):
            parts.append(Part(address, tuple(groups)))
    return parts


@dataclass(frozen=True, slots=True, eq=False)
class _ReadPart:
    labelled: LabelledTallies
    provenance: Provenance


@dataclass(frozen=True, slots=True, eq=False)
class _Summary:
    context_labels: Labels
    action_labels: Labels
    n_events: int
    provenance: Provenance


def _read_part(
    part: Part, columns: Columns, on_bad_rows: OnBadRows, min_propensity: float
) -> _ReadPart:
    """Read and tally one part; it can be run again anywhere and gives the same bits."""
    source: Any = part.address
    if part.row_groups is not None:
        with fsspec.open(part.address, "rb") as file:
            parquet = pyarrow.parquet.ParquetFile(file)
            needed = columns.found_in(parquet.schema_arrow.names, where=part.address).needed
            source = parquet.read_row_groups(part.row_groups, columns=list(needed))
    reading = read_events(
        source, columns=columns, on_bad_rows=on_bad_rows, name=part.address, is_part=True
    )
    labelled = tally_events(reading.events, min_propensity=min_propensity)
    return _ReadPart(labelled, reading.provenance)


def _summary(part: _ReadPart) -> _Summary:
    labelled = part.labelled
    n_events = int(labelled.tallies.plays.sum())
    return _Summary(labelled.context_labels, labelled.action_labels, n_events, part.provenance)


def _slice(part: _ReadPart, n_blocks: int, block: int) -> LabelledTallies:
    """Return the users of one part that belong to a block."""
    labelled = part.labelled
    first, last = user_bounds(labelled.user_labels, n_blocks)[block : block + 2]
    return replace(
        labelled,
        tallies=row_slice(labelled.tallies, first, last),
        user_labels=Labels(labelled.user_labels.values[first:last]),
    )


def _merged(
    slices: list[LabelledTallies], context_labels: Labels, action_labels: Labels
) -> LabelledTallies:
    return merged_logs(slices, context_labels=context_labels, action_labels=action_labels)


def _n_users(labelled: LabelledTallies) -> int:
    return len(labelled.user_labels)


def _joined(source: str, provenances: Sequence[Provenance]) -> Provenance:
    bad_rows: Counter[str] = Counter()
    for provenance in provenances:
        bad_rows.update(provenance.bad_rows)
    firsts = [p.first_time for p in provenances if p.first_time is not None]
    lasts = [p.last_time for p in provenances if p.last_time is not None]
    return replace(
        provenances[0],
        source=source,
        n_rows=sum(provenance.n_rows for provenance in provenances),
        bad_rows=dict(bad_rows),
        first_time=min(firsts, default=None),
        last_time=max(lasts, default=None),
    )


def _check_options(source: str, columns: Columns, on_bad_rows: OnBadRows) -> None:
    reason = None
    if is_database(source):
        reason = "a query"
    elif columns.bins:
        reason = "--context-bins"
    elif on_bad_rows.quarantine is not None:
        reason = "--on-bad-rows quarantine"
    if reason is not None:
        raise InputError(f"{reason} needs the whole log in one place; use --engine local.")
