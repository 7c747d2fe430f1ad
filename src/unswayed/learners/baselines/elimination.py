"""Learners that eliminate actions, or play them less, epoch by epoch or layer by layer."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil, log, log2

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.baselines.tables import Baseline, index_of_best, means
from unswayed.learners.interface import Setting

# Ours: a common choice; bounds depend on its logarithm only.
FAILURE_PROBABILITY = 0.1


# Ours: keeps the planned plays lambda/gap² positive for huge rewards.
LARGEST_GAP = 1e9


class PlannedEpochs(Baseline):
    """Plays actions in planned proportions and replans after each epoch, per context.

    An epoch plans n = lambda/g² plays of an action with gap g, where lambda = constant · ln(8 K
    log2(T) / delta). It lasts N = ceil(sum of n) arrivals of the context, each of which plays an
    action with probability n/(sum of n). The estimate of an action is its sum of rewards divided by
    the *planned* n, so an adversary cannot influence the denominators.

    The horizon T of a context is an equal share of all interactions. Until a context has completed
    its first epoch, the means of that epoch are recommended (ours: the original algorithms minimise
    regret and recommend nothing).
    """

    # Ours; 1024 in the theorem of Gupta, Koren and Talwar. Five complete epochs, 120,314 plays, fit
    # into the 125,000 plays per context of Figure 2(d); with the original constant, epochs 1 and 2
    # alone would take up to 225,809.
    constant = 8.0

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        shape = (setting.n_contexts, setting.n_actions)
        logarithm = log(8 * setting.n_actions * log2(self.horizon) / FAILURE_PROBABILITY)
        self.unit_plays = self.constant * logarithm
        # Gaps and planned plays of the current epoch, and estimates of the last complete one.
        self.gaps, self.planned = np.ones(shape), np.full(shape, self.unit_plays)
        self.estimates = np.full(shape, np.nan)
        # The current epoch of each context, from 1, and its remaining arrivals.
        self.epochs, self.remaining = np.ones((2, setting.n_contexts), dtype=np.int64)
        self._thresholds = np.empty(shape)
        self._sums, self._counts = np.zeros((2, *shape))
        for context in range(setting.n_contexts):
            self._begin_epoch(context)

    @abstractmethod
    def next_gaps(self, context: int) -> FloatArray:
        """Return the gaps for the next epoch, from the estimates of the one that just ended."""

    def values(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        is_first = self.epochs[:, None] == 1
        return np.where(is_first, means(self._sums, self._counts), self.estimates)

    def _begin_epoch(self, context: int) -> None:
        total = float(self.planned[context].sum())
        self.remaining[context] = ceil(total)
        self._thresholds[context] = np.cumsum(self.planned[context]) / total
        # Rounding must not make the last probability less than one
        self._thresholds[context, -1] = 1.0
        self._sums[context] = 0.0
        self._counts[context] = 0.0

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        actions = np.empty(users.size, np.int64)
        start = 0
        while start < users.size:
            n, ended = _play_until_an_epoch_ends(
                self.setting.rng,
                contexts[start:],
                outcomes[start:],
                self._thresholds,
                self._sums,
                self._counts,
                self.remaining,
                actions[start:],
            )
            start += n
            if ended >= 0:
                self.estimates[ended] = self._sums[ended] / self.planned[ended]
                self.gaps[ended] = np.minimum(self.next_gaps(ended), LARGEST_GAP)
                self.planned[ended] = self.unit_plays / self.gaps[ended] ** 2
                self._begin_epoch(ended)
                self.epochs[ended] += 1
        return actions


@compiled
def _play_until_an_epoch_ends(
    rng: np.random.Generator,
    contexts: IntArray,
    outcomes: FloatArray,
    thresholds: FloatArray,
    sums: FloatArray,
    counts: FloatArray,
    remaining: IntArray,
    actions: IntArray,
) -> tuple[int, int]:
    """Play until an epoch ends; return the number of plays and the context, -1 if none ended."""
    for t in range(contexts.size):
        s = contexts[t]
        u = rng.random()
        a = 0
        while u >= thresholds[s, a]:
            a += 1
        actions[t] = a
        sums[s, a] += outcomes[t, a]
        counts[s, a] += 1.0
        remaining[s] -= 1
        if remaining[s] == 0:
            return t + 1, s
    return contexts.size, -1


# Theirs: share of its gap that is subtracted from an action's estimate when the best one is chosen.
CAUTION = 1.0 / 16.0


class Barbar(PlannedEpochs):
    """Never drop an action, only play it less: gaps are re-estimated in every epoch.

    After epoch m with estimates r: r* = max(r − gap/16) and the new gap is max(2^−m, r* − r).

    Guarantee: with a constant of 1024, rewards in [0, 1] and total corruption C, regret O(K C + sum
    over actions of log(T) log(K log T/delta)/gap) with probability 1 − delta. If a fixed share of
    the users lies, C is linear in T and the bound is vacuous, as the paper's Figure 2(d) shows.
    There is no theorem for our smaller constant, but with it epochs end at small sizes.

    Deviations: the constant, see :class:`PlannedEpochs`; gaps are capped at 10^9.
    """

    def next_gaps(self, context: int) -> FloatArray:
        estimates = self.estimates[context]
        best = np.max(estimates - CAUTION * self.gaps[context])
        gaps: FloatArray = np.maximum(2.0 ** -float(self.epochs[context]), best - estimates)
        return gaps


class LiuStyle(PlannedEpochs):
    """Active actions share each epoch evenly; bad ones get lambda/gap² plays.

    Epoch m plans lambda·4^(m−1) plays of each active action. After it, let r* be the best estimate
    of an active action. An action with r* − r > 2^−m is bad, with gap r* − r; all others are
    active, so a bad action can become active again.

    Guarantee: none claimed. Liu, Li and Li (2021) prove a bound in which the corruption C enters
    once instead of K times; as for BARBAR, C is linear in T if a fixed share of the users lies.

    Deviations: "-style", because this follows a description of their method, not their full text,
    and has no communication between agents; constants are those of BARBAR.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.is_active = np.ones((setting.n_contexts, setting.n_actions), dtype=bool)

    def next_gaps(self, context: int) -> FloatArray:
        """Sort the actions into active, with gap 2^−m, and bad, with gap r* − r."""
        estimates = self.estimates[context]
        resolution = 2.0 ** -float(self.epochs[context])
        shortfall = np.max(estimates[self.is_active[context]]) - estimates
        self.is_active[context] = shortfall <= resolution
        gaps: FloatArray = np.where(self.is_active[context], resolution, shortfall)
        return gaps


