"""Baseline learners, run per context.

Tables of sums and counts, pooled over users or by user; and learners that eliminate actions, or
play them less, epoch by epoch or layer by layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil, log, log2

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.interface import LearnerMaker, LearnerSpec, Setting, evenly_among_best


class Baseline(ABC):
    """A learner that plays arrivals in a compiled loop; see ``interface.Learner``."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @property
    def horizon(self) -> float:
        """Interactions per context if all are equally frequent; at least 2, so log2 is positive."""
        setting = self.setting
        return max(setting.n_users * setting.interactions_per_user / setting.n_contexts, 2.0)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        users = np.ascontiguousarray(users, dtype=np.int64)
        contexts = np.ascontiguousarray(contexts, dtype=np.int64)
        outcomes = np.ascontiguousarray(outcomes, dtype=np.float64)
        n, n_actions = users.size, self.setting.n_actions
        if users.shape != (n,) or contexts.shape != (n,) or outcomes.shape != (n, n_actions):
            raise InputError(
                f"users, contexts and outcomes have shapes {users.shape}, {contexts.shape} and "
                f"{outcomes.shape}: give (n,), (n,) and (n, {n_actions})."
            )
        # Compiled loops do not check indices, so they are checked here.
        for kind, codes, limit in (
            ("user", users, self.setting.n_users),
            ("context", contexts, self.setting.n_contexts),
        ):
            if n and not 0 <= codes.min() <= codes.max() < limit:
                raise InputError(f"a {kind} is not in 0..{limit - 1}: number the {kind}s from 0.")
        return self._play(users, contexts, outcomes)

    @abstractmethod
    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play checked arrivals and learn from them."""

    @abstractmethod
    def values(self, users: IntArray) -> FloatArray:
        """Return estimated values; shape (n_contexts, n_actions), or one such table for each user.

        NaN where nothing is known.
        """

    def action_probabilities(self, users: IntArray) -> FloatArray:
        shares = evenly_among_best(self.values(users))
        return shares if shares.ndim == 2 else np.asarray(shares.mean(axis=0))


@compiled
def index_of_best(rng: np.random.Generator, values: FloatArray) -> int:
    """Index of the largest entry; ties are broken uniformly.

    A random number is drawn only if there is a tie.
    """
    best = values[0]
    n_best = 1
    at = 0
    for i in range(1, values.size):
        if values[i] > best:
            best = values[i]
            n_best = 1
            at = i
        elif values[i] == best:
            n_best += 1
    if n_best > 1:
        skip = int(n_best * rng.random())
        for i in range(at, values.size):
            if values[i] == best:
                if skip == 0:
                    return i
                skip -= 1
    return at


def means(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Return sums divided by counts; NaN where the count is zero."""
    result = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=result, where=counts > 0)
    return result


UNIFORM, THOMPSON, UCB = range(3)


@compiled
def play_by_rule(
    rng: np.random.Generator,
    rule: int,
    rows: IntArray,
    outcomes: FloatArray,
    sums: FloatArray,
    counts: FloatArray,
) -> IntArray:
    """Play each arrival in its row of a table of shape (n_rows, n_actions), and update the row.

    The index of ``UCB`` is that of UCB1, mean + sqrt(2 ln n / plays), where n is the number of
    plays in the row so far; actions without a play come first, and ties are broken uniformly.
    ``THOMPSON`` draws from Normal(sum/(plays + 1), 1/(plays + 1)).
    """
    n_actions = sums.shape[1]
    actions = np.empty(rows.size, dtype=np.int64)
    values = np.empty(n_actions)
    for t in range(rows.size):
        row = rows[t]
        n_plays = counts[row].sum()
        if rule == UNIFORM:
            chosen = int(n_actions * rng.random())
        else:
            twice_log = 2.0 * np.log(max(n_plays, 1.0)) if rule == UCB else 0.0
            for a in range(n_actions):
                n = counts[row, a]
                if rule == THOMPSON:
                    weight = 1.0 / (n + 1.0)
                    values[a] = sums[row, a] * weight + np.sqrt(weight) * rng.standard_normal()
                elif n == 0:
                    values[a] = np.inf
                else:
                    values[a] = sums[row, a] / n + np.sqrt(twice_log / n)
            chosen = index_of_best(rng, values)
        actions[t] = chosen
        sums[row, chosen] += outcomes[t, chosen]
        counts[row, chosen] += 1.0
    return actions


