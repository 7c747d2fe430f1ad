"""BARBAR and its relatives: epochs that play doubtful actions less, pooled over the users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil, log, log2

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.baselines.arrivals import checked_arrivals, means
from unswayed.learners.interface import Setting, evenly_among_best

# Gupta, Koren and Talwar's constant in lambda, the one their theorem needs.
ORIGINAL_CONSTANT = 1024.0
# Ours: five full epochs, 120,314 plays, fit into the 125,000 plays a context has in Figure 2(d);
# with the original constant epochs 1 and 2 alone would take up to 225,809.
DEFAULT_CONSTANT = 8.0
# Ours: a usual level; it enters through a logarithm only.
FAILURE_PROBABILITY = 0.1
# Ours: keeps the planned plays lambda/gap² above zero when rewards are absurd.
LARGEST_GAP = 1e9


def plays_of_unit_gap(
    *, n_actions: int, horizon: float, constant: float, failure_probability: float
) -> float:
    """Return lambda = constant · ln(8 K log2(T) / delta), the plays planned at gap one.

    >>> five = plays_of_unit_gap(  # the first epoch of Figure 2(d), five actions
    ...     n_actions=5, horizon=125_000, constant=1024, failure_probability=0.1
    ... )
    >>> round(5 * five, 1)
    45161.7
    """
    return constant * log(8 * n_actions * log2(horizon) / failure_probability)


class PlannedEpochs(ABC):
    """Plays actions at random in planned proportions and plans anew after each epoch, per context.

    In an epoch the action with gap g is due n = lambda/g² plays; the epoch lasts N = ceil(sum of n)
    arrivals of the context, each playing an action with probability n/sum of n. Its estimate is
    its reward sum over the *planned* n, so that an adversary cannot steer the denominators.

    Parameters
    ----------
    constant
        Scale of lambda: 8 by default (ours), ``ORIGINAL_CONSTANT`` for the one in the theorem.
    failure_probability
        delta.

    Notes
    -----
    A context's horizon T is taken to be its even share of all interactions. Before a context ends
    its first epoch the means of that epoch are recommended (ours: the originals minimise regret
    and recommend nothing).

    Attributes
    ----------
    gaps, planned, estimates
        Shape (n_contexts, n_actions); gaps and planned plays of the running epoch, estimates of the
        last complete one (NaN before).
    epochs, remaining
        Shape (n_contexts,); the running epoch, from 1, and the arrivals it still has.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        constant: float = DEFAULT_CONSTANT,
        failure_probability: float = FAILURE_PROBABILITY,
    ) -> None:
        if not 0.0 < constant < np.inf:
            raise InputError(f"constant is {constant}: it must be positive and finite.")
        if not 0.0 < failure_probability < 1.0:
            raise InputError(
                f"failure_probability is {failure_probability}: it must lie between 0 and 1."
            )
        self.setting = setting
        shape = (setting.n_contexts, setting.n_actions)
        horizon = setting.n_users * setting.interactions_per_user / setting.n_contexts
        self.unit_plays = plays_of_unit_gap(
            n_actions=setting.n_actions,
            horizon=max(horizon, 2.0),  # log2 must be positive
            constant=constant,
            failure_probability=failure_probability,
        )
        self.gaps = np.ones(shape)
        self.planned = np.empty(shape)
        self.estimates = np.full(shape, np.nan)
        self.epochs = np.ones(setting.n_contexts, dtype=np.int64)
        self.remaining = np.empty(setting.n_contexts, dtype=np.int64)
        self._thresholds = np.empty(shape)
        self._sums = np.zeros(shape)
        self._counts = np.zeros(shape, dtype=np.int32)
        for context in range(setting.n_contexts):
            self._plan(context)

    @abstractmethod
    def next_gaps(self, context: int) -> FloatArray:
        """Return the gaps for the epoch after the one whose estimates were just made."""

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        _, contexts, outcomes = checked_arrivals(users, contexts, outcomes, self.setting)
        actions = np.empty(contexts.size, dtype=np.int64)
        position = 0
        while position < contexts.size:
            position, ended = _play_until_an_epoch_ends(
                self.setting.rng,
                contexts,
                outcomes,
                actions,
                position,
                self._thresholds,
                self._sums,
                self._counts,
                self.remaining,
            )
            if ended >= 0:
                self._end_epoch(ended)
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 (one policy for all)
        """Return the best estimate of each context's last complete epoch."""
        is_first = self.epochs[:, None] == 1
        running = means(self._sums, self._counts)
        return evenly_among_best(np.where(is_first, running, self.estimates))

    def _end_epoch(self, context: int) -> None:
        self.estimates[context] = self._sums[context] / self.planned[context]
        self.gaps[context] = np.minimum(self.next_gaps(context), LARGEST_GAP)
        self.epochs[context] += 1
        self._sums[context] = 0.0
        self._counts[context] = 0
        self._plan(context)

    def _plan(self, context: int) -> None:
        self.planned[context] = self.unit_plays / self.gaps[context] ** 2
        total = self.planned[context].sum()
        self.remaining[context] = ceil(total)
        self._thresholds[context] = np.cumsum(self.planned[context]) / total
        self._thresholds[context, -1] = 1.0  # rounding must not leave a gap at the end


