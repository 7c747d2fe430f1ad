"""Down-sampling of events: a cap per user, and exponential forgetting by age."""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError, option
from unswayed.events.events import Events
from unswayed.events.hashing import bits, label_hashes, row_hashes, user_hashes


def capped(events: Events, *, max_interactions: int) -> Events:
    """Keep at most ``max_interactions`` events of each user, chosen by a hash of the event.

    The model bounds c_L, the ratio of interactions between users; the cap enforces it. Events of a
    user are ranked by a hash of their labels, reward and propensity, and of a running number among
    equal ones, so the kept events are a pseudo-random sample. The sample depends neither on the
    order of the log nor on other users, so a block of users can be capped independently.
    """
    check_cap(max_interactions)
    interactions = np.bincount(events.users, minlength=events.n_users)
    over = interactions > max_interactions
    if not over.any():
        return events
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
    return events.rows(keep)


def check_cap(max_interactions: int) -> None:
    """Reject a cap below one."""
    if max_interactions < 1:
        raise InputError(
            f"{option('--max-interactions-per-user')} is {max_interactions}; keep at least one per "
            "user."
        )


def _changes(column: npt.NDArray[np.generic]) -> BoolArray:
    """Mark the start of each run of equal values."""
    return np.append(True, column[1:] != column[:-1])


def _places(is_first: BoolArray) -> IntArray:
    """Return the position of each row in its run, from 0; ``is_first`` marks starts of runs."""
    starts = np.flatnonzero(is_first)
    return np.arange(len(is_first)) - np.repeat(starts, np.diff(np.append(starts, len(is_first))))


SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}

TOLERANCE = SECONDS["d"]  # Ours: tolerated difference of clocks and time zones, a day
START = 7  # Salt of the hash that gives each user a random offset


def forgotten(events: Events, *, half_life: float) -> Events:
    """Keep an event of age t, measured from the last event, with probability 2^(−t/half_life).

    Users, contexts and actions without remaining events are dropped.

    Whole plays are kept, so every method works as on a full log. Each user's plays are visited from
    the newest to the oldest and kept whenever the sum of their probabilities passes a whole number,
    with an offset from a hash of the user's label (systematic sampling). So the number of plays a
    user keeps differs from the sum of their probabilities by less than one, and depends neither on
    rewards nor on the order of the log nor on other users.

    >>> log = Events.of(["ann"] * 3, ["home"] * 3, ["tea"] * 3, [1, 2, 3], times=[0, 80, 90])
    >>> forgotten(log, half_life=10.0).rewards.tolist()
    [3.0]
    """
    if events.times is None:
        raise InputError(
            f"{option('--half-life')} needs the time of every event, and these events have none."
        )
    if not len(events):
        return events.with_used_labels()
    is_kept = np.zeros(len(events), np.bool_)
    weights = np.exp2((events.times - events.times.max()) / half_life)
    # Equal times are ordered by the other columns, so that the order of the log does not matter.
    order = np.lexsort(
        (events.rewards, events.actions, events.contexts, -events.times, events.users)
    )
    # A hash other than the one that orders users; otherwise neighbours would have similar offsets.
    hashes = user_hashes(events.user_labels)
    starts = row_hashes(hashes[None, :], np.full(len(hashes), START, np.uint64)) / 2.0**64
    is_kept[order] = _passes(events.users[order].astype(np.int64), weights[order], starts)
    return events.rows(is_kept).with_used_labels()


@compiled
def _passes(users: IntArray, weights: FloatArray, starts: FloatArray) -> BoolArray:
    """Mark the events at which a user's cumulative weight passes an integer."""
    result = np.zeros(len(users), np.bool_)
    total = 0.0
    for row in range(len(users)):
        if row == 0 or users[row] != users[row - 1]:
            total = starts[users[row]]
        total += weights[row]
        if total >= 1.0:
            result[row] = True
            total -= 1.0
    return result


def parsed_half_life(value: float | str) -> float:
    """Return a half-life in seconds, or in the unit of a numeric time column if it has no unit.

    >>> parsed_half_life("7d"), parsed_half_life("1.5 h"), parsed_half_life(20)
    (604800.0, 5400.0, 20.0)
    """
    found = re.fullmatch(r"\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*([a-z]?)\s*", str(value).lower())
    try:
        length = float(found[1]) * (SECONDS[found[2]] if found[2] else 1.0) if found else math.nan
    except (ValueError, KeyError):
        length = math.nan
    if not (length > 0.0 and math.isfinite(length)):
        raise InputError(
            f"{option('--half-life')} is {value!r}: give a length of time above 0, such as 12h, 7d "
            "or 2w (s, m, h, d, w), or a number in the unit of a numeric time column."
        )
    return length