class PooledMeans(Baseline):
    """Mean rewards per context over all users; recommends the action with the best mean."""

    rule = UNIFORM

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.sums, self.counts = np.zeros((2, setting.n_contexts, setting.n_actions))

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:  # noqa: ARG002 - users are pooled
        rng = self.setting.rng
        return play_by_rule(rng, self.rule, contexts, outcomes, self.sums, self.counts)

    def values(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        return means(self.sums, self.counts)


class NaiveMean(PooledMeans):
    """Play uniformly at random, recommend the action with the best mean over all users.

    Guarantee: without adversaries and with rewards in [0, 1], n plays of an action estimate its
    mean to within sqrt(ln(2/delta)/(2n)) with probability 1 − delta (Hoeffding). None under attack:
    if rewards are unbounded, one user can change the decision.

    Deviations: none (not in the paper).
    """


class ThompsonSampling(PooledMeans):
    """Play the action whose draw from its posterior is largest; recommend the best mean.

    After n plays with reward sum x the posterior of an action is Normal(x/(n+1), 1/(n+1)): a
    standard normal prior and a likelihood of variance one. The posterior is Gaussian rather than
    Beta, because rewards may be any real number and the guarantee holds for any distribution on [0,
    1].

    Guarantee: without adversaries and with rewards in [0, 1] of any distribution, the expected
    regret of a context is O(sqrt(A n ln A)) (Agrawal and Goyal 2013, the version with Gaussian
    priors). None under attack.

    Deviations: none from that version (not in the paper).
    """

    rule = THOMPSON


class NaiveUCB(PooledMeans):
    """UCB1 with one table per context for all users; recommends the best mean.

    Guarantee: without adversaries and with rewards in [0, 1], the regret in a context grows like
    sum over actions of 8 ln n / gap (Auer, Cesa-Bianchi and Fischer 2002, Theorem 1). None under
    attack: a share alpha of users moves every mean.

    Deviations: none. The paper does not state the index of this baseline; we use that of UCB1.
    """

    rule = UCB


class IndependentUCB(Baseline):
    """UCB1 with one table per user and context: users cannot influence each other.

    Guarantee: a user's policy depends on that user's rewards alone, whatever others do; this costs
    O(S A / epsilon²) interactions per user. Rewards in [0, 1].

    Deviations: none. Takes 16 bytes for each of the L·S·A cells.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        n_rows = setting.n_users * setting.n_contexts
        self.sums, self.counts = np.zeros((2, n_rows, setting.n_actions))

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        rows = users * self.setting.n_contexts + contexts
        return play_by_rule(self.setting.rng, UCB, rows, outcomes, self.sums, self.counts)

    def values(self, users: IntArray) -> FloatArray:
        if np.size(users) == 0:
            raise InputError("there are no users to average over; give at least one user.")
        shape = (-1, self.setting.n_contexts, self.setting.n_actions)
        return means(self.sums.reshape(shape)[users], self.counts.reshape(shape)[users])


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


# From the paper on BARBAR: share of its gap subtracted from an action's estimate.
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
        first = np.argmax(self.is_active.any(axis=2), axis=1)  # some layer has active actions
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


_MAKERS: dict[str, LearnerMaker] = {
    "naive-mean": NaiveMean,
    "naive-ucb": NaiveUCB,
    "independent-ucb": IndependentUCB,
    "liu": LiuStyle,
    "barbar": Barbar,
    "active-arm-elimination": ActiveArmElimination,
    "thompson": ThompsonSampling,
}

BASELINES = {name: LearnerSpec(name=name, make=make) for name, make in _MAKERS.items()}
"""All baselines by name; add your own, as docs/extend.md shows."""