class ActiveArmElimination(Baseline):
    """Layers with fewer arrivals, and so less corruption, correct the layers below them.

    Lykouris, Mirrokni and Paes Leme (2018), per context. Layer l = 1..ceil(log2 T) gets an arrival
    with probability 2^−l (the remaining probability goes to layer 1). It plays its least-played
    active action, or that of the next layer that has active actions. An action whose mean in the
    layer is below that of another active action by more than the sum of their widths is deleted
    from the layer and from all layers before it. With n plays in the layer the width is sqrt(x) +
    x, x = log(4 K T log2(T)/delta)/n.

    Guarantee: rewards in [0, 1], total corruption C: regret O((K C log(KT/delta) + log T) · sum
    over actions of log(KT/delta)/gap) with probability 1 − delta. If a fixed share of the users
    lies, C is linear in T and the bound is vacuous.

    Deviations: T is an equal share of all interactions. The original recommends nothing; we
    recommend the active action with the best mean in the first layer that has active actions.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.n_layers = ceil(log2(self.horizon))
        self.log_term = log(
            4 * setting.n_actions * self.horizon * log2(self.horizon) / FAILURE_PROBABILITY
        )
        shape = (setting.n_contexts, self.n_layers, setting.n_actions)
        self.sums, self.counts = np.zeros((2, *shape))
        self.is_active = np.ones(shape, dtype=np.bool_)

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:  # noqa: ARG002 - users are pooled
        return _play_layers(
            self.setting.rng,
            contexts,
            outcomes,
            self.sums,
            self.counts,
            self.is_active,
            self.log_term,
        )

    def values(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        every = np.arange(self.setting.n_contexts)
        first = np.argmax(self.is_active.any(axis=2), axis=1)  # the last layer is never empty
        known = means(self.sums[every, first], self.counts[every, first])
        # Active actions without plays rank below those with plays, but above deleted ones.
        known = np.where(np.isnan(known), np.finfo(np.float64).min, known)
        return np.where(self.is_active[every, first], known, -np.inf)


@compiled
def _play_layers(
    rng: np.random.Generator,
    contexts: IntArray,
    outcomes: FloatArray,
    sums: FloatArray,
    counts: FloatArray,
    is_active: BoolArray,
    log_term: float,
) -> IntArray:
    n_layers = sums.shape[1]
    actions = np.empty(contexts.size, dtype=np.int64)
    for t in range(contexts.size):
        s = contexts[t]
        # Layer l − 1 if 2^−l ≤ u < 2^−(l−1), and layer 0 otherwise.
        u, layer, edge = rng.random(), 0, 0.5
        while u < edge and layer < n_layers:
            layer, edge = layer + 1, edge * 0.5
        layer %= n_layers
        of = layer
        while not is_active[s, of].any():
            of += 1
        a = index_of_best(rng, np.where(is_active[s, of], -counts[s, layer], -np.inf))
        actions[t] = a
        sums[s, layer, a] += outcomes[t, a]
        counts[s, layer, a] += 1.0
        _delete_beaten(sums[s, layer], counts[s, layer], is_active[s], layer, log_term)
    return actions


@compiled
def _delete_beaten(
    sums: FloatArray, counts: FloatArray, is_active: BoolArray, layer: int, log_term: float
) -> None:
    """Delete from layers 0..layer the actions that are significantly worse in ``layer``."""
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
