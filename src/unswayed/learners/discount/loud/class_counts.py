"""Users' rewards counted by category and class of cells: the rows that loud lies are sought in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.learners.discount.loud.kernels import (
    category_counts,
    down_weighted,
    run_counts,
    sums_of_keys,
)
from unswayed.learners.discount.responses.categories import Categories
from unswayed.learners.discount.settings import MIN_REPEATS
from unswayed.tallies import Tallies, entry_users, row_sums
from unswayed.tallies.grouping import counting_order

MOST_PLAYS = 100.0
"""Accounts with more plays than this, repetitions apart, are down-weighted to so many."""

PLAYS_PER_RUN = 8.0
"""Plays of one user in one class are worth at most so many: they are not independent."""

ClassArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each user met each (cell, category), as sparse rows.

    ``keys`` are ``cell * n_categories + category``; ``activity`` is the number of plays of a user.
    """

    n_contexts: int
    n_actions: int
    n_categories: int
    indptr: IntArray
    keys: CellArray
    counts: FloatArray
    activity: FloatArray

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.indptr) - 1

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.n_contexts * self.n_actions

    def cell_counts(self, weights: FloatArray) -> FloatArray:
        """Return the weighted counts of each cell; shape (n_cells, n_categories)."""
        total = sums_of_keys(
            self.indptr, self.keys, self.counts, weights, self.n_cells * self.n_categories
        )
        return total.reshape(self.n_cells, self.n_categories)


LIED_ABOUT = 0.3
"""Share of the cells that may be lied about, those where users repeat themselves most."""


def repeated_share(tallies: Tallies) -> float:
    """Return the share of a reward's variance in a cell that lies between users; 0 if unknown.

    Users who are always shown the same action respond with the same taste. So do colluders: the
    cells with the largest share are left out, for these are the ones that may be lied about.
    """
    is_again = tallies.plays > 1.5
    n, cells = tallies.plays[is_again], tallies.cells[is_again]
    if float((n - 1.0).sum()) < MIN_REPEATS:
        return 0.0
    means = tallies.sums / tallies.counts
    own = np.maximum(tallies.squares / tallies.counts - means * means, 0.0)[is_again]
    plays = np.bincount(tallies.cells, tallies.plays, tallies.n_cells)
    total = np.bincount(tallies.cells, tallies.plays * means, tallies.n_cells)
    far = (means[is_again] - (total / np.maximum(plays, 1.0))[cells]) ** 2
    repeats = np.bincount(cells, n - 1.0, tallies.n_cells)
    within = np.bincount(cells, n * own, tallies.n_cells)
    around = np.bincount(cells, n * far, tallies.n_cells)
    users = np.bincount(cells, minlength=tallies.n_cells)
    again = np.bincount(cells, n, tallies.n_cells)
    # In a cell n·far is n·between + within on average, and n·own is (n − 1)·within.
    noise = within / np.maximum(repeats, 1e-9)
    excess = around - users * noise
    met = np.flatnonzero(repeats > 0)
    order = met[np.argsort(excess[met] / np.maximum(around + within, 1e-300)[met], kind="stable")]
    kept = order[: max(1, int(np.ceil((1.0 - LIED_ABOUT) * len(order))))]
    inside = float(within[kept].sum() / repeats[kept].sum())
    between = float((around[kept].sum() - users[kept].sum() * inside) / again[kept].sum())
    share = max(between, 0.0)
    return share / max(share + inside, np.finfo(float).tiny)


