"""Honest users: each cell has a law over categories, each user a level and a taste for each class.

A level or taste tilts a law exponentially along the scores of the categories. Both lie on a grid
and are summed out, so that being keen, or fond of one item, is not suspicious.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.discount.loud.class_counts import ClassArray, ClassCounts, Counts
from unswayed.learners.discount.loud.kernels import drawn_anew, honest_pass, n_draws
from unswayed.learners.discount.responses.categories import Categories
from unswayed.tallies.grouping import in_user_parts


class Grid(NamedTuple):
    """Tilts that users may have: ``step`` times a level and a taste."""

    step: float
    levels: tuple[int, ...]
    tastes: tuple[int, ...]

    @property
    def offsets(self) -> IntArray:
        """Places from a level to the tilt with each taste."""
        return np.array(self.tastes, dtype=np.int64) - self.tastes[0]

    @property
    def tilts(self) -> FloatArray:
        """All sums of a level and a taste, in units of scores."""
        first, last = self.levels[0] + self.tastes[0], self.levels[-1] + self.tastes[-1]
        return np.arange(first, last + 1, dtype=np.float64) * self.step

    @property
    def strongest_taste(self) -> float:
        """The largest tilt that a taste can make."""
        return self.step * max(self.tastes)


EVENTS = Grid(1.0, tuple(range(-2, 4)), (-2, -1, 0, 1, 2))
"""Log-odds. One user's few clicks tell no more."""

AMOUNTS = Grid(0.3, tuple(range(-6, 7)), (-7, -4, -2, 0, 2, 4, 7))
"""Standard deviations. Levels must be fine: with a step of .8 peaceful logs of dwell times seemed
to have a second population worth thousands of nats."""

STRENGTHS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
"""Candidates for how many plays the law of an action is worth in each of its contexts."""

ACTION_PLAYS = 20.0
"""Pseudo-plays by which the law of an action shrinks towards that of the whole log."""

FIT_STEPS = 8
"""Steps of EM for levels and tastes."""

MARGINAL_STEPS = 3
"""Steps that make the laws, averaged over tilts, equal what was seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Honest:
    """The honest model.

    Attributes
    ----------
    grid
        Tilts.
    scores
        Shape (n_categories,).
    laws, plays
        Shape (n_cells, n_categories) and (n_cells,); law of each cell, and plays behind it.
    strength
        Plays that the law of the action was worth.
    levels, levels_of_plays, tastes
        Probabilities on the grid: of users, of plays (active users count more), and of runs.
    """

    grid: Grid
    scores: FloatArray
    laws: FloatArray
    plays: FloatArray
    strength: float
    levels: FloatArray
    levels_of_plays: FloatArray
    tastes: FloatArray

    def tilted_laws(self, laws: FloatArray | None = None) -> FloatArray:
        """Return the laws at each tilt; shape (n_cells, n_categories, n_tilts).

        Averaged over the tilts of plays they are the laws.
        """
        wanted = self.laws if laws is None else laws
        tilts = self.grid.tilts
        odds = np.exp(np.outer(self.scores, tilts))
        share = np.zeros(len(tilts))
        for g in range(len(self.levels)):
            share[g + self.grid.offsets] += self.levels_of_plays[g] * self.tastes
        base = wanted.copy()
        for _ in range(MARGINAL_STEPS):
            average = base * ((share / (base @ odds)) @ odds.T)
            base *= wanted / np.maximum(average, 1e-300)
        tilted: FloatArray = base[:, :, None] * odds / (base @ odds)[:, None, :]
        return tilted

    def log_laws(self) -> FloatArray:
        """Return logarithms of the tilted laws; shape (n_keys, n_tilts)."""
        tilted = self.tilted_laws()
        return np.log(np.maximum(tilted, 1e-300)).reshape(-1, tilted.shape[2])


class Fit(NamedTuple):
    """The honest model, and likelihoods of users and runs under it.

    Attributes
    ----------
    model
        The model.
    log_likelihood
        Σ over users, with their weights.
    of_runs
        Shape (n_runs,); log-likelihood of each run given the user's other runs.
    others
        Shape (n_runs, n_levels); likelihood of these other runs at each level, over that at the
        levels of all users.
    levels
        Shape (n_users, n_levels); posteriors.
    """

    model: Honest
    log_likelihood: float
    of_runs: FloatArray
    others: FloatArray
    levels: FloatArray


def grid_for(categories: Categories) -> Grid:
    """Return the tilts that fit the rewards."""
    return EVENTS if categories.is_event else AMOUNTS


def fit_honest(
    data: ClassCounts,
    categories: Categories,
    weights: FloatArray,
    *,
    start: Honest | None = None,
    n_steps: int = FIT_STEPS,
) -> Fit:
    """Fit the honest model by EM; from where another one stands if that is given."""
    counts = data.counts
    plays = counts.cell_counts(np.ones(counts.n_users)).sum(axis=1)
    seen = counts.cell_counts(weights)
    shape = (counts.n_contexts, counts.n_actions)
    laws, strength = shrunken_laws(seen, plays, shape, start.strength if start else None)
    if start is None:
        grid = grid_for(categories)
        levels = special.softmax(-0.5 * (grid.step * np.array(grid.levels)) ** 2)
        tastes = special.softmax(-2.0 * (grid.step * np.array(grid.tastes)) ** 2)
        model = Honest(
            grid, categories.scores, laws, plays, strength, levels, levels.copy(), tastes
        )
    else:
        model = replace(start, laws=laws, plays=plays)
    volume = weights * np.add.reduceat(np.append(counts.counts, 0.0), counts.indptr[:-1])
    volume[np.diff(counts.indptr) == 0] = 0.0
    for _ in range(n_steps - 1):
        posterior, with_taste = tilts_of_users(data, model, weights)
        model = replace(
            model,
            levels=_shares(weights @ posterior),
            levels_of_plays=_shares(volume @ posterior),
            tastes=_shares(with_taste),
        )
    return summed_out(data, model, weights)


def tilts_of_users(
    data: ClassCounts, model: Honest, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return posteriors of users' levels, and the expected numbers of runs with each taste."""
    posterior = np.empty((data.counts.n_users, len(model.levels)))
    nothing = np.empty(0)
    return posterior, _pass(data, model, weights, posterior, nothing, nothing, np.empty((0, 0)))


