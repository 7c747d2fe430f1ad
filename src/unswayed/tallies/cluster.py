"""A log on a cluster: read, grouped and tallied where its parts lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from unswayed.engine import Blocked, Workers
from unswayed.errors import InputError, option
from unswayed.events import Columns, Labels, OnBadRows, Provenance
from unswayed.events.bad_rows import write_parts
from unswayed.events.databases import is_database
from unswayed.events.files import find_files
from unswayed.events.reading import check_usable
from unswayed.tallies.cluster_parts import (
    HowToRead,
    ReadPart,
    Summary,
    first_bad_row,
    joined_provenance,
    log_parts,
    read_part,
    settled_bins,
    summary_of,
)
from unswayed.tallies.log_data import (
    Dropped,
    LogData,
    PreparedLog,
    digest_of,
    digest_text,
    merged_data,
    tallied,
    users_by_block,
)
from unswayed.tallies.log_tallies import LogTallies, n_blocks_for, sorted_union
from unswayed.tallies.store import Index, has_piece, load_piece, save_index, write_piece
from unswayed.tallies.tallies import BlockedTallies, Tallies


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
    """Tally a log on a cluster; the raw log never comes here.

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
        Where tallies are kept that this log is added to, and what is there already. This machine
        and every worker must see the folder under the same name.
    with_users
        Whether to bring the users' labels here.
    """
    if is_database(source):
        refuse_query()
    log = _read(
        workers,
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
    blocks = _by_user(log.parts.transformed(_data), n_blocks_for(n_events), labels)
    if folder is not None:
        digest = digest_text(blocks.map_blocks(digest_of))
        index = replace(
            before.with_log(digest, log.provenance.to_json(), log.provenance.bins),
            keeps_events=log.keeps_events,
            context_labels=labels[0],
            action_labels=labels[1],
            n_events=n_events,
        )
        blocks, index = _stored(blocks, folder, before, index)
    logs = blocks.transformed(tallied, min_propensity, max_interactions_per_user)
    n_users, dropped = zip(*logs.map_blocks(_size_and_dropped), strict=True)
    users = Labels.of([])
    if with_users:
        users = Labels(np.concatenate(logs.map_blocks(_user_values)))
    uniform = logs.transformed(_uniform, sizes=n_users)
    return PreparedLog(
        tallies=BlockedTallies(uniform, len(labels[0]), len(labels[1])),
        user_labels=users,
        context_labels=labels[0],
        action_labels=labels[1],
        provenance=log.provenance,
        clipped_share=log.clipped_share,
        dropped=Dropped(*map(sum, zip(*dropped, strict=True))),
        n_logs=None if folder is None or index is None else len(index.logs),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _ReadLog:
    """The parts of a log, and what was found in them."""

    parts: Blocked[ReadPart]
    found: list[Summary]
    provenance: Provenance
    keeps_events: bool

    @property
    def clipped_share(self) -> float | None:
        clipped = [part.n_clipped for part in self.found if part.n_clipped is not None]
        n_events = sum(part.n_events for part in self.found)
        return sum(clipped) / n_events if clipped and n_events else None


def _read(
    workers: Workers,
    source: str,
    columns: Columns,
    on_bad_rows: OnBadRows,
    *,
    min_propensity: float,
    keeps_events: bool,
    bins: dict[str, tuple[float, ...]],
) -> _ReadLog:
    """Read the parts of a log, and treat bad rows as one machine would."""
    addresses = log_parts(find_files(source))
    how = HowToRead(
        columns=columns,
        on_bad_rows=on_bad_rows,
        bins=settled_bins(workers, addresses, columns, bins, keep_broken=on_bad_rows.keeps_going),
        min_propensity=min_propensity,
        keeps_events=keeps_events,
    )
    parts = Blocked.made(workers, read_part, [(part, how) for part in addresses])
    found = parts.map_blocks(summary_of)
    provenance = joined_provenance(source, [summary.provenance for summary in found])
    check_usable(provenance, on_bad_rows, first_bad=first_bad_row(found))
    if on_bad_rows.quarantine is not None and provenance.bad_rows:
        write_parts(_bad_rows(parts, found), on_bad_rows)
    return _ReadLog(parts, found, provenance, keeps_events)


def _bad_rows(parts: Blocked[ReadPart], found: list[Summary]) -> Iterator[pa.Table]:
    """Yield the bad rows of each part, then its broken lines: one table at a time comes here."""
    for place, summary in enumerate(found):
        if summary.has_bad_rows:
            yield parts.ask(place, _rows_left_out)
    for place, summary in enumerate(found):
        if summary.has_broken_lines:
            yield parts.ask(place, _lines_left_out)


def _by_user(
    parts: Blocked[LogData], n_blocks: int, labels: tuple[Labels, Labels]
) -> Blocked[LogData]:
    """Return blocks of users, each added up over all parts."""
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


def _data(part: ReadPart) -> LogData:
    return part.data


def _rows_left_out(part: ReadPart) -> pa.Table:
    return None if part.left_out is None else part.left_out.rows


def _lines_left_out(part: ReadPart) -> pa.Table:
    return None if part.left_out is None else part.left_out.lines


def _size_and_dropped(block: tuple[LogTallies, Dropped]) -> tuple[int, Dropped]:
    log, dropped = block
    return len(log.user_labels), dropped


def _user_values(block: tuple[LogTallies, Dropped]) -> Any:
    return block[0].user_labels.values


def _uniform(block: tuple[LogTallies, Dropped]) -> Tallies:
    return block[0].uniform()


def refuse_query() -> NoReturn:
    """Say what to do instead of a query on a cluster."""
    raise InputError(
        "workers cannot open the result of a query: write it to Parquet files in a place that "
        "every worker can open and learn from those, or use "
        f"{option('--engine', 'local', python='learn_log')}."
    )