def counts_of(tallies: Tallies, categories: Categories, repeated: float) -> Counts:
    """Return users' counts by category; n plays of a cell count as n/(1 + (n − 1)·repeated).

    Tallies have the plays of an entry, their mean and their variance. Entries of one play, of two
    values, and of two plays are exact; else one value dominates and the others are taken as equal,
    or two values stand for all with the same mean and variance.
    """
    plays, means = tallies.plays, tallies.sums / tallies.counts
    variances = np.maximum(tallies.squares / tallies.counts - means * means, 0.0)
    worth = 1.0 / (1.0 + (plays - 1.0) * repeated)
    heard = row_sums(tallies.indptr, plays * worth)
    worth *= np.minimum(1.0, MOST_PLAYS / np.maximum(heard, 1.0))[entry_users(tallies.indptr)]
    common = int(np.argmin(np.abs(categories.scores))) if categories.dominant else -1
    indptr, keys, counts = category_counts(
        tallies.indptr,
        tallies.cells,
        plays,
        means,
        variances,
        worth,
        categories.edges,
        categories.values,
        common,
    )
    return Counts(
        tallies.n_contexts,
        tallies.n_actions,
        categories.n,
        indptr,
        keys,
        counts,
        row_sums(tallies.indptr, plays),
    )


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts grouped into runs: one for each user and class of cells that the user met.

    Attributes
    ----------
    counts
        The rows, sorted by class within a user, and down-weighted where runs are long.
    classes, n_classes
        Class of each cell; shape (n_cells,).
    first_run
        Shape (n_users + 1,); where the runs of each user begin.
    first_key
        Shape (n_runs + 1,); where the keys of each run begin.
    run_class
        Shape (n_runs,).
    by_category
        Shape (n_runs, n_categories); counts of each run.
    """

    counts: Counts
    classes: ClassArray
    n_classes: int
    first_run: IntArray
    first_key: IntArray
    run_class: ClassArray
    by_category: FloatArray

    @cached_property
    def run_users(self) -> IntArray:
        """User of each run; shape (n_runs,)."""
        return np.repeat(np.arange(self.counts.n_users), np.diff(self.first_run))

    def runs_of(self, a_class: int) -> IntArray:
        """Return the runs of a class."""
        return self._by_class[a_class]

    @cached_property
    def _by_class(self) -> list[IntArray]:
        order, starts = counting_order(self.run_class, self.n_classes)
        return np.split(order, starts[1:-1])


def counts_by_class(counts: Counts, classes: ClassArray, most_plays: float) -> ClassCounts:
    """Group counts into runs by class of cells, each worth at most ``most_plays`` plays."""
    n_classes = int(classes.max()) + 1
    of_keys, users = classes[counts.keys // counts.n_categories], entry_users(counts.indptr)
    order, _ = counting_order(of_keys, n_classes)
    order = order[counting_order(users[order], counts.n_users)[0]]  # by user, then by class
    keys, values, of_keys = counts.keys[order], counts.counts[order], of_keys[order]
    is_first = np.ones(len(keys) + 1, np.bool_)  # the last one is where the last run ends
    is_first[1:-1] = (users[1:] != users[:-1]) | (of_keys[1:] != of_keys[:-1])
    first_key = np.flatnonzero(is_first)
    down_weighted(first_key, values, most_plays)
    return ClassCounts(
        counts=replace(counts, keys=keys, counts=values),
        classes=classes,
        n_classes=n_classes,
        first_run=np.searchsorted(first_key, counts.indptr),
        first_key=first_key,
        run_class=of_keys[first_key[:-1]],
        by_category=run_counts(first_key, keys, values, counts.n_categories),
    )


def classes_by_action(counts: Counts) -> ClassArray:
    """Return the action of each cell: lies about one item, wherever it is shown."""
    return np.tile(np.arange(counts.n_actions, dtype=np.int32), counts.n_contexts)


ROLES = 4
"""Winner, runner-up, third, and all others."""

PRIOR_PLAYS = 10.0
"""Pseudo-plays by which cell means shrink towards the mean of the log before they are ranked."""


def classes_by_role(counts: Counts, values: FloatArray, weights: FloatArray) -> ClassArray:
    """Return the rank of each cell's mean in its context: lies about another item in each.

    Parameters
    ----------
    counts, weights
        Users' counts and weights.
    values
        Shape (n_categories,); a typical reward of each.
    """
    seen = counts.cell_counts(weights)
    usual = seen.sum(axis=0) @ values / max(seen.sum(), 1e-300)
    means = (seen @ values + PRIOR_PLAYS * usual) / (seen.sum(axis=1) + PRIOR_PLAYS)
    order = np.argsort(-means.reshape(counts.n_contexts, -1), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(counts.n_actions)[None, :], axis=1)
    return np.minimum(ranks, ROLES - 1).ravel().astype(np.int32)