def summed_out(data: ClassCounts, model: Honest, weights: FloatArray) -> Fit:
    """Return what a model says of users and runs, levels and tastes summed out."""
    n_users, n_runs, n_levels = data.counts.n_users, len(data.run_class), len(model.levels)
    posterior, others = np.empty((n_users, n_levels)), np.empty((n_runs, n_levels))
    of_users, of_runs = np.empty(n_users), np.empty(n_runs)
    _pass(data, model, np.empty(0), posterior, of_users, of_runs, others)
    return Fit(model, float(weights @ of_users), of_runs, others, posterior)


def _pass(data: ClassCounts, model: Honest, weights: FloatArray, *filled: FloatArray) -> FloatArray:
    """Pass over the users, on threads; ``filled`` is what ``honest_pass`` fills in."""
    log_laws = model.log_laws()
    rows = (data.first_run, data.first_key, data.counts.keys, data.counts.counts)
    law = (model.levels, model.tastes, model.grid.offsets)
    parts = in_user_parts(honest_pass, data.counts.n_users, *rows, log_laws, *law, weights, *filled)
    with_taste: FloatArray = np.sum(parts, axis=0)
    return with_taste


def shrunken_laws(
    seen: FloatArray, plays: FloatArray, shape: tuple[int, int], strength: float | None
) -> tuple[FloatArray, float]:
    """Return the law of each cell, shrunk to that of its action, and how strongly.

    Parameters
    ----------
    seen
        Shape (n_cells, n_categories); weighted counts.
    plays
        Shape (n_cells,); cells count with these plays whatever weight was taken off, so that a
        lighter cell is not shrunk more and likelihoods stay comparable.
    shape
        Contexts and actions.
    strength
        If not given, the median over actions of the likeliest one: a coalition makes the contexts
        of its item differ, not those of the others.
    """
    here = seen.reshape(*shape, -1)
    mass = here.sum(axis=2, keepdims=True)
    here = here * np.where(mass > 1e-9, plays.reshape(*shape, 1) / np.maximum(mass, 1e-9), 0.0)
    whole = _shares(here.sum(axis=(0, 1)) + 0.5)
    of_action = here.sum(axis=0)
    law = (of_action + ACTION_PLAYS * whole) / (of_action.sum(axis=1, keepdims=True) + ACTION_PLAYS)
    if strength is None:
        fits = [_evidence(here, law, s) for s in STRENGTHS]
        strength = float(np.median(np.array(STRENGTHS)[np.argmax(fits, axis=0)]))
    laws = (here + strength * law) / (here.sum(axis=2, keepdims=True) + strength)
    return laws.reshape(-1, seen.shape[1]), strength


def _evidence(here: FloatArray, law: FloatArray, strength: float) -> FloatArray:
    """Return the log marginal likelihood of each action's contexts (Dirichlet-multinomial)."""
    pseudo = strength * law
    plays = here.sum(axis=2)
    gained = (special.gammaln(pseudo + here) - special.gammaln(pseudo)).sum(axis=(0, 2))
    lost = (special.gammaln(strength + plays) - special.gammaln(strength)).sum(axis=0)
    evidence: FloatArray = gained - lost
    return evidence


def _shares(counts: FloatArray) -> FloatArray:
    shares: FloatArray = (counts + 1e-3) / (counts + 1e-3).sum()
    return shares


def without_coalition(
    counts: Counts, classes: ClassArray, honest: Fit, rng: np.random.Generator
) -> Counts:
    """Return counts of honest users who met the same cells.

    Laws are drawn from their posterior, for fitted ones lie too near to what was seen; levels from
    the posterior of each user, tastes from the model.
    """
    model = honest.model
    pseudo = model.laws * (model.plays[:, None] + model.strength)
    laws = rng.standard_gamma(np.maximum(pseudo, 1e-3))
    laws = np.maximum(laws / laws.sum(axis=1, keepdims=True), 1e-9)
    upto = np.cumsum(model.tilted_laws(laws / laws.sum(axis=1, keepdims=True)), axis=1)
    reached = np.cumsum(honest.levels, axis=1)[:, :-1]
    levels = (rng.random(counts.n_users)[:, None] > reached).sum(axis=1)
    n_classes = int(classes.max()) + 1
    tastes = rng.choice(len(model.tastes), p=model.tastes, size=(counts.n_users, n_classes))
    indptr, keys, values = drawn_anew(
        counts.indptr,
        counts.keys,
        counts.counts,
        counts.n_categories,
        classes,
        np.ascontiguousarray(upto.transpose(0, 2, 1)),
        levels,
        model.grid.offsets[tastes],
        rng.random(n_draws(counts.indptr, counts.keys, counts.counts, counts.n_categories)),
    )
    return replace(counts, indptr=indptr, keys=keys, counts=values)
