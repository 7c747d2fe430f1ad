"""Data of a log between reading and learning: tallies, or events if a cap or half-life applies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
from unswayed.tallies.summing import row_sums
from unswayed.tallies.tallies import (
    Tallies,
    UserTallies,
    entry_users,
    summed,
    tally,
    user_bounds,
)

#: Ours. Smaller propensities count as this one, so that no event weighs more than a hundred.
MIN_PROPENSITY = 0.01

MOST_ACTIVE = 3.0
"""Ours: cap on a user's plays, in multiples of the median, when a phase is measured."""

#: Seeds of the two 64-bit hash sums that make up a digest.
_SEEDS = (1, 2)

Digest = tuple[int, ...]

#: Sums, or events where a cap or a half-life may still be applied; both can be merged.
LogData = Tallies | Events


def tally_events(events: Events, *, min_propensity: float = MIN_PROPENSITY) -> Tallies:
    """Return the tallies of a log; importance-weighted when it has propensities.

    ``min_propensity`` clips the weights: it trades a bias, towards too small weights of very rare
    actions, for a bounded influence of each event.
    """
    check_min_propensity(min_propensity)
    weights = None
    if events.propensities is not None:
        weights = 1.0 / np.maximum(events.propensities, min_propensity)
    tallies = tally(
        events.users,
        events.contexts,
        events.actions,
        events.rewards,
        n_users=events.n_users,
        n_contexts=events.n_contexts,
        n_actions=events.n_actions,
        weights=weights,
    )
    if weights is not None and not (
        np.isfinite(tallies.counts).all() and np.isfinite(tallies.squares).all()
    ):
        raise InputError(
            f"the weighted sums of rewards overflow: raise {option('--min-propensity')} or rescale "
            "the rewards."
        )
    return tallies.labelled(events.user_labels, events.context_labels, events.action_labels)


