"""Data of a log between reading and learning: tallies, or events if a cap or half-life applies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.events import Events, Labels, Provenance
from unswayed.events.hashing import (
    HashArray,
    bits,
    label_hashes,
    row_hashes,
    union_of_users,
    user_hashes,
)
from unswayed.events.thinning import capped, forgotten
from unswayed.tallies.log_tallies import (
    LogTallies,
    merged_logs,
    sorted_union,
    tally_events,
    user_bounds,
)
from unswayed.tallies.tallies import UserTallies, entry_users

#: Seeds of the two 64-bit hash sums that make up a digest.
_SEEDS = (1, 2)

Digest = tuple[int, ...]

#: Sums, or events where a cap or a half-life may still be applied; both can be merged.
LogData = LogTallies | Events


class Dropped(NamedTuple):
    """How many users were capped, and how many events a cap and a half-life left out."""

    n_users_capped: int = 0
    n_events_dropped: int = 0
    n_events_forgotten: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedLog:
    """A tallied log with what reading it showed; input of the learning step.

    Attributes
    ----------
    tallies
        As if every action had been played with probability 1/A.
    user_labels, context_labels, action_labels
        What the codes stand for. The users may be left out, where their labels lie elsewhere.
    provenance
        What was read.
    clipped_share
        Share of the propensities that were raised; None without propensities.
    dropped
        What does not count.
    windows
        With a half-life, tallies of all events before the last one and in it, if there are any.
    n_logs
        Logs in the folder of tallies; None without a folder.
    is_new
        Whether a log was read, and not just the folder.
    shape
        How contexts were learned from features (``learners.features``); None if they were given.
    """

    tallies: UserTallies
    user_labels: Labels
    context_labels: Labels
    action_labels: Labels
    provenance: Provenance
    clipped_share: float | None = None
    dropped: Dropped = field(default_factory=Dropped)
    windows: tuple[LogTallies, LogTallies] | None = None
    n_logs: int | None = None
    is_new: bool = True
    shape: Any = None

    @property
    def times(self) -> tuple[str | None, str | None]:
        """First and last time; not known of several logs together."""
        if self.n_logs not in (None, 1):
            return None, None
        return self.provenance.first_time, self.provenance.last_time


def tallied(
    data: LogData,
    min_propensity: float,
    max_interactions_per_user: int | None,
    half_life: float | None = None,
) -> tuple[LogTallies, Dropped]:
    """Return the tallies of a log's data; a half-life and a cap are for events only."""
    if isinstance(data, LogTallies):
        return data, Dropped()
    n_users_capped = n_events_dropped = n_events_forgotten = 0
    if half_life is not None:
        remembered = forgotten(data, half_life=half_life)
        data, n_events_forgotten = remembered.events, remembered.n_events_dropped
    if max_interactions_per_user is not None:
        sampled = capped(data, max_interactions=max_interactions_per_user)
        data, n_users_capped = sampled.events, sampled.n_users_capped
        n_events_dropped = sampled.n_events_dropped
    dropped = Dropped(n_users_capped, n_events_dropped, n_events_forgotten)
    return tally_events(data, min_propensity=min_propensity), dropped


def n_events_of(data: LogData) -> int:
    """Return the number of events."""
    if isinstance(data, Events):
        return len(data)
    return int(data.tallies.plays.sum())


def merged_data(
    parts: Sequence[LogData],
    *,
    context_labels: Labels | None = None,
    action_labels: Labels | None = None,
) -> LogData:
    """Merge the data of several logs; all tallies or all events."""
    labels = {"context_labels": context_labels, "action_labels": action_labels}
    sums = [part for part in parts if isinstance(part, LogTallies)]
    if len(sums) == len(parts):
        return merged_logs(sums, **labels)
    events = [part for part in parts if isinstance(part, Events)]
    if len(events) == len(parts):
        return merged_events(events, **labels)
    raise InputError("events and sums of events cannot be added up; collect both the same way.")


