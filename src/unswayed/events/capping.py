"""Capping how often a user counts: the same events are kept whatever the order of the log."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.events.events import Events


@dataclass(frozen=True, slots=True)
class Capped:
    """Events after capping, and how many users and events that touched."""

    events: Events
    n_users_capped: int
    n_events_dropped: int


def capped(events: Events, *, max_interactions: int) -> Capped:
    """Keep at most ``max_interactions`` events of each user, chosen by a hash of the event.

    Notes
    -----
    The model bounds the ratio of interactions between users, c_L; this enforces it. Which events
    stay depends on their contents alone: events are ranked by a hash of user, context, action,
    reward, propensity and a running number among events that are equal in all of these. The kept
    events are a pseudo-random sample, and reordering the log changes nothing.
    """
    if max_interactions < 1:
        raise InputError(f"max_interactions is {max_interactions}; keep at least one a user.")
    interactions = np.bincount(events.users, minlength=events.n_users)
    over = interactions > max_interactions
    if not over.any():
        return Capped(events, 0, 0)
    rows = np.flatnonzero(over[events.users])
    columns = [events.users, events.contexts, events.actions, _bits(events.rewards)]
    if events.propensities is not None:
        columns.append(_bits(events.propensities))
    contents = np.stack([column[rows].astype(np.int64) for column in columns])
    order = np.lexsort(contents[::-1])
    ranked = contents[:, order]
    hashes = _event_hashes(ranked)
    by_hash = np.lexsort((hashes, ranked[0]))
    place = np.arange(len(rows)) - np.repeat(
        _run_starts(ranked[0]), np.diff(np.append(_run_starts(ranked[0]), len(rows)))
    )
    keep = np.ones(len(events), np.bool_)
    keep[rows[order[by_hash[place >= max_interactions]]]] = False
    kept = replace(
        events,
        users=events.users[keep],
        contexts=events.contexts[keep],
        actions=events.actions[keep],
        rewards=events.rewards[keep],
        propensities=None if events.propensities is None else events.propensities[keep],
    )
    return Capped(kept, int(over.sum()), int((~keep).sum()))


def _bits(column: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(column).view(np.int64)


def _run_starts(users: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where runs of equal values begin."""
    return np.flatnonzero(np.append(True, users[1:] != users[:-1]))


@compiled
def _event_hashes(contents: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hash the columns of sorted contents, equal ones told apart by a running number."""
    n_columns, n_events = contents.shape
    hashes = np.empty(n_events, np.uint64)
    repeat = 0
    for event in range(n_events):
        is_repeat = event > 0
        for column in range(n_columns):
            is_repeat = is_repeat and contents[column, event] == contents[column, event - 1]
        repeat = repeat + 1 if is_repeat else 0
        state = np.uint64(repeat)
        for column in range(n_columns):
            # The finaliser of splitmix64: every bit of the input moves every bit of the hash.
            state = state ^ np.uint64(contents[column, event])
            state = state + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
        hashes[event] = state
    return hashes
