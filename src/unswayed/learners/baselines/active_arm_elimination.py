"""Multi-layer active arm elimination (Lykouris, Mirrokni and Paes Leme 2018), per context."""

from __future__ import annotations

from math import ceil, log, log2

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.baselines.arrivals import checked_arrivals, means
from unswayed.learners.interface import Setting, evenly_among_best

# Ours: a usual level; it enters through a logarithm only.
FAILURE_PROBABILITY = 0.1


class ActiveArmElimination:
    """Layers that see ever fewer arrivals, and so ever less corruption, correct those below them.

    Layer l = 1..ceil(log2 T) gets an arrival with probability 2^−l (what is left goes to layer 1).
    It plays the action it played least among its active ones, or among those of the next layer
    that has any. An action whose mean in the layer is more than the two widths below another
    active one is deleted from the layer and from all layers before it. With n plays in the layer
    the width is sqrt(x) + x, x = log(4 K T log2(T)/delta)/n.

    Parameters
    ----------
    failure_probability
        delta.

    Guarantee
    ---------
    Rewards in [0, 1], total corruption C: regret O((K C log(KT/delta) + log T) · sum over actions
    of log(KT/delta)/gap) with probability 1 − delta. C is linear in T when a fixed share of the
    users lies, and the bound is void.

    Deviations: T is a context's even share of all interactions. The original recommends nothing;
    we recommend the best mean among the active actions of the first layer that has any, in that
    layer's own table.

    Attributes
    ----------
    sums, counts, is_active
        Shape (n_contexts, n_layers, n_actions).
    """

    def __init__(
        self, setting: Setting, *, failure_probability: float = FAILURE_PROBABILITY
    ) -> None:
        if not 0.0 < failure_probability < 1.0:
            raise InputError(
                f"failure_probability is {failure_probability}: it must lie between 0 and 1."
            )
        self.setting = setting
        share = setting.n_users * setting.interactions_per_user / setting.n_contexts
        horizon = max(share, 2.0)  # at least one layer
        self.n_layers = ceil(log2(horizon))
        self.log_term = log(4 * setting.n_actions * horizon * log2(horizon) / failure_probability)
        shape = (setting.n_contexts, self.n_layers, setting.n_actions)
        self.sums = np.zeros(shape)
        self.counts = np.zeros(shape, dtype=np.int32)
        self.is_active = np.ones(shape, dtype=np.bool_)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        _, contexts, outcomes = checked_arrivals(users, contexts, outcomes, self.setting)
        return _play(
            self.setting.rng,
            contexts,
            outcomes,
            self.sums,
            self.counts,
            self.is_active,
            self.log_term,
        )

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 (one policy for all)
        """Return the best active action of each context's first layer that has any."""
        every = np.arange(self.setting.n_contexts)
        first = np.argmax(self.is_active.any(axis=2), axis=1)  # the last layer is never empty
        values = means(self.sums[every, first], self.counts[every, first])
        # An active action without a play comes after those with one, but before deleted ones.
        values = np.where(np.isnan(values), np.finfo(np.float64).min, values)
        return evenly_among_best(np.where(self.is_active[every, first], values, -np.inf))


@compiled
def _play(
    rng: np.random.Generator,
    contexts: IntArray,
    outcomes: FloatArray,
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
    is_active: BoolArray,
    log_term: float,
) -> IntArray:
    n_layers = sums.shape[1]
    actions = np.empty(contexts.size, dtype=np.int64)
    for t in range(contexts.size):
        s = contexts[t]
        layer = _draw_layer(rng.random(), n_layers)
        chosen = _least_played(rng, counts[s, layer], _first_non_empty(is_active[s], layer))
        actions[t] = chosen
        sums[s, layer, chosen] += outcomes[t, chosen]
        counts[s, layer, chosen] += 1
        _delete_beaten(sums[s, layer], counts[s, layer], is_active[s], layer, log_term)
    return actions


@compiled
def _draw_layer(u: float, n_layers: int) -> int:
    """Return layer l − 1 if 2^−l ≤ u < 2^−(l−1), and layer 0 for what is left below."""
    edge = 0.5
    for layer in range(n_layers):
        if u >= edge:
            return layer
        edge *= 0.5
    return 0


@compiled
def _first_non_empty(is_active: BoolArray, layer: int) -> BoolArray:
    """Return the active actions of the layer, or of the next that has any."""
    while not is_active[layer].any():
        layer += 1
    active: BoolArray = is_active[layer]
    return active


@compiled
def _least_played(
    rng: np.random.Generator, counts: npt.NDArray[np.int32], allowed: BoolArray
) -> int:
    """Return the allowed action with the fewest plays, ties evenly by one uniform draw."""
    fewest = -1
    n_tied = 0
    for a in range(counts.size):
        if allowed[a]:
            if fewest < 0 or counts[a] < fewest:
                fewest = counts[a]
                n_tied = 1
            elif counts[a] == fewest:
                n_tied += 1
    skip = int(n_tied * rng.random()) if n_tied > 1 else 0
    for a in range(counts.size):
        if allowed[a] and counts[a] == fewest:
            if skip == 0:
                return a
            skip -= 1
    return 0  # not reached: some action is allowed


@compiled
def _delete_beaten(
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
    is_active: BoolArray,
    layer: int,
    log_term: float,
) -> None:
    """Delete from layers 0..layer what lies wholly below another active interval of ``layer``."""
    best_lower_end = -np.inf
    for a in range(counts.size):
        if is_active[layer, a] and counts[a] > 0:
            x = log_term / counts[a]
            best_lower_end = max(best_lower_end, sums[a] / counts[a] - (np.sqrt(x) + x))
    for a in range(counts.size):
        if is_active[layer, a] and counts[a] > 0:
            x = log_term / counts[a]
            if sums[a] / counts[a] + (np.sqrt(x) + x) < best_lower_end:
                is_active[: layer + 1, a] = False
