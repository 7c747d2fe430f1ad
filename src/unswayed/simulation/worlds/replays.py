"""Replays: cells are items that people rated, and good users give the ratings they gave.

They give the same rating each time. Where a user did not rate, it depends on the source:

- questionnaires have nearly no holes, and people who left one are not taken;
- movies are completed, so that plays can be uniform: a user's missing rating is their own mean plus
  the deviation of somebody alike who rated the movie, rounded to stars;
- lectures are not completed, because nine in ten would be made up. A student plays only what they
  rated, so contexts and actions are not drawn alike for all users, which learners assume.

Parts share no items, or no people.
"""

from __future__ import annotations

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.simulation.worlds.real_data import RatingTable, rating_table

LEAST_RATED = {"movies": 0.12, "lectures": 0.05}
"""Share of the cells that a user must have rated to take part; all, where nothing is said."""

SPLIT_BY = {"movies": "items", "lectures": "groups", "moods": "users"}
"""How parts share a source; a source that is not named belongs to one part."""

COMPLETED = ("movies",)
STARS = 4
"""Steps of a rating with five stars."""

NEIGHBOURS = 10
"""People alike, one of whom lends a rating."""

DOUBT = 20.0
"""Agreement of two people counts as if so many items more had shown none."""

PART_NUMBERS = {"development": 0, "validation": 1, "holdout": 2}


def replayed(
    rng: np.random.Generator,
    *,
    source: str,
    n_contexts: int,
    n_actions: int,
    n_users: int,
    likes: bool,
) -> FloatArray:
    """Return what real people rated in the cells of a world.

    Parameters
    ----------
    rng
        Draws the people, and which items share a context.
    source
        A name of ``real_data`` and a part, such as "movies/development".
    n_contexts, n_actions
        The most rated items of the part are taken. A context is a group of items where the source
        has groups, otherwise any items.
    n_users
        At most so many people, of those who rated enough.
    likes
        Whether ratings become likes and dislikes.

    Returns
    -------
    Shape (n_users, n_contexts * n_actions), in [0, 1]; NaN where a user did not rate.
    """
    name, part = source.split("/")
    table = _part_of(rating_table(name), SPLIT_BY.get(name, "nothing"), PART_NUMBERS[part])
    items = _cells(rng, table.groups, n_contexts, n_actions)
    values = table.values[:, items.ravel()]
    has_enough = np.isfinite(values).mean(axis=1) >= LEAST_RATED.get(name, 1.0)
    people = rng.permutation(np.flatnonzero(has_enough))[:n_users]
    if name in COMPLETED:
        values = _completed(rng, rating_table(name).values, people, values)
    else:
        values = values[people]
    if likes:
        values = np.where(np.isnan(values), np.nan, (values >= table.liked - 1e-9).astype(float))
    return np.asarray(values)


def play_contexts(rng: np.random.Generator, probabilities: FloatArray, users: IntArray) -> IntArray:
    """Draw contexts of plays from the users' own probabilities; shape as ``users``."""
    reached = np.cumsum(probabilities, axis=1)
    drawn = rng.random(len(users)) * reached[users, -1]
    return np.asarray((drawn[:, None] >= reached[users, :-1]).sum(axis=1))


def rated_actions(
    rng: np.random.Generator,
    is_rated: BoolArray,
    users: IntArray,
    contexts: IntArray,
    sticky_share: float,
) -> IntArray:
    """Draw actions among those that the user rated, or among all if there is none.

    ``is_rated`` has shape (n_users, n_contexts, n_actions); a share of the plays takes the one
    action that the user always gets in the context.
    """
    fixed = (rng.random(is_rated.shape) + is_rated).argmax(axis=2)[users, contexts]
    fresh = (rng.random((len(users), is_rated.shape[2])) + is_rated[users, contexts]).argmax(axis=1)
    drawn: IntArray = np.where(rng.random(len(users)) < sticky_share, fixed, fresh)
    return drawn


def pretended(rng: np.random.Generator, values: FloatArray, is_bad: BoolArray) -> None:
    """Fill the colluders' holes with somebody else's ratings, in place.

    Fake accounts may go where their originals never were.
    """
    for j in range(values.shape[1]):
        column = values[:, j]
        known = column[np.isfinite(column)]
        holes = np.flatnonzero(is_bad & np.isnan(column))
        column[holes] = rng.choice(known, size=len(holes))


def _completed(
    rng: np.random.Generator, everything: FloatArray, people: IntArray, values: FloatArray
) -> FloatArray:
    """Return the people's ratings of the cells, with holes filled from people alike.

    ``everything`` has all items and shows who is alike, ``values`` the items of the cells only.
    """
    own = np.nanmean(everything, axis=1)
    is_rated = np.isfinite(everything).astype(float)
    centred = np.where(is_rated > 0, everything - own[:, None], 0.0)
    shared = is_rated[people] @ is_rated.T
    lengths = np.sqrt((centred[people] ** 2 @ is_rated.T) * (is_rated[people] @ centred.T**2))
    alike = centred[people] @ centred.T / np.maximum(lengths, 1e-12) * shared / (shared + DOUBT)
    result = values[people]
    for j in range(values.shape[1]):
        raters = np.flatnonzero(np.isfinite(values[:, j]))
        holes = np.flatnonzero(np.isnan(result[:, j]))
        nearest = np.argsort(-alike[np.ix_(holes, raters)], axis=1)[:, :NEIGHBOURS]
        drawn = rng.integers(nearest.shape[1], size=(len(holes), 1))
        lenders = raters[np.take_along_axis(nearest, drawn, axis=1)[:, 0]]
        lent = own[people[holes]] + values[lenders, j] - own[lenders]
        result[holes, j] = np.round(np.clip(lent, 0, 1) * STARS) / STARS
    return result


def _part_of(table: RatingTable, by: str, number: int) -> RatingTable:
    values, groups = table.values, table.groups
    if by == "items":
        return RatingTable(values[:, number::3], groups[number::3], table.liked)
    if by == "users":
        return RatingTable(values[number::3], groups, table.liked)
    if by == "groups":  # halves: development and holdout
        names, sizes = np.unique(groups, return_counts=True)
        ours = names[np.argsort(-sizes, kind="stable")][number // 2 :: 2]
        kept = np.isin(groups, ours)
        return RatingTable(values[:, kept], groups[kept], table.liked)
    return table


def _cells(rng: np.random.Generator, groups: IntArray, n_contexts: int, n_actions: int) -> IntArray:
    """Return the item of each cell; shape (n_contexts, n_actions)."""
    names = np.unique(groups)
    if len(names) == 1:
        return np.asarray(rng.permutation(n_contexts * n_actions).reshape(n_contexts, n_actions))
    chosen = rng.permutation(names)[:n_contexts]
    return np.stack([np.flatnonzero(groups == name)[:n_actions] for name in chosen])