def merged_events(
    parts: Sequence[Events],
    *,
    context_labels: Labels | None = None,
    action_labels: Labels | None = None,
) -> Events:
    """Return the events of several logs under the codes that reading them as one would give."""
    user_labels, user_codes = union_of_users([part.user_labels for part in parts])
    if context_labels is None:
        context_labels = sorted_union([part.context_labels for part in parts], "contexts")
    if action_labels is None:
        action_labels = sorted_union([part.action_labels for part in parts], "actions")
    filled = [part for part in parts if len(part)] or parts[:1]
    pairs = list(zip(parts, user_codes, strict=True))
    return Events(
        np.concatenate([codes[part.users] for part, codes in pairs]),
        np.concatenate(
            [context_labels.codes(part.context_labels)[part.contexts] for part in parts]
        ).astype(np.int32),
        np.concatenate(
            [action_labels.codes(part.action_labels)[part.actions] for part in parts]
        ).astype(np.int32),
        np.concatenate([part.rewards for part in parts]),
        user_labels,
        context_labels,
        action_labels,
        _all_or_none("propensities", [part.propensities for part in filled]),
        _all_or_none("times", [part.times for part in filled]),
    )


def _all_or_none(name: str, columns: Sequence[FloatArray | None]) -> FloatArray | None:
    """Return a column of all parts, or None if none has it."""
    found = [column for column in columns if column is not None]
    if len(found) not in (0, len(columns)):
        raise InputError(
            f"a log with {name} and one without cannot be added up; read both the same way."
        )
    return np.concatenate(found) if found else None


def users_by_block(data: LogData, n_blocks: int) -> list[LogData]:
    """Return the data of the users whose hash is in each block's range."""
    bounds = user_bounds(data.user_labels, n_blocks)
    return [_users(data, first, last) for first, last in itertools.pairwise(bounds)]


def _users(data: LogData, first: int, last: int) -> LogData:
    """Return the data of the users from ``first`` up to ``last``."""
    user_labels = Labels(data.user_labels.values[first:last])
    if isinstance(data, LogTallies):
        tallies = data.tallies.of_range(first, last)
        return replace(data, tallies=tallies, user_labels=user_labels)
    inside = data.rows((data.users >= first) & (data.users < last))
    return replace(inside, users=inside.users - first, user_labels=user_labels)


def check_dated(data: LogData, folder: str | Path | None) -> Events:
    """Return the data if it has events with times, or say that it has not."""
    if isinstance(data, Events) and data.times is not None:
        return data
    raise InputError(
        f"the tallies in {folder} were begun without {option('--half-life')} and hold no times; "
        "start in a new folder to forget."
    )


def windows_of(events: Events, half_life: float) -> tuple[LogTallies, LogTallies] | None:
    """Return the tallies of a log before its last half-life and in it, or None if one is empty."""
    assert events.times is not None  # see check_dated
    is_after = events.times > events.times.max(initial=-np.inf) - half_life
    if is_after.all():
        return None
    return tally_events(events.rows(~is_after)), tally_events(events.rows(is_after))


def digest_of(data: LogData) -> Digest:
    """Digest of a log: sums of row hashes, additive over parts with disjoint (user, cell) pairs."""
    if isinstance(data, Events):
        users = data.users.astype(np.int64)
        contexts, actions = data.contexts.astype(np.int64), data.actions.astype(np.int64)
        numbers = [bits(data.rewards)]
        if data.propensities is not None:
            numbers.append(bits(data.propensities))
        if data.times is not None:
            numbers.append(bits(data.times))
    else:
        tallies = data.tallies
        users = entry_users(tallies.indptr)
        contexts, actions = np.divmod(tallies.cells.astype(np.int64), max(tallies.n_actions, 1))
        numbers = [bits(column) for column in (tallies.counts, tallies.sums, tallies.squares)]
    labels: list[HashArray] = [
        user_hashes(data.user_labels)[users],
        label_hashes(data.context_labels, contexts),
        label_hashes(data.action_labels, actions),
    ]
    columns = np.stack([*labels, *numbers])
    return tuple(
        int(row_hashes(columns, np.full(len(users), seed, np.uint64)).sum(dtype=np.uint64))
        for seed in _SEEDS
    )


def digest_text(parts: Sequence[Digest]) -> str:
    """Return the digest of parts together, as text."""
    return "".join(f"{sum(sums) % (1 << 64):016x}" for sums in zip(*parts, strict=True))
