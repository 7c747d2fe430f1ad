"""Encode attributes as small integers: bins of numbers, and levels that enough users have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray
from unswayed.events import Events
from unswayed.events.attributes import AttributeColumn, Categories
from unswayed.policy.partition import Feature

#: Ours: maximum number of bins per number.
MOST_BINS = 16

#: Ours: maximum number of levels per category; rarer ones are merged into "other".
MOST_LEVELS = 63

#: Ours: minimum number of users per level.
LEVEL_USERS = 30

#: Ours: number of events beyond which the weight of a user is capped.
FULL_WEIGHT_EVENTS = 40

SmallCodes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Events with encoded attributes, weighted as if actions were drawn independently of them."""

    events: Events
    codes: SmallCodes  # shape (n_events, n_features)
    weights: FloatArray  # shape (n_events,)


def event_weights(events: Events, min_propensity: float) -> FloatArray:
    """Return event weights that bound the influence of users and correct for the logging policy.

    Users with more than ``FULL_WEIGHT_EVENTS`` events get the total weight of that many. With
    propensities the weight is q_a/p, where q_a is the share of the action among all plays. Then
    attributes have the same distribution under every action, and an action with a constant
    propensity keeps weight 1.
    """
    plays = np.bincount(events.users, minlength=events.n_users)
    weights = np.minimum(1.0, FULL_WEIGHT_EVENTS / np.maximum(plays, 1))[events.users]
    if events.propensities is None:
        return np.asarray(weights)
    inverse = 1.0 / np.maximum(events.propensities, min_propensity)
    of_action = np.bincount(events.actions, weights=inverse, minlength=events.n_actions)
    counts = np.bincount(events.actions, minlength=events.n_actions)
    mean = of_action / np.maximum(counts, 1)
    return np.asarray(weights * inverse / mean[events.actions])


def fitted_features(
    columns: Mapping[str, AttributeColumn],
    events: Events,
    user_weights: FloatArray,
    trusted: Collection[str] = (),
) -> tuple[Feature, ...]:
    """Return the features of a log; every user has one vote, multiplied by their weight."""
    votes = user_weights / np.maximum(np.bincount(events.users, minlength=events.n_users), 1)
    return tuple(
        Feature(name, levels=_levels(column, events, user_weights), is_trusted=name in trusted)
        if isinstance(column, Categories)
        else Feature(name, _edges(column, votes[events.users]), is_trusted=name in trusted)
        for name, column in columns.items()
    )


def _edges(numbers: FloatArray, votes: FloatArray) -> tuple[float, ...]:
    """Return inner edges of bins with equal votes; a value equal to an edge is in the upper bin."""
    is_known = np.isfinite(numbers) & (votes > 0)
    values, places = np.unique(numbers[is_known], return_inverse=True)
    if len(values) <= MOST_BINS:
        return tuple((values[1:] + 0.0).tolist())
    reached = np.cumsum(np.bincount(places, weights=votes[is_known]))
    cuts = np.arange(1, MOST_BINS) / MOST_BINS * reached[-1]
    found = np.unique(values[np.searchsorted(reached, cuts)] + 0.0)
    return tuple(found[found > values[0]].tolist())


def _levels(column: Categories, events: Events, user_weights: FloatArray) -> tuple[str, ...]:
    """Return at most ``MOST_LEVELS`` levels that enough users have, in the column's order."""
    n_levels = len(column.levels)
    is_known = column.codes >= 0
    pairs = np.unique(events.users[is_known].astype(np.int64) * n_levels + column.codes[is_known])
    users, levels = np.divmod(pairs, max(n_levels, 1))
    n_users = np.bincount(levels, weights=user_weights[users], minlength=n_levels)
    common = np.argsort(-n_users, kind="stable")[:MOST_LEVELS]
    chosen = sorted(common[n_users[common] >= LEVEL_USERS].tolist())
    return tuple(column.levels[code] for code in chosen)


def encoded(features: tuple[Feature, ...], columns: Mapping[str, AttributeColumn]) -> SmallCodes:
    """Return the codes of all rows; shape (n_rows, n_features)."""
    return np.column_stack(
        [feature.codes(columns[feature.name]).astype(np.uint8) for feature in features]
    )
