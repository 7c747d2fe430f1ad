"""Whether a group knows which action wins: what tells a coalition from chance and taste."""

from __future__ import annotations

import numpy as np

from unswayed.learners.interface import FloatArray

DEALS = 199
"""Deals of the means; the smallest p-value is one in two hundred."""

DEALT_AT_ONCE = 4_000_000
"""Numbers that are dealt at once, to bound memory."""


def chance_of_aim(
    pooled: FloatArray,
    without: FloatArray,
    errors: FloatArray,
    rng: np.random.Generator,
) -> float:
    """Return the p-value that a group pulls decisions as far as it does by chance.

    Parameters
    ----------
    pooled, without
        Shape (n_contexts, n_actions); means with the group and without it. NaN where unknown.
    errors
        Same shape; standard errors of the pull, ``pooled - without``, up to a factor.
    rng
        Deals are drawn from it.

    Notes
    -----
    Chance and taste do not know what competes: given the pooled means, the pull is exchangeable
    over the actions of a context. So the means are dealt anew among the known actions of each
    context while the pull stays, and the *lift* is ranked among all deals: by how many standard
    errors, on average over contexts, the group pulls what wins with it above what wins without it.
    Exact if the group was found from residuals, which know nothing of the means, and if the size
    of pulls does not depend on the means; unequal support is allowed for by the standard errors.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.normal(size=(30, 5))
    >>> best = honest.argmax(axis=1)
    >>> pushed = honest.copy()
    >>> pushed[np.arange(30), (best + 1) % 5] += 3.0
    >>> chance_of_aim(pushed, honest, np.ones((30, 5)), rng) < 0.01
    True
    >>> taste = honest + rng.normal(size=(30, 5))
    >>> chance_of_aim(taste, honest, np.ones((30, 5)), rng) > 0.01
    True
    """
    is_known = np.isfinite(pooled) & np.isfinite(without)
    pull = np.where(is_known, pooled - without, 0.0)
    clear = np.where(is_known, pull / np.maximum(errors, 1e-300), 0.0)
    means = np.where(is_known, pooled, -np.inf)
    observed = _lift(means[None], pull, clear)[0]
    n_above, n_left = 1, DEALS
    sources = np.take_along_axis(means, np.argsort(~is_known, axis=1, kind="stable"), axis=1)
    while n_left > 0:
        n = min(n_left, max(1, DEALT_AT_ONCE // max(pooled.size, 1)))
        # Known actions come first, in any order, and get the known means.
        order = np.argsort(rng.random((n, *pooled.shape)) + ~is_known, axis=2)
        dealt = np.empty((n, *pooled.shape))
        np.put_along_axis(dealt, order, np.broadcast_to(sources, dealt.shape), axis=2)
        n_above += int((_lift(dealt, pull, clear) >= observed - 1e-12).sum())
        n_left -= n
    return n_above / (DEALS + 1)


def _lift(means: FloatArray, pull: FloatArray, clear: FloatArray) -> FloatArray:
    """Return the mean lift over contexts; means have shape (n, n_contexts, n_actions)."""
    with_group = means.argmax(axis=2)[..., None]
    without = np.where(np.isfinite(means), means - pull, -np.inf).argmax(axis=2)[..., None]
    every = np.broadcast_to(clear, means.shape)
    lift = np.take_along_axis(every, with_group, 2) - np.take_along_axis(every, without, 2)
    mean: FloatArray = lift[..., 0].mean(axis=1)
    return mean
