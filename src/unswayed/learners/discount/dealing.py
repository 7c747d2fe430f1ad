"""Whether a group knows which action wins: what tells a coalition from chance and taste."""

from __future__ import annotations

import numpy as np

from unswayed.learners.interface import FloatArray

DEALS = 999
"""Deals of the means; the smallest p-value is one in a thousand."""

DEALT_AT_ONCE = 4_000_000
"""Numbers that are dealt at once, to bound memory."""


def chance_of_aim(
    pooled: FloatArray,
    without: FloatArray,
    errors: FloatArray,
    context_probabilities: FloatArray,
    rng: np.random.Generator,
) -> float:
    """Return the p-value that a group pulls decisions as far as it does by chance.

    Parameters
    ----------
    pooled, without
        Shape (n_contexts, n_actions); means with the group and without it. NaN where unknown.
    errors
        Same shape; standard errors of the pull, ``pooled - without``, up to a factor.
    context_probabilities
        Shape (n_contexts,).
    rng
        Deals are drawn from it.

    Notes
    -----
    Chance and taste do not know what competes: given the pooled means, the pull is exchangeable
    over the actions of a context. So the means are dealt anew among the known actions of each
    context while the pull stays. Two statistics are ranked among all deals, the smaller p-value
    counts, and is ranked again: what decisions gain without the group, and by how many standard
    errors the group pulls winners above runners-up. Valid if the group was found from residuals,
    which know nothing of the means; unequal support is allowed for by the standard errors.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.normal(size=(30, 5))
    >>> best = honest.argmax(axis=1)
    >>> pushed = honest.copy()
    >>> pushed[np.arange(30), (best + 1) % 5] += 3.0
    >>> nu, ones = np.full(30, 1 / 30), np.ones((30, 5))
    >>> chance_of_aim(pushed, honest, ones, nu, rng) < 0.01
    True
    >>> chance_of_aim(honest + rng.normal(size=(30, 5)), honest, ones, nu, rng) > 0.01
    True
    """
    is_known = np.isfinite(pooled) & np.isfinite(without)
    pull = np.where(is_known, pooled - without, 0.0)
    clear = np.where(is_known, pull / np.maximum(errors, 1e-300), 0.0)
    means = np.where(is_known, pooled, -np.inf)
    observed = _statistics(means[None], pull, clear, context_probabilities)
    found = [observed]
    n_left, at_once = DEALS, max(1, DEALT_AT_ONCE // max(pooled.size, 1))
    while n_left > 0:
        n = min(n_left, at_once)
        order = np.argsort(rng.random((n, *pooled.shape)) + ~is_known, axis=2)
        # Known actions come first in any order; they get the known means in another one.
        sources = np.argsort(~is_known, axis=1, kind="stable")
        dealt = np.full((n, *pooled.shape), -np.inf)
        np.put_along_axis(
            dealt, order, np.take_along_axis(means, sources, axis=1)[None].repeat(n, 0), axis=2
        )
        found.append(_statistics(dealt, pull, clear, context_probabilities))
        n_left -= n
    table = np.concatenate(found)
    # Of all rows, the observed one included, how many are at least as large.
    ranks = np.empty(table.shape)
    for column in range(table.shape[1]):
        ordered = np.sort(table[:, column])
        above = np.searchsorted(ordered, table[:, column] - 1e-12, side="left")
        ranks[:, column] = (len(table) - above) / len(table)
    smallest = ranks.min(axis=1)
    return float((smallest <= smallest[0] + 1e-12).mean())


def _statistics(
    means: FloatArray, pull: FloatArray, clear: FloatArray, context_probabilities: FloatArray
) -> FloatArray:
    """Return what decisions gain without the group, and how it favours winners; shape (n, 2)."""
    winner = means.argmax(axis=2)[..., None]
    rest = np.where(np.isfinite(means), means - pull, -np.inf)
    best = rest.max(axis=2)
    kept = np.take_along_axis(rest, winner, axis=2)[..., 0]
    gains = np.where(np.isfinite(best) & np.isfinite(kept), best - kept, 0.0)
    masked = means.copy()
    np.put_along_axis(masked, winner, -np.inf, axis=2)
    second = masked.argmax(axis=2)[..., None]
    has_second = np.isfinite(masked).any(axis=2)
    every = np.broadcast_to(clear, means.shape)
    favour = np.take_along_axis(every, winner, 2) - np.take_along_axis(every, second, 2)
    favour = np.where(has_second, favour[..., 0], 0.0)
    return np.stack([gains @ context_probabilities, favour.mean(axis=1)], axis=1)
