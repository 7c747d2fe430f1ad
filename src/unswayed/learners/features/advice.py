"""Linear advice: ridge regression of rewards on attributes, shared and by action, in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.events.attributes import AttributeColumn
from unswayed.learners.features.encoding import Rows
from unswayed.policy.partition import Feature, LinearAdvice, design_rows, first_columns

#: Ours: prior precisions of standardised effects, in plays: shared ones, and those of an action.
SHARED_PENALTY = 1.0
ACTION_PENALTY = 6.0

#: Ours: columns of the model, at most; beyond, there is no advice.
MOST_COLUMNS = 1_500

#: The choice of an action has to fit a small code.
MOST_ACTIONS = 250


@compiled
def _add_moments(
    places: IntArray,
    values: FloatArray,
    actions: npt.NDArray[np.int32],
    weights: FloatArray,
    rewards: FloatArray,
    grams: FloatArray,
    products: FloatArray,
) -> None:
    """Add the weighted products of columns, and of columns and rewards, by action."""
    n_places = places.shape[1]
    for row in range(len(actions)):
        weight, action = weights[row], actions[row]
        if weight == 0.0:
            continue
        for i in range(n_places):
            value = weight * values[row, i]
            place = places[row, i]
            products[action, place] += value * rewards[row]
            for j in range(n_places):
                grams[action, place, places[row, j]] += value * values[row, j]


@dataclass(frozen=True, slots=True, eq=False)
class _Moments:
    """Sums that determine a fit; they add over users."""

    grams: FloatArray
    products: FloatArray

    def coefficients(self, variance: float) -> FloatArray:
        """Return the effects of each action beyond the shared ones; shape (n_actions, n_columns).

        Minimises Σ w (r − x'b₀ − x'b_a)²/σ² + λ₀|b₀|² + λ Σ|b_a|². Given b₀ each b_a is a ridge
        fit; put in, b₀ solves one system of the same size.
        """
        n_columns = self.products.shape[1]
        identity = np.eye(n_columns)
        shared, target = SHARED_PENALTY * variance * identity, np.zeros(n_columns)
        solved = []
        for gram, product in zip(self.grams, self.products, strict=True):
            inverse = np.linalg.solve(
                gram + ACTION_PENALTY * variance * identity,
                np.column_stack([gram, product]),
            )
            solved.append(inverse)
            shared = shared + gram - gram @ inverse[:, :-1]
            target = target + product - gram @ inverse[:, -1]
        common = np.linalg.solve(shared, target)
        return np.array([inverse[:, -1] - inverse[:, :-1] @ common for inverse in solved])


def cross_fitted_advice(
    features: tuple[Feature, ...],
    columns: Mapping[str, AttributeColumn],
    rows: Rows,
    folds: IntArray,
    actions: tuple[str, ...],
) -> tuple[LinearAdvice, IntArray] | None:
    """Return the linear model of all users, and for each event the advice without its own fold.

    ``folds`` has one number per user. None if the model would be too large.
    """
    n_columns = int(first_columns(features)[-1])
    if n_columns > MOST_COLUMNS or rows.n_actions > MOST_ACTIONS:
        return None
    centres, scales = _standards(features, columns, rows.weights)
    places, values = design_rows(features, centres, scales, columns)
    weights = np.maximum(rows.weights, 1e-12)
    rewards = rows.rewards - np.average(rows.rewards, weights=weights)
    variance = max(float(np.average(rewards**2, weights=weights)), 1e-12)
    moments = []
    of_rows = folds[rows.users]
    for fold in range(int(folds.max()) + 1):
        grams = np.zeros((rows.n_actions, n_columns, n_columns))
        products = np.zeros((rows.n_actions, n_columns))
        chosen = of_rows == fold
        _add_moments(
            places[chosen],
            values[chosen],
            rows.actions[chosen],
            rows.weights[chosen],
            rewards[chosen],
            grams,
            products,
        )
        moments.append(_Moments(grams, products))
    grams = np.sum([part.grams for part in moments], axis=0)
    products = np.sum([part.products for part in moments], axis=0)
    advised = np.zeros(len(rows.actions), np.int64)

    def model(of: _Moments) -> LinearAdvice:
        return LinearAdvice(actions, centres, scales, of.coefficients(variance))

    for fold, part in enumerate(moments):
        chosen = of_rows == fold
        others = model(_Moments(grams - part.grams, products - part.products))
        advised[chosen] = others.choices(features, _selected(columns, chosen))
    return model(_Moments(grams, products)), advised


def _selected(
    columns: Mapping[str, AttributeColumn], chosen: BoolArray
) -> dict[str, AttributeColumn]:
    return {name: column[chosen] for name, column in columns.items()}


def _standards(
    features: tuple[Feature, ...], columns: Mapping[str, AttributeColumn], weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return centres and scales of numbers: mean and deviation between the outer edges."""
    centres, scales = np.zeros(len(features)), np.ones(len(features))
    for place, feature in enumerate(features):
        column = columns[feature.name]
        if not isinstance(column, np.ndarray) or not feature.edges:
            continue
        is_known = np.isfinite(column) & (weights > 0)
        inner = column[is_known].clip(feature.edges[0], feature.edges[-1])
        centres[place] = np.average(inner, weights=weights[is_known])
        spread = np.average((inner - centres[place]) ** 2, weights=weights[is_known])
        scales[place] = np.sqrt(spread) or 1.0
    return centres, scales
