"""Decisions under users' weights, what is at stake, and whether the accused aim at them."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.discount.responses.kernels import cell_sums
from unswayed.learners.discount.responses.noise import Noise, sums_of_cells
from unswayed.learners.discount.responses.responses import AnyResponses, Responses
from unswayed.learners.discount.settings import AIM_LEVEL
from unswayed.policy import best_known


def pooled_means(responses: AnyResponses, weights: FloatArray) -> FloatArray:
    """Return the weighted mean reward of each cell; NaN without weight.

    Returns
    -------
    Shape (n_contexts, n_actions).
    """
    _, mass, total, _ = responses.blocks.add_blocks(_plain_sums, rows=weights)
    means = np.where(mass > 0, total / np.maximum(mass, 1e-300), np.nan)
    return means.reshape(responses.n_contexts, responses.n_actions)


def _plain_sums(responses: Responses, weights: FloatArray) -> FloatArray:
    return cell_sums(
        responses.indptr,
        responses.cells,
        responses.plays,
        responses.means,
        weights,
        responses.n_cells,
    )


def stake(responses: Responses, standing: IntArray, after: FloatArray) -> float:
    """Return what decisions gain over the standing ones, by the means after the accusation."""
    means = pooled_means(responses, after)
    rows = np.arange(responses.n_contexts)
    gains = np.nan_to_num(means[rows, best_known(means)] - means[rows, standing])
    return float(responses.context_probabilities @ gains)


def aims_by_chance(
    responses: Responses, weights: FloatArray, accused: FloatArray, rng: np.random.Generator
) -> float:
    """Return the p-value that the accused pull decisions as far as they do by chance."""
    _, mass, _, _ = _plain_sums(responses, weights)
    _, theirs, _, _ = _plain_sums(responses, weights * accused)
    rest = np.maximum(mass - theirs, 1e-9)
    # The pull is the share of the accused in a cell times how far they are from the others.
    errors = np.sqrt(np.maximum(theirs, 1e-9) / (rest * np.maximum(mass, 1e-9)))
    return chance_of_aim(
        pooled_means(responses, weights),
        pooled_means(responses, weights * (1.0 - accused)),
        errors.reshape(responses.n_contexts, responses.n_actions),
        rng,
    )


def alignment(
    responses: Responses,
    noise: Noise,
    weights: FloatArray,
    accused: FloatArray,
    *,
    standing: IntArray,
    proposed: IntArray,
) -> float:
    """Return by how many deviations the accused favour standing decisions over proposed ones.

    Parameters
    ----------
    responses, noise
        What users responded, and how it scatters.
    weights, accused
        Shape (n_users,); present weights, and probabilities to belong to the coalition.
    standing, proposed
        Shape (n_contexts,); decisions with the accused and without them.

    Notes
    -----
    A taste does not know what competes: if the opinions of the accused about the actions of a
    context were permuted at random, their preference for the standing action over the proposed
    one would have mean 0 and variance 2·A/(A − 1) times the variance of these opinions. Contexts
    whose decision would change are summed up. That they are picked out biases the number upwards
    for honest tastes too, to about two; a coalition that aims at decisions reaches two in every
    context.
    """
    changed = np.flatnonzero(standing != proposed)
    if len(changed) == 0:
        return 0.0
    _, mass, total, _ = sums_of_cells(responses, weights * accused, noise.taste_share)
    rest, rest_total = noise.mass - mass, noise.mass * noise.means - total
    is_known = (mass > 0.5) & (rest > 0.5)
    mass, rest = np.maximum(mass, 1e-9), np.maximum(rest, 1e-9)
    errors = np.sqrt(noise.variances * (1.0 / mass + 1.0 / rest))
    opinions = np.where(is_known, (total / mass - rest_total / rest) / errors, 0.0)
    opinions = opinions.reshape(responses.n_contexts, responses.n_actions)[changed]
    in_turn = np.arange(len(changed))
    preferred = opinions[in_turn, standing[changed]] - opinions[in_turn, proposed[changed]]
    by_chance = 2.0 * opinions.var(axis=1) * responses.n_actions / (responses.n_actions - 1)
    return float(preferred.sum() / np.sqrt(max(by_chance.sum(), 1e-12)))


PERMUTATIONS = 199
"""Permutations of the means; the smallest p-value is one in two hundred."""

PERMUTED_AT_ONCE = 4_000_000
"""Numbers that are permuted at once, to bound memory."""


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
        Permutations are drawn from it.

    Notes
    -----
    Chance and taste do not know what competes: the pull is exchangeable over the actions of a
    context. So the means are permuted among the known actions of each context while the pull stays,
    and the *lift* is ranked among all permutations: by how many standard errors, on average over
    contexts, the group pulls what wins with it above what wins without it. The means with the group
    are permuted, and those without it, and the smaller p-value counts twice: a group that pushes an
    action far up, or the best far down, turns the decision in every permutation of one kind, but
    only in few of the other. Exact if the group was found from residuals, which know nothing of the
    means, and if the size of pulls does not depend on the means; unequal support is allowed for by
    the standard errors.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.normal(size=(30, 5))
    >>> best = honest.argmax(axis=1)
    >>> pushed = honest.copy()
    >>> pushed[np.arange(30), (best + 1) % 5] += 3.0
    >>> chance_of_aim(pushed, honest, np.ones((30, 5)), rng) < 0.02
    True
    >>> sunk = honest.copy()
    >>> sunk[np.arange(30), best] -= 9.0
    >>> chance_of_aim(sunk, honest, np.ones((30, 5)), rng) < 0.02
    True
    >>> taste = honest + rng.normal(size=(30, 5))
    >>> chance_of_aim(taste, honest, np.ones((30, 5)), rng) > 0.02
    True
    """
    is_known = np.isfinite(pooled) & np.isfinite(without)
    pull = np.where(is_known, pooled - without, 0.0)
    clear = np.where(is_known, pull / np.maximum(errors, 1e-300), 0.0)
    observed = _lift(np.where(is_known, pooled, -np.inf)[None], pull, clear)[0]
    first = np.argsort(~is_known, axis=1, kind="stable")
    n_above, n_left = np.ones(2, np.int64), PERMUTATIONS
    while n_left > 0:
        n = min(n_left, max(1, PERMUTED_AT_ONCE // max(pooled.size, 1)))
        # Known actions come first, in any order, and get the known means.
        order = np.argsort(rng.random((n, *pooled.shape)) + ~is_known, axis=2)
        for kind, (means, pulled) in enumerate(((pooled, 0.0), (without, pull))):
            known = np.take_along_axis(np.where(is_known, means, -np.inf), first, axis=1)
            permuted = np.empty((n, *pooled.shape))
            np.put_along_axis(permuted, order, np.broadcast_to(known, permuted.shape), axis=2)
            n_above[kind] += (_lift(permuted + pulled, pull, clear) >= observed - 1e-12).sum()
        n_left -= n
    return min(1.0, 2.0 * float(n_above.min()) / (PERMUTATIONS + 1))


def unless_by_chance(
    means: FloatArray, robust: FloatArray, errors: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return robust means if what they leave out aims at decisions; else the means as they are.

    All have shape (n_contexts, n_actions); ``errors`` are standard errors of the means. Robust
    means differ honestly, too, wherever rewards or tastes are skewed, but not just where it counts.
    """
    if (best_known(robust) == best_known(means)).all():
        return means
    return robust if chance_of_aim(means, robust, errors, rng) <= AIM_LEVEL else means


def _lift(means: FloatArray, pull: FloatArray, clear: FloatArray) -> FloatArray:
    """Return the mean lift over contexts; means have shape (n, n_contexts, n_actions)."""
    with_group = means.argmax(axis=2)[..., None]
    without = np.where(np.isfinite(means), means - pull, -np.inf).argmax(axis=2)[..., None]
    every = np.broadcast_to(clear, means.shape)
    lift = np.take_along_axis(every, with_group, 2) - np.take_along_axis(every, without, 2)
    mean: FloatArray = lift[..., 0].mean(axis=1)
    return mean
