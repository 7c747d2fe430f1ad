"""Capping how often a user counts: the same events are kept whatever the order of the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unswayed.errors import InputError, option
from unswayed.events.events import Events
from unswayed.events.hashing import bits, label_hashes, row_hashes


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
    of a user stay depends on their contents alone: events are ranked by a hash of the labels of
    user, context and action, of reward and propensity, and of a running number among events that
    are equal in all of these. The kept events are a pseudo-random sample. Neither the order of the
    log nor the other users change it, so a block of users can be capped by itself.
    """
    check_cap(max_interactions)
    interactions = np.bincount(events.users, minlength=events.n_users)
    over = interactions > max_interactions
    if not over.any():
        return Capped(events, 0, 0)
    rows = np.flatnonzero(over[events.users])
    users, contexts, actions = (
        column[rows].astype(np.int64) for column in (events.users, events.contexts, events.actions)
    )
    numbers = [bits(events.rewards[rows])]
    if events.propensities is not None:
        numbers.append(bits(events.propensities[rows]))
    order = np.lexsort((*numbers, actions, contexts, users))
    users, contexts, actions = users[order], contexts[order], actions[order]
    numbers = [column[order] for column in numbers]
    is_new_user = _changes(users)
    is_new = np.logical_or.reduce([is_new_user, *map(_changes, (contexts, actions, *numbers))])
    hashes = row_hashes(
        np.stack(
            [
                label_hashes(events.user_labels, users),
                label_hashes(events.context_labels, contexts),
                label_hashes(events.action_labels, actions),
                *numbers,
            ]
        ),
        _places(is_new).astype(np.uint64),
    )
    by_hash = np.lexsort((hashes, users))
    keep = np.ones(len(events), np.bool_)
    keep[rows[order[by_hash[_places(is_new_user) >= max_interactions]]]] = False
    return Capped(events.rows(keep), int(over.sum()), int((~keep).sum()))


def check_cap(max_interactions: int) -> None:
    """Reject a cap that leaves nothing."""
    if max_interactions < 1:
        raise InputError(
            f"{option('--max-interactions-per-user')} is {max_interactions}; keep at least one a "
            "user."
        )


def _changes(column: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the one before it."""
    return np.append(True, column[1:] != column[:-1])


def _places(is_first: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the place of each row in its run, from 0, given where runs begin."""
    starts = np.flatnonzero(is_first)
    return np.arange(len(is_first)) - np.repeat(starts, np.diff(np.append(starts, len(is_first))))