@compiled
def _play_until_an_epoch_ends(
    rng: np.random.Generator,
    contexts: IntArray,
    outcomes: FloatArray,
    actions: IntArray,
    start: int,
    thresholds: FloatArray,
    sums: FloatArray,
    counts: npt.NDArray[np.int32],
    remaining: IntArray,
) -> tuple[int, int]:
    """Play from ``start``; return where to go on and whose epoch ended, -1 if arrivals ran out."""
    for t in range(start, contexts.size):
        s = contexts[t]
        u = rng.random()
        a = 0
        while u >= thresholds[s, a]:
            a += 1
        actions[t] = a
        sums[s, a] += outcomes[t, a]
        counts[s, a] += 1
        remaining[s] -= 1
        if remaining[s] == 0:
            return t + 1, s
    return contexts.size, -1


# Theirs: the share of its gap by which an action is held down when the best is sought.
CAUTION = 1.0 / 16.0


class Barbar(PlannedEpochs):
    """Never drop an action, only play it less: gaps are estimated anew in every epoch.

    After epoch m with estimates r: r* = max(r − gap/16) and the new gap is max(2^−m, r* − r).

    Guarantee
    ---------
    With ``constant=ORIGINAL_CONSTANT``, rewards in [0, 1] and total corruption C, regret
    O(K C + sum over actions of log(T) log(K log T/delta)/gap) with probability 1 − delta. C is
    linear in T when a fixed share of the users lies: then the bound is void, which is what the
    paper's Figure 2(d) shows. With the default constant there is no theorem, but at small sizes
    epochs do end; with the original one a context of Figure 2(d) sees two epochs at most.

    Deviations: the default constant, see :class:`PlannedEpochs`; gaps are capped at 10^9.
    """

    def next_gaps(self, context: int) -> FloatArray:
        """Return max(2^−m, r* − r)."""
        estimates = self.estimates[context]
        best = np.max(estimates - CAUTION * self.gaps[context])
        gaps: FloatArray = np.maximum(2.0 ** -float(self.epochs[context]), best - estimates)
        return gaps


class BarbatStyle(Barbar):
    """BARBAR with epochs of fixed length: what is left after lambda/gap² goes to the best action.

    Epoch m lasts K·lambda·4^(m−1) arrivals whatever the estimates say, so that an adversary who
    inflates gaps cannot shorten epochs; every action but the best of the epoch before is due
    lambda/gap² plays, and the best one gets the rest.

    Guarantee
    ---------
    None claimed. Theirs has regret O(C) rather than O(K C) in the total corruption C, which is
    linear in T when a fixed share of the users lies.

    Deviations: "-style", because lambda is BARBAR's and does not change from epoch to epoch; see
    :class:`PlannedEpochs` for the default constant.
    """

    def _plan(self, context: int) -> None:
        self.planned[context] = self.unit_plays / self.gaps[context] ** 2
        length = self.planned.shape[1] * self.unit_plays * 4.0 ** (self.epochs[context] - 1)
        if self.epochs[context] > 1:
            best = int(np.argmax(self.estimates[context]))
            self.planned[context, best] += length - self.planned[context].sum()
        self.remaining[context] = ceil(length)
        self._thresholds[context] = np.cumsum(self.planned[context]) / length
        self._thresholds[context, -1] = 1.0  # rounding must not leave a gap at the end


class LiuStyle(PlannedEpochs):
    """Active actions share each epoch evenly, bad ones keep lambda/gap² plays.

    In epoch m each active action is due lambda·4^(m−1) plays. After it, with r* the best estimate
    among the active, an action is bad when r* − r > c·2^−m, its gap is then r* − r, and active
    otherwise; a bad action that looks good again comes back.

    Parameters
    ----------
    badness
        c: how far below the best an action must fall to be bad, in units of 2^−m, at least 1.
    constant, failure_probability
        See :class:`PlannedEpochs`.

    Guarantee
    ---------
    None claimed. Liu, Li and Li (2021) prove that the corruption costs its sum once rather than K
    times; as for BARBAR, a fixed share of lying users makes that sum linear in T.

    Deviations: "-style", because this follows a description of their method without the
    communication between agents, not their full text; constants are those of BARBAR.

    Attributes
    ----------
    is_active
        Shape (n_contexts, n_actions).
    """

    def __init__(
        self,
        setting: Setting,
        *,
        badness: float = 1.0,
        constant: float = DEFAULT_CONSTANT,
        failure_probability: float = FAILURE_PROBABILITY,
    ) -> None:
        if not 1.0 <= badness < np.inf:
            raise InputError(
                f"badness is {badness}: it must be finite and at least 1, or bad actions would be "
                "played more than active ones."
            )
        super().__init__(setting, constant=constant, failure_probability=failure_probability)
        self.badness = badness
        self.is_active = np.ones((setting.n_contexts, setting.n_actions), dtype=bool)

    def next_gaps(self, context: int) -> FloatArray:
        """Sort the actions into active, with gap 2^−m, and bad, with gap r* − r."""
        estimates = self.estimates[context]
        resolution = 2.0 ** -float(self.epochs[context])
        shortfall = np.max(estimates[self.is_active[context]]) - estimates
        self.is_active[context] = shortfall <= self.badness * resolution
        gaps: FloatArray = np.where(self.is_active[context], resolution, shortfall)
        return gaps
