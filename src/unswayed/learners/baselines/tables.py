"""Baselines that keep tables of sums and counts, pooled over users or by user."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.interface import Setting, evenly_among_best


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
        # Compiled loops do not check indices.
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
