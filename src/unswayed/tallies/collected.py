"""What is kept of a log until it is learned from: its sums, or its events when a cap needs them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unswayed.errors import InputError
from unswayed.events import Events, Labels
from unswayed.events.capping import capped
from unswayed.events.user_order import union_of_users
from unswayed.tallies.blocked import row_slice, user_bounds
from unswayed.tallies.labelled import LabelledTallies, merged_logs, sorted_union, tally_events

#: Both add up, user by user. Events are larger, and a cap can be put on them at any time.
Collected = LabelledTallies | Events


@dataclass(frozen=True, slots=True, eq=False)
class Tallied:
    """Tallies to learn from, and how many users and events a cap touched on the way."""

    labelled: LabelledTallies
    n_users_capped: int = 0
    n_events_dropped: int = 0


def tallied(
    collected: Collected, min_propensity: float, max_interactions_per_user: int | None
) -> Tallied:
    """Return the tallies of what was collected; a cap is for events only."""
    if isinstance(collected, LabelledTallies):
        return Tallied(collected)
    if max_interactions_per_user is None:
        return Tallied(tally_events(collected, min_propensity=min_propensity))
    result = capped(collected, max_interactions=max_interactions_per_user)
    return Tallied(
        tally_events(result.events, min_propensity=min_propensity),
        result.n_users_capped,
        result.n_events_dropped,
    )


def n_events_of(collected: Collected) -> int:
    """Return how many events were collected."""
    if isinstance(collected, Events):
        return len(collected)
    return int(collected.tallies.plays.sum())


def merged_collections(
    parts: Sequence[Collected],
    *,
    context_labels: Labels | None = None,
    action_labels: Labels | None = None,
) -> Collected:
    """Return what several logs collected, as if they had been read as one; all of one kind."""
    labels = {"context_labels": context_labels, "action_labels": action_labels}
    sums = [part for part in parts if isinstance(part, LabelledTallies)]
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
    propensities = [part.propensities for part in filled if part.propensities is not None]
    if len(propensities) not in (0, len(filled)):
        raise InputError(
            "a log with propensities and one without cannot be added up; read both the same way."
        )
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
        np.concatenate(propensities) if propensities else None,
    )


def users_by_block(collected: Collected, n_blocks: int) -> list[Collected]:
    """Return what was collected of the users whose hash is in each block's range."""
    bounds = user_bounds(collected.user_labels, n_blocks)
    return [_users(collected, first, last) for first, last in itertools.pairwise(bounds)]


def _users(collected: Collected, first: int, last: int) -> Collected:
    """Return what was collected of the users from ``first`` up to ``last``."""
    user_labels = Labels(collected.user_labels.values[first:last])
    if isinstance(collected, LabelledTallies):
        tallies = row_slice(collected.tallies, first, last)
        return replace(collected, tallies=tallies, user_labels=user_labels)
    is_inside = (collected.users >= first) & (collected.users < last)
    propensities = collected.propensities
    return replace(
        collected,
        users=collected.users[is_inside] - first,
        contexts=collected.contexts[is_inside],
        actions=collected.actions[is_inside],
        rewards=collected.rewards[is_inside],
        user_labels=user_labels,
        propensities=None if propensities is None else propensities[is_inside],
    )
