"""Whether the accused know which actions compete for the decision."""

from __future__ import annotations

import numpy as np

from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.noise import Noise, sums_of_cells
from unswayed.learners.interface import FloatArray, IntArray


def alignment(
    answers: Answers,
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
    answers, noise
        What users answered, and how it scatters.
    weights, accused
        Shape (n_users,); present weights, and probabilities to belong to the coalition.
    standing, proposed
        Shape (n_contexts,); decisions with the accused and without them.

    Notes
    -----
    A taste does not know what competes: if the opinions of the accused about the actions of a
    context were dealt out at random, their preference for the standing action over the proposed
    one would have mean 0 and variance 2·A/(A − 1) times the variance of these opinions. Contexts
    whose decision would change are summed up. That they are picked out biases the number upwards
    for honest tastes too, to about two; a coalition that aims at decisions reaches two in every
    context.
    """
    changed = np.flatnonzero(standing != proposed)
    if len(changed) == 0:
        return 0.0
    _, mass, total, _ = sums_of_cells(answers, weights * accused, noise.taste_share)
    rest, rest_total = noise.mass - mass, noise.mass * noise.means - total
    is_known = (mass > 0.5) & (rest > 0.5)
    mass, rest = np.maximum(mass, 1e-9), np.maximum(rest, 1e-9)
    errors = np.sqrt(noise.variances * (1.0 / mass + 1.0 / rest))
    opinions = np.where(is_known, (total / mass - rest_total / rest) / errors, 0.0)
    opinions = opinions.reshape(answers.n_contexts, answers.n_actions)[changed]
    in_turn = np.arange(len(changed))
    preferred = opinions[in_turn, standing[changed]] - opinions[in_turn, proposed[changed]]
    by_chance = 2.0 * opinions.var(axis=1) * answers.n_actions / (answers.n_actions - 1)
    return float(preferred.sum() / np.sqrt(max(by_chance.sum(), 1e-12)))
