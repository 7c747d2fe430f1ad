"""Linear advice: ridge regression of rewards on attributes, with shared effects and per action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.events.attributes import AttributeColumn
from unswayed.learners.features.encoding import Rows
from unswayed.policy.partition import Feature, LinearAdvice, design_rows, first_columns

#: Ours: prior precisions, in plays: of shared effects, of an action's mean, and candidates for that
#: of its effects. The candidate with the smallest error on held-out users is used.
SHARED_PENALTY = 1.0
BASE_PENALTY = 6.0
PENALTIES = (6.0, 24.0, 96.0, 384.0, 1536.0, 6144.0)

#: Ours: maximum number of columns of the model; beyond it, there is no advice.
MOST_COLUMNS = 1_500

#: Maximum number of actions whose codes fit into 8 bits.
MOST_ACTIONS = 250


@compiled
def _add_moments(
    places: IntArray,
    values: FloatArray,
    groups: IntArray,
    weights: FloatArray,
    rewards: FloatArray,
    grams: FloatArray,
    products: FloatArray,
) -> None:
    """Add weighted products of columns with columns and with rewards, for each group of rows."""
    n_places = places.shape[1]
    for row in range(len(groups)):
        weight, group = weights[row], groups[row]
        if weight == 0.0:
            continue
        for i in range(n_places):
            value = weight * values[row, i]
            place = places[row, i]
            products[group, place] += value * rewards[row]
            for j in range(n_places):
                grams[group, place, places[row, j]] += value * values[row, j]


@dataclass(frozen=True, slots=True, eq=False)
class _Moments:
    """Sufficient statistics of a fit; those of disjoint sets of users can be added."""

    grams: FloatArray
    products: FloatArray

    def __sub__(self, other: _Moments) -> _Moments:
        return _Moments(self.grams - other.grams, self.products - other.products)

    def effects(self, variance: float, penalty: float) -> tuple[FloatArray, FloatArray]:
        """Return the shared effects b₀ and the additional ones of each action, b_a.

        b₀ is fitted to all plays, then b_a to the residuals of the action's plays.
        """
        n_columns = self.products.shape[1]
        ridge = SHARED_PENALTY * variance * np.eye(n_columns)
        shared = np.linalg.solve(self.grams.sum(axis=0) + ridge, self.products.sum(axis=0))
        ridge = penalty * variance * np.eye(n_columns)
        ridge[0, 0] = BASE_PENALTY * variance
        products = self.products - self.grams @ shared
        effects = np.linalg.solve(self.grams + ridge, products[:, :, None])[:, :, 0]
        return shared, np.asarray(effects, dtype=np.float64)

    def error(self, shared: FloatArray, effects: FloatArray) -> float:
        """Return the squared error of given effects on these plays, up to a constant."""
        whole = shared + effects
        fitted = np.einsum("ai,aij,aj->", whole, self.grams, whole)
        return float(fitted - 2.0 * (whole * self.products).sum())


def cross_fitted_advice(
    features: tuple[Feature, ...],
    columns: Mapping[str, AttributeColumn],
    rows: Rows,
    folds: IntArray,
) -> tuple[LinearAdvice, IntArray] | None:
    """Return the linear model of all users, and cross-fitted advice for each event.

    ``folds`` has one number per user. Returns None if the model would be too large.
    """
    n_columns = int(first_columns(features)[-1])
    events, n_actions = rows.events, rows.events.n_actions
    if n_columns > MOST_COLUMNS or n_actions > MOST_ACTIONS:
        return None
    centres, scales = _standards(features, columns, rows.weights)
    places, values = design_rows(features, centres, scales, columns)
    weights = np.maximum(rows.weights, 1e-12)
    rewards = events.rewards - np.average(events.rewards, weights=weights)
    variance = max(float(np.average(rewards**2, weights=weights)), 1e-12)
    of_rows, shape = folds[events.users], (int(folds.max()) + 1, n_actions, n_columns)
    products, grams = np.zeros(shape), np.zeros((*shape, n_columns))
    groups = of_rows * n_actions + events.actions
    sums = grams.reshape(-1, n_columns, n_columns), products.reshape(-1, n_columns)
    _add_moments(places, values, groups, rows.weights, rewards, *sums)
    moments = [_Moments(*part) for part in zip(grams, products, strict=True)]
    everything = _Moments(grams.sum(axis=0), products.sum(axis=0))

    def error(penalty: float) -> float:
        fitted = ((everything - part).effects(variance, penalty) for part in moments)
        return sum(part.error(*found) for part, found in zip(moments, fitted, strict=True))

    penalty = min(PENALTIES, key=error)

    def model(of: _Moments) -> LinearAdvice:
        actions = tuple(events.action_labels.texts)
        return LinearAdvice(actions, centres, scales, of.effects(variance, penalty)[1])

    advised = np.zeros(len(events), np.int64)
    for fold, part in enumerate(moments):
        chosen = of_rows == fold
        # Rare values of the held-out fold may be missing from the other folds.
        held_out = {name: column[chosen] for name, column in columns.items()}
        advised[chosen] = model(everything - part).choices(features, held_out, is_always_known=True)
    return model(everything), advised


def _standards(
    features: tuple[Feature, ...], columns: Mapping[str, AttributeColumn], weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and standard deviation of each number, clipped to its outer edges."""
    centres, scales = np.zeros(len(features)), np.ones(len(features))
    for place, feature in enumerate(features):
        column = columns[feature.name]
        if not isinstance(column, np.ndarray) or not feature.edges:
            continue
        known = column[np.isfinite(column) & (weights > 0)]
        inner = known.clip(feature.edges[0], feature.edges[-1])
        centres[place], scales[place] = inner.mean(), inner.std() or 1.0
    return centres, scales
