"""User means placed exactly where a trimmed mean stops trimming."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.estimators.trimming import DEFAULT_FAILURE_PROBABILITY, trim_count
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    PlayedRound,
    Replay,
    Turn,
    check_share,
)

FARTHEST_EDGE = 5.0
"""Ours: where trimming no longer covers the coalition the edge is at infinity; this is enough."""

LARGEST_MEMORY = 50_000_000
"""Ours: cells over all accounts that are kept in memory, 0.6 GB."""


def trim_edge(*, alpha: float, trim: float) -> float:
    """Return where user means should lie, in standard deviations of good users' means.

    With a share ``trim`` cut at each end, x* = Phi^-1(1 - (trim - alpha) / (1 - alpha)): beyond x*
    are just so many good users that they and the coalition together fill what is cut. The bias
    is then as large as with rewards at infinity, from rewards that look ordinary.

    >>> round(trim_edge(alpha=0.1, trim=0.2), 4)
    1.2206
    """
    beyond = (trim - alpha) / (1.0 - alpha)
    if beyond <= 0.0:
        return FARTHEST_EDGE
    return float(np.clip(-special.ndtri(beyond), 0.0, FARTHEST_EDGE))


@dataclass(kw_only=True)
class TrimEdge(Attack):
    """Steer each account's mean to the trimming edge: up on the target, down on the rival.

    Means and deviations of good users are read off the histories. Each reward tops up the
    account's total in that (context, action) to n mu + x* sigma sqrt(n), so that its mean over n
    plays lies x* deviations of such a mean from mu. Binary totals are rounded. Of an account's
    visits to a context in one round the first makes up for what is missing, the others add their
    own part. Other actions replay good histories.

    Parameters
    ----------
    trim
        The share cut at each end; 0 asks the package's own rule for groups of L / A users.
    """

    name = "trim-edge"
    summary = "account means just where trimming stops: up on the target, down on the rival"
    knows = Knowledge.ALGORITHM | Knowledge.HISTORIES
    trim: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.trim, "trim")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Find the edge and prepare the books."""
        super().begin(briefing, rng)
        trim = self.trim
        if trim == 0.0:
            group = max(briefing.n_users // briefing.n_actions, 1)
            n_trimmed = trim_count(
                group,
                alpha=briefing.assumed_fraction,
                failure_probability=DEFAULT_FAILURE_PROBABILITY,
            )
            trim = n_trimmed / group
        self.edge = trim_edge(alpha=briefing.alpha, trim=trim)
        shape = (briefing.n_contexts, briefing.n_actions)
        if briefing.n_accounts * shape[0] * shape[1] > LARGEST_MEMORY:
            raise InputError(
                f"attack {self.name} keeps a total for every account, context and action, which "
                "is too much here: take fewer users, contexts or actions."
            )
        self._replay = Replay(briefing, rng)
        self._account_of_user = np.full(briefing.n_users, -1)
        self._account_of_user[briefing.accounts] = np.arange(briefing.n_accounts)
        self._counts = np.zeros((briefing.n_accounts, *shape), dtype=np.int32)
        self._sums = np.zeros((briefing.n_accounts, *shape))
        self._good_moments = np.zeros((3, *shape))  # counts, sums, sums of squares

    def rewards(self, turn: Turn) -> FloatArray:
        """Return replays, with the totals on target and rival topped up."""
        rewards = self._replay.rewards(turn.contexts)
        aim = self.briefing.aim
        self._steer(rewards, turn, aim.target[turn.contexts], self.edge)
        self._steer(rewards, turn, aim.rival[turn.contexts], -self.edge)
        return rewards

    def observe(self, played: PlayedRound) -> None:
        """Book what the accounts gave and what good users gave."""
        self._replay.record(played)
        account = self._account_of_user[played.users]
        ours, theirs = np.flatnonzero(account >= 0), np.flatnonzero(account < 0)
        places = (account[ours], played.contexts[ours], played.actions[ours])
        np.add.at(self._counts, places, 1)
        np.add.at(self._sums, places, played.rewards[ours])
        cells = (played.contexts[theirs], played.actions[theirs])
        rewards = played.rewards[theirs]
        for moment, values in zip(
            self._good_moments, (np.ones_like(rewards), rewards, rewards**2), strict=True
        ):
            np.add.at(moment, cells, values)

    def _steer(self, table: FloatArray, turn: Turn, actions: IntArray, edge: float) -> None:
        counts, sums, squares = self._good_moments[:, turn.contexts, actions]
        seen = np.flatnonzero(counts >= 2)
        if not seen.size:
            return
        means = sums[seen] / counts[seen]
        deviations = np.sqrt(np.maximum(squares[seen] / counts[seen] - means**2, 0.0))
        places = (turn.accounts[seen], turn.contexts[seen], actions[seen])
        earlier = _earlier_visits(turn.accounts[seen], turn.contexts[seen])
        plays = self._counts[places] + earlier

        def total(n: IntArray) -> FloatArray:
            result: FloatArray = n * means + edge * deviations * np.sqrt(n)
            return result

        # If every visit of a round made up for all that is missing, totals would overshoot by more
        # in every round.
        rewards = total(plays + 1) - np.where(earlier == 0, self._sums[places], total(plays))
        if self.briefing.is_binary:
            rewards = (rewards > 0.5).astype(np.float64)
        table[seen, actions[seen]] = rewards


def _earlier_visits(accounts: IntArray, contexts: IntArray) -> IntArray:
    """Return how many visits of the same account to the same context come before each.

    >>> _earlier_visits(np.array([4, 7, 4, 4]), np.array([0, 0, 1, 0])).tolist()
    [0, 0, 0, 1]
    """
    order = np.lexsort((np.arange(len(accounts)), contexts, accounts))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(accounts[order]) != 0) | (np.diff(contexts[order]) != 0)
    ranks = np.arange(len(order))
    earlier = np.empty(len(order), np.int64)
    earlier[order] = ranks - np.maximum.accumulate(np.where(is_first, ranks, 0))
    return earlier
