"""A log on a Dask cluster: read, grouped and tallied where its parts lie."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from unswayed.errors import InputError, option
from unswayed.events import Columns, Labels, OnBadRows, Provenance
from unswayed.events.databases import is_database
from unswayed.events.files import find_files
from unswayed.events.quarantine import write_parts
from unswayed.events.reading import check_usable
from unswayed.tallies.blocked import BlockedTallies, n_blocks_for
from unswayed.tallies.blocks import Blocks, DaskBlocks
from unswayed.tallies.cluster_bins import edges_on_cluster
from unswayed.tallies.cluster_blocks import shuffled, stored_blocks, with_log
from unswayed.tallies.cluster_parts import (
    HowToRead,
    Part,
    ReadPart,
    Summary,
    first_bad_row,
    joined_provenance,
    log_parts,
    read_part,
    summary_of,
)
from unswayed.tallies.collected import Collected, Tallied, tallied
from unswayed.tallies.labelled import LabelledTallies, sorted_union
from unswayed.tallies.store import Index

#: Ours: how long to try to reach a scheduler.
CONNECT_SECONDS = 10


@dataclass(frozen=True, slots=True, eq=False)
class ClusterLog:
    """The tallies of a log on a cluster; the raw log never comes here.

    ``labelled`` are futures of each block's tallies with its users. ``clipped_share`` is the share
    of propensities that were raised, None without propensities; ``index`` says what the folder of
    tallies holds now, if there is one.
    """

    tallies: BlockedTallies
    context_labels: Labels
    action_labels: Labels
    provenance: Provenance
    labelled: Blocks[LabelledTallies]
    clipped_share: float | None
    n_users_capped: int
    n_events_dropped: int
    index: Index | None


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


@contextmanager
def explained_losses(scheduler: str | None) -> Iterator[None]:
    """Say in one sentence that the scheduler or all workers were lost."""
    log = logging.getLogger("distributed.client")  # which would add a traceback to that
    log.addFilter(_nothing)
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        is_foreign = type(error).__module__.partition(".")[0] in ("dask", "distributed", "tornado")
        if not (is_foreign or isinstance(error, ConnectionError | TimeoutError | CancelledError)):
            raise
        where = f"at {scheduler} " if scheduler else ""
        raise InputError(
            f"the Dask cluster {where}was lost ({type(error).__name__}); what was there before is "
            "unchanged. Check its scheduler and workers, and run this again."
        ) from error
    finally:
        log.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


def tally_on_cluster(
    client: Any,
    source: str,
    *,
    columns: Columns,
    on_bad_rows: OnBadRows,
    min_propensity: float,
    max_interactions_per_user: int | None = None,
    folder: Path | None = None,
    index: Index | None = None,
) -> ClusterLog:
    """Tally a log on a cluster.

    Each part is read and tallied by one task, its users cut into ranges of their hash, and each
    range added up over all parts: a shuffle of tallies instead of rows. Sums are exact, so the
    blocks are the same bits as those that one machine cuts from the whole log. A cap needs all
    events of a user, so with one, events are shuffled.

    Parameters
    ----------
    client
        A Dask client.
    source, columns, on_bad_rows
        As ``read_events`` takes them; every worker can open the source.
    min_propensity, max_interactions_per_user
        As ``learn_log`` takes them.
    folder, index
        Where tallies are kept that this log is added to, and what is there already. This machine
        and every worker must see the folder under the same name.
    """
    if is_database(source):
        refuse_query()
    log = _read(
        client,
        source,
        columns,
        on_bad_rows,
        min_propensity=min_propensity,
        keeps_events=max_interactions_per_user is not None
        or (index is not None and index.keeps_events),
        bins={} if index is None else dict(index.bins),
    )
    before = index or Index()
    labels = (
        sorted_union([before.context_labels, *(s.context_labels for s in log.found)], "contexts"),
        sorted_union([before.action_labels, *(s.action_labels for s in log.found)], "actions"),
    )
    n_events = before.n_events + sum(summary.n_events for summary in log.found)
    n_blocks = n_blocks_for(n_events)
    blocks: DaskBlocks[Collected] = shuffled(client, log.parts, n_blocks, labels)
    if folder is not None:
        index = replace(
            with_log(before, blocks, log.provenance),
            keeps_events=log.keeps_events,
            context_labels=labels[0],
            action_labels=labels[1],
            n_events=n_events,
        )
        blocks = stored_blocks(client, blocks, folder, before, index)
        index = replace(index, pieces=index.piece_names(n_blocks))
    summed = blocks.transformed(tallied, min_propensity, max_interactions_per_user)
    caps = summed.map_blocks(_cap)
    labelled = summed.transformed(_labelled)
    tallies = BlockedTallies(
        labelled.transformed(LabelledTallies.uniform),
        tuple(labelled.map_blocks(_n_users)),
        len(labels[0]),
        len(labels[1]),
    )
    return ClusterLog(
        tallies,
        *labels,
        log.provenance,
        labelled,
        log.clipped_share,
        sum(n_users for n_users, _ in caps),
        sum(n_dropped for _, n_dropped in caps),
        index,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _ReadLog:
    """Futures of the parts of a log, and what was found in them."""

    parts: list[Any]
    found: list[Summary]
    provenance: Provenance
    keeps_events: bool

    @property
    def clipped_share(self) -> float | None:
        clipped = [part.n_clipped for part in self.found if part.n_clipped is not None]
        n_events = sum(part.n_events for part in self.found)
        return sum(clipped) / n_events if clipped and n_events else None


def _read(
    client: Any,
    source: str,
    columns: Columns,
    on_bad_rows: OnBadRows,
    *,
    min_propensity: float,
    keeps_events: bool,
    bins: dict[str, tuple[float, ...]],
) -> _ReadLog:
    """Read the parts of a log, and treat bad rows as one machine would."""
    parts = log_parts(find_files(source))
    how = HowToRead(
        columns=columns,
        on_bad_rows=on_bad_rows,
        bins=_settled_bins(client, parts, columns, bins, keep_broken=on_bad_rows.keeps_going),
        min_propensity=min_propensity,
        keeps_events=keeps_events,
    )
    read = [client.submit(read_part, part, how, pure=False) for part in parts]
    found = client.gather([client.submit(summary_of, part, pure=False) for part in read])
    provenance = joined_provenance(source, [summary.provenance for summary in found])
    check_usable(provenance, on_bad_rows, first_bad=first_bad_row(found))
    if on_bad_rows.quarantine is not None and provenance.bad_rows:
        write_parts(_bad_rows(client, read, found), on_bad_rows)
    return _ReadLog(read, found, provenance, keeps_events)


def _settled_bins(
    client: Any,
    parts: Sequence[Part],
    columns: Columns,
    given: dict[str, tuple[float, ...]],
    *,
    keep_broken: bool,
) -> dict[str, tuple[float, ...]]:
    """Return the edges of every binned column; those that are given stay."""
    missing = {column: n for column, n in columns.bins.items() if column not in given}
    if not missing:
        return given
    wanted = replace(columns, bins=missing)
    return {**given, **edges_on_cluster(client, parts, wanted, keep_broken=keep_broken)}


def _bad_rows(client: Any, read: Sequence[Any], found: Sequence[Summary]) -> Iterator[pa.Table]:
    """Yield the bad rows of each part, then its broken lines: one table at a time comes here."""
    for part, summary in zip(read, found, strict=True):
        if summary.has_bad_rows:
            yield client.submit(_rows_left_out, part, pure=False).result()
    for part, summary in zip(read, found, strict=True):
        if summary.has_broken_lines:
            yield client.submit(_lines_left_out, part, pure=False).result()


def _rows_left_out(part: ReadPart) -> pa.Table:
    return None if part.left_out is None else part.left_out.rows


def _lines_left_out(part: ReadPart) -> pa.Table:
    return None if part.left_out is None else part.left_out.lines


def _cap(summed: Tallied) -> tuple[int, int]:
    return summed.n_users_capped, summed.n_events_dropped


def _labelled(summed: Tallied) -> LabelledTallies:
    return summed.labelled


def _n_users(labelled: LabelledTallies) -> int:
    return len(labelled.user_labels)


def refuse_query() -> NoReturn:
    """Say what to do instead of a query on a cluster."""
    raise InputError(
        "workers cannot open the result of a query: write it to Parquet files in a place that "
        "every worker can open and learn from those, or use "
        f"{option('--engine', 'local', python='learn_log')}."
    )