def check_min_propensity(value: float) -> None:
    """Reject what is no probability above 0."""
    if not 0.0 < value <= 1.0:
        raise InputError(
            f"{option('--min-propensity')} is {value}: it must be above 0 and at most 1."
        )


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
        As if every action had been played with probability 1/A. Users on a cluster may lack labels.
    provenance
        Source, size and columns of the log.
    clipped_share
        Share of the propensities that were raised; None without propensities.
    dropped
        Events left out by the cap and the half-life.
    windows
        With a half-life, tallies before the last half-life and within it, if neither is empty.
    n_logs
        Logs in the folder of tallies; None without a folder.
    is_new
        Whether a log was read, and not just the folder.
    shape
        How contexts were learned from features (``learners.features``); None if they were given.
    """

    tallies: UserTallies
    provenance: Provenance
    clipped_share: float | None = None
    dropped: Dropped = field(default_factory=Dropped)
    windows: tuple[Tallies, Tallies] | None = None
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
) -> tuple[Tallies, Dropped]:
    """Return the tallies of events after a half-life and a cap; tallies stay as they are."""
    if isinstance(data, Tallies):
        return data, Dropped()
    n_events, n_users_capped = len(data), 0
    if half_life is not None:
        data = forgotten(data, half_life=half_life)
    n_remembered = len(data)
    if max_interactions_per_user is not None:
        n_users_capped = int((np.bincount(data.users) > max_interactions_per_user).sum())
        data = capped(data, max_interactions=max_interactions_per_user)
    dropped = Dropped(n_users_capped, n_remembered - len(data), n_events - n_remembered)
    return tally_events(data, min_propensity=min_propensity), dropped


def merged_logs(
    parts: Sequence[Tallies],
    *,
    context_labels: Labels | None = None,
    action_labels: Labels | None = None,
) -> Tallies:
    """Return the tallies of several logs together, exactly as if they had been read as one.

    Parameters
    ----------
    parts
        The tallies of each log, with labels.
    context_labels, action_labels
        Labels to code by, if there are more than in these parts.

    Notes
    -----
    Labels are put in the order in which ``read_events`` codes them, and sums are exact (see
    ``summing.grouped_sums``), so the result depends neither on how the log was cut nor on the
    order of the parts.
    """
    if not parts:
        raise InputError("there are no tallies to add up.")
    union = _Union.of(parts, context_labels, action_labels)
    users, cells = [], []
    for part, (new_users, new_contexts, new_actions) in zip(parts, union.codes, strict=True):
        contexts, actions = np.divmod(part.cells, part.n_actions)
        users.append(new_users[entry_users(part.indptr)])
        cells.append(new_contexts[contexts] * np.int32(len(union.labels[2])) + new_actions[actions])
    tallies = summed(parts, users, cells, *map(len, union.labels))
    return tallies.labelled(*union.labels)


class _Union(NamedTuple):
    """Labels of several logs together, and for each log the new codes of its own.

    Both are triples: of users, contexts and actions.
    """

    labels: tuple[Labels, Labels, Labels]
    codes: Sequence[tuple[npt.NDArray[np.int32], ...]]

    @classmethod
    def of(
        cls, parts: Sequence[LogData], contexts: Labels | None, actions: Labels | None
    ) -> _Union:
        users, user_codes = union_of_users([part.user_labels for part in parts])
        if contexts is None:
            contexts = sorted_union([part.context_labels for part in parts], "contexts")
        if actions is None:
            actions = sorted_union([part.action_labels for part in parts], "actions")
        codes = [
            (
                own,
                contexts.codes(part.context_labels).astype(np.int32),
                actions.codes(part.action_labels).astype(np.int32),
            )
            for part, own in zip(parts, user_codes, strict=True)
        ]
        return cls((users, contexts, actions), codes)


def sorted_union(parts: Sequence[Labels], role: str) -> Labels:
    """Return the labels of all parts in their own order, in which ``read_events`` codes them."""
    kinds = {part.type_name for part in parts if len(part)}
    if len(kinds) > 1:
        raise InputError(
            f"{role} are of different types ({', '.join(sorted(kinds))}) in logs that should be "
            "added up; write them all as strings."
        )
    return Labels.of(sorted({label for part in parts for label in part}))


def merged_data(
    parts: Sequence[LogData],
    *,
    context_labels: Labels | None = None,
    action_labels: Labels | None = None,
) -> LogData:
    """Merge the data of several logs; all tallies or all events."""
    labels = {"context_labels": context_labels, "action_labels": action_labels}
    sums = [part for part in parts if isinstance(part, Tallies)]
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
    union = _Union.of(parts, context_labels, action_labels)
    filled = [part for part in parts if len(part)] or parts[:1]
    coded = [(part.users, part.contexts, part.actions) for part in parts]
    pairs = list(zip(union.codes, coded, strict=True))
    users, contexts, actions = (
        np.concatenate([new[place][old[place]] for new, old in pairs]) for place in range(3)
    )
    return Events(
        users,
        contexts,
        actions,
        np.concatenate([part.rewards for part in parts]),
        *union.labels,
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
    return [data.of_range(first, last) for first, last in itertools.pairwise(bounds)]


def check_dated(data: LogData, folder: str | Path | None) -> Events:
    """Return the data if its events have times; raise otherwise."""
    if isinstance(data, Events) and data.times is not None:
        return data
    raise InputError(
        f"the tallies in {folder} were begun without {option('--half-life')} and hold no times; "
        "start in a new folder to forget."
    )


def windows_of(events: Events, half_life: float) -> tuple[Tallies, Tallies] | None:
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
        users = entry_users(data.indptr)
        contexts, actions = np.divmod(data.cells.astype(np.int64), max(data.n_actions, 1))
        numbers = [bits(column) for column in (data.counts, data.sums, data.squares)]
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


Phases = tuple[Tallies, ...]


def with_log(phases: Phases, log: Tallies) -> Phases:
    """Return the phases with one more log; logs with the same actions become one phase."""
    for place, phase in enumerate(phases):
        if phase.is_weighted == log.is_weighted and set(phase.action_labels) == set(
            log.action_labels
        ):
            together = merged_logs([phase, log])
            return (*phases[:place], together, *phases[place + 1 :])
    return (*phases, log)


def without_action(phases: Phases, action: object) -> Phases:
    """Return the phases without the plays of one action."""
    kept: Phases = ()
    for phase in phases:
        others = phase.without_action(action) if action in phase.action_labels else phase
        kept = with_log(kept, others)
    return kept


def combined(phases: Phases) -> Tallies:
    """Return one log of several phases.

    Notes
    -----
    An action that was added late could not be played before, and would look worse than it is if
    plays weighed by the probability within their phase. By the balance heuristic (Veach & Guibas
    1995) a play weighs 1/p̄, its action's probability averaged over all plays of all phases. That is
    right if contexts are as frequent in every phase.
    """
    if len(phases) == 1:
        return phases[0]
    actions = sorted_union([phase.action_labels for phase in phases], "actions")
    expected = np.zeros(len(actions))
    for phase in phases:
        codes = actions.codes(phase.action_labels)
        expected[codes] += _length(phase) / len(codes)
    likely = expected / expected.sum()
    return merged_logs(
        [_weighted(phase, likely[actions.codes(phase.action_labels)]) for phase in phases]
    )


def _length(phase: Tallies) -> float:
    """Return the number of plays in a phase, with very active users capped."""
    plays = row_sums(phase.indptr, phase.plays)
    active = plays[plays > 0]
    return float(np.minimum(active, MOST_ACTIVE * np.median(active)).sum()) if len(active) else 0.0


def _weighted(phase: Tallies, likely: Sequence[float] | FloatArray) -> Tallies:
    """Return a phase whose plays weigh by the inverse probability of their action."""
    tallies = phase.uniform()
    return tallies.scaled((1.0 / np.asarray(likely))[tallies.cells % tallies.n_actions])
