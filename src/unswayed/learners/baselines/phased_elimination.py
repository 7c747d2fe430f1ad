"""Phased elimination on medians over users, in the style of Mitra et al. (2022), per context."""

from __future__ import annotations

from math import ceil, log, sqrt

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.baselines.arrivals import checked_arrivals
from unswayed.learners.interface import Setting, evenly_among_best

#: Ours: plays of an active action in the first phase; each later phase has four times as many.
FIRST_PLAYS = 64
#: Ours: a usual level; it enters through a logarithm only.
FAILURE_PROBABILITY = 0.1
#: Ours: the sub-Gaussian scale of rewards in [0, 1].
REWARD_SCALE = 0.5


class PhasedElimination:
    """Active actions are played evenly; after each phase the median over users decides who stays.

    An action's estimate is the median of the users' own means in the phase. With k plays a user
    and n users it is off by at most gamma = (scale/√k)·(z((1/2)/(1−alpha)) + 1.25 √(2 log(2 S A
    m²/delta)/n)): what a share alpha can move a median, and chance. Actions more than 2 gamma below
    the best are eliminated for ever.

    Guarantee
    ---------
    None claimed. Mitra, Adibi, Pappas and Hassani prove regret O~((alpha + 1/√M) √(d T)) for each
    good agent of M in linear bandits.

    Deviations: "-style": theirs plays a G-optimal design over features, ours has none; gamma is the
    exact bias of a median of normal means rather than their constant, in favour of the baseline.

    Attributes
    ----------
    is_active, estimates
        Shape (n_contexts, n_actions); the estimates are those of the last phase of each action.
    phases
        Shape (n_contexts,); from 1.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        shape = (setting.n_contexts, setting.n_actions)
        self.is_active: BoolArray = np.ones(shape, dtype=np.bool_)
        self.estimates = np.full(shape, np.nan)
        self.phases = np.ones(setting.n_contexts, dtype=np.int64)
        self.remaining = np.full(setting.n_contexts, FIRST_PLAYS * setting.n_actions)
        self._sums = np.zeros((setting.n_users, *shape))
        self._counts = np.zeros((setting.n_users, *shape))

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see :class:`~unswayed.learners.interface.Learner`."""
        users, contexts, outcomes = checked_arrivals(users, contexts, outcomes, self.setting)
        actions = np.empty(users.size, np.int64)
        position = 0
        while position < users.size:
            position, ended = _play_until_a_phase_ends(
                self.setting.rng,
                users,
                contexts,
                outcomes,
                actions,
                position,
                self.is_active,
                self._sums,
                self._counts,
                self.remaining,
            )
            if ended >= 0:
                self._end_phase(ended)
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 (one policy for all)
        """Return the best active estimate of each context, of the running phase in the first."""
        is_first = self.phases == 1
        running = np.array(
            [
                self._medians(context) if is_first[context] else self.estimates[context]
                for context in range(self.setting.n_contexts)
            ]
        )
        return evenly_among_best(np.where(self.is_active, running, -np.inf))

    def _medians(self, context: int) -> FloatArray:
        counts, sums = self._counts[:, context], self._sums[:, context]
        medians = np.full(counts.shape[1], np.nan)
        for action in range(counts.shape[1]):
            has = counts[:, action] > 0
            if has.any():
                medians[action] = np.median(sums[has, action] / counts[has, action])
        return medians

    def _end_phase(self, context: int) -> None:
        active = np.flatnonzero(self.is_active[context])
        estimates = self._medians(context)
        self.estimates[context, active] = estimates[active]
        counts = self._counts[:, context][:, active]
        n_users = max(1, int((counts > 0).sum(axis=0).min()))
        plays = float(counts[counts > 0].mean())
        reach = 2.0 * self._gamma(n_users, plays, int(self.phases[context]))
        self.is_active[context, active] = ~(
            estimates[active] < np.nanmax(estimates[active]) - reach
        )
        self._counts[:, context] = 0.0
        self._sums[:, context] = 0.0
        self.phases[context] += 1
        n_active = int(self.is_active[context].sum())
        self.remaining[context] = ceil(FIRST_PLAYS * 4.0 ** (self.phases[context] - 1) * n_active)

    def _gamma(self, n_users: int, plays: float, phase: int) -> float:
        alpha = self.setting.alpha
        cells = self.setting.n_contexts * self.setting.n_actions
        chance = 1.25 * sqrt(2 * log(2 * cells * phase**2 / FAILURE_PROBABILITY) / n_users)
        bias = float(special.ndtri(0.5 / (1.0 - alpha)))
        return REWARD_SCALE / sqrt(plays) * (bias + chance)


@compiled
def _play_until_a_phase_ends(
    rng: np.random.Generator,
    users: IntArray,
    contexts: IntArray,
    outcomes: FloatArray,
    actions: IntArray,
    start: int,
    is_active: BoolArray,
    sums: FloatArray,
    counts: FloatArray,
    remaining: IntArray,
) -> tuple[int, int]:
    """Play from ``start``; return where to go on and whose phase ended, -1 if arrivals ran out."""
    for t in range(start, contexts.size):
        s = contexts[t]
        skip = int(rng.random() * is_active[s].sum())
        a = 0
        while not is_active[s, a] or skip > 0:
            skip -= is_active[s, a]
            a += 1
        actions[t] = a
        sums[users[t], s, a] += outcomes[t, a]
        counts[users[t], s, a] += 1.0
        remaining[s] -= 1
        if remaining[s] == 0:
            return t + 1, s
    return contexts.size, -1
