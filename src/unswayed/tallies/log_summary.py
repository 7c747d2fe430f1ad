"""Summary of a log, and checks that something can be learned from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.defaults import MIN_PROPENSITY
from unswayed.errors import InputError, check_adversarial_fraction, option
from unswayed.tallies.summing import row_sums
from unswayed.tallies.tallies import Tallies, UserTallies

UNIFORM_LEVEL = 0.001  # Ours: p-value below which actions count as not uniformly explored
_USERS_FOR_TEST = 30  # Ours: users a cell needs before its normal approximation is trusted
# Ours: minimum share of the visits that lie in contexts where something can be learned
LEAST_SUPPORTED_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """Summary statistics of a log.

    ``interaction_ratio`` is c_L, the largest number of interactions of a user divided by the
    smallest; ``repeated_share`` the share of events whose user had met the context before;
    ``uniform_p_value`` tests that actions were explored uniformly, weights included;
    ``rare_contexts`` have too few users for a decision that is robust to chance and to a coalition.
    ``never_played`` are some empty cells of other contexts; ``unsupported`` are those that chance
    does not explain. ``is_binary`` says that every reward is 0 or 1, so that means are rates.
    """

    n_events: int
    n_users: int
    n_contexts: int
    n_actions: int
    is_weighted: bool
    fewest_interactions: int
    median_interactions: float
    most_interactions: int
    interaction_ratio: float
    repeated_share: float
    uniform_p_value: float
    looks_uniform: bool
    n_rare_contexts: int
    rare_share: float
    rarest_contexts: tuple[str, ...]
    never_played: tuple[tuple[str, str], ...]
    unsupported: tuple[tuple[str, str], ...]
    lowest_reward_mean: float
    highest_reward_mean: float
    is_binary: bool

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def summarise(
    tallies: UserTallies, *, alpha: float, min_propensity: float = MIN_PROPENSITY
) -> LogSummary:
    """Summarise tallies, which have labels, before learning from them.

    A cell is *supported* when more than m₀ = max(1, 4α(1−α)/(½−α)²) users met it: then colluders
    are a minority there, even two standard deviations above their expected share. A context is rare
    when fewer than two of its actions are supported.
    """
    alpha = check_adversarial_fraction(alpha)

    def named(chosen: BoolArray) -> tuple[tuple[str, str], ...]:
        """Return the labels of the first few chosen cells."""
        contexts, actions = tallies.context_labels, tallies.action_labels
        return tuple((str(contexts[s]), str(actions[a])) for s, a in np.argwhere(chosen)[:5])

    by_user, n_pairs, are_weighted = zip(*tallies.blocks.map_blocks(_block_summary), strict=True)
    plays = np.concatenate(by_user)
    active = plays[plays > 0]
    visits = tallies.cell_sums("plays")
    by_context = visits.sum(axis=1)
    n_users = tallies.cell_users()
    is_rare = (n_users > least_users(alpha)).sum(axis=1) < 2
    rare = np.flatnonzero(is_rare)
    rarest: list[int] = rare[np.argsort(by_context[rare], kind="stable")].tolist()
    is_weighted = any(are_weighted)
    is_unsupported = unsupported_cells(
        visits, n_users, least_probability=min_propensity if is_weighted else None
    )
    n_events = by_context.sum()
    p_value = uniformity_p_value(tallies)
    lowest, highest = tallies.range_of_means()
    return LogSummary(
        n_events=int(n_events),
        n_users=len(active),
        n_contexts=tallies.n_contexts,
        n_actions=tallies.n_actions,
        is_weighted=is_weighted,
        fewest_interactions=int(active.min()) if len(active) else 0,
        median_interactions=float(np.median(active)) if len(active) else 0.0,
        most_interactions=int(active.max(initial=0)),
        interaction_ratio=float(active.max() / active.min()) if len(active) else math.nan,
        repeated_share=1.0 - sum(n_pairs) / max(n_events, 1),
        uniform_p_value=p_value,
        looks_uniform=p_value >= UNIFORM_LEVEL,
        n_rare_contexts=int(is_rare.sum()),
        rare_share=float(by_context[is_rare].sum() / max(n_events, 1)),
        rarest_contexts=tuple(str(tallies.context_labels[code]) for code in rarest[:5]),
        never_played=named((visits == 0) & ~is_rare[:, None]),
        unsupported=named(is_unsupported),
        lowest_reward_mean=lowest,
        highest_reward_mean=highest,
        is_binary=tallies.are_binary(),
    )


def check_learnable(summary: LogSummary, *, alpha: float, allow_unplayed: bool = False) -> None:
    """Reject a log from which nothing reliable can be learned, and suggest a remedy.

    With ``allow_unplayed`` actions may lack support in some contexts.
    """
    if summary.n_users < 2:
        raise InputError(
            "the log has one user; robustness compares users, so it needs many. Check the user "
            "column."
        )
    if summary.n_actions < 2:
        raise InputError(
            "the log has one action, so there is nothing to decide. Check the action column."
        )
    low, high = summary.lowest_reward_mean, summary.highest_reward_mean
    if math.isclose(low, high, rel_tol=1e-12):  # means of equal rewards differ by rounding errors
        raise InputError(
            f"rewards are {low:g} everywhere, so no action can be distinguished from "
            "another. Check the reward column."
        )
    if summary.rare_share > 1.0 - LEAST_SUPPORTED_SHARE:
        raise InputError(
            f"{summary.rare_share:.0%} of the events lie in contexts where fewer than two actions "
            f"were met by more than {least_users(alpha):.0f} users, which alpha = {alpha:g} needs; "
            f"the log has {summary.n_users:,} users, {summary.n_contexts:,} contexts and "
            f"{summary.n_actions:,} actions. Use coarser contexts "
            f"({option('--context-bins', python='bins=…')}), a smaller alpha, or a longer log."
        )
    if summary.unsupported and not allow_unplayed:
        context, action = summary.unsupported[0]
        reason = (
            "so no weight can make up for it: the logging policy gave it no support there"
            if summary.is_weighted
            else "which chance does not explain: the actions were not explored uniformly there"
        )
        raise InputError(
            f"action {action!r} was never played in context {context!r}, {reason}. Leave the "
            "action or the context out, log with exploration, or learn about the other actions "
            f"only with {option('--allow-unplayed')}."
        )


def least_users(alpha: float) -> float:
    """Return how many users a cell needs so that colluders are a minority among them.

    >>> round(least_users(0.1), 2), round(least_users(0.4))
    (2.25, 96)
    """
    return max(1.0, 4 * alpha * (1 - alpha) / (0.5 - alpha) ** 2)


def uniformity_p_value(tallies: UserTallies) -> float:
    """Test that every action of a context is played equally often; users are the clusters.

    For each cell, z = Σ_i d_i / sqrt(V) with d_i = n_i(s,a) − n_i(s)/A, and V the mean over the
    actions of Σ_i d_i². It is standard normal when actions are uniform, whether drawn anew each
    time or once per user and context, because plays of one user may depend on each other and those
    of different users do not. Counts are skewed, so z is corrected to first order (Cornish and
    Fisher). The p-value is the smallest over the cells that enough users met, times their number.
    """
    if tallies.n_actions < 2:
        return 1.0
    by_block = tallies.blocks.map_blocks(_block_deviations)
    totals, squares, cubes, pairs = (reduce(np.add, part) for part in zip(*by_block, strict=True))
    is_tested = (pairs >= _USERS_FOR_TEST * tallies.n_actions) & (squares > 0)
    if not is_tested.any():
        return 1.0
    variances = squares[is_tested] / tallies.n_actions
    skewness = cubes[is_tested] / tallies.n_actions / variances**1.5
    scores = totals[is_tested] / np.sqrt(variances)[:, None]
    scores -= (scores**2 - 1) * skewness[:, None] / 6
    return float(min(1.0, 2 * special.ndtr(-np.abs(scores).max()) * scores.size))


def _block_deviations(tallies: Tallies) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return Σ_i d_i for each cell; Σ d² and Σ d³ over users and actions, and users, by context.

    With n plays of a user in a cell, N in its context, x = N/A and d = n − x, Σ_a d² = Σ n² − xN
    and Σ_a d³ = Σ n³ − 3x Σ n² + 2x²N, so actions that were not played cost nothing.
    """
    counts, (n_contexts, n_actions) = tallies.counts, (tallies.n_contexts, tallies.n_actions)
    pairs, contexts = tallies.pairs()
    powers = (counts, counts * counts, counts * counts * counts)
    seen, square, cube = (np.bincount(pairs, power).astype(np.float64) for power in powers)
    even = seen / n_actions
    by_pair: list[FloatArray] = [
        square - even * seen,
        cube - 3 * even * square + 2 * even * even * seen,
        seen,
        np.ones(len(contexts)),
    ]
    squares, cubes, visits, users = (
        np.bincount(contexts, values, minlength=n_contexts).astype(np.float64) for values in by_pair
    )
    totals = np.bincount(tallies.cells, counts, minlength=tallies.n_cells)
    deviations = totals.reshape(n_contexts, n_actions) - (visits / n_actions)[:, None]
    return deviations, squares, cubes, users


def _block_summary(tallies: Tallies) -> tuple[FloatArray, int, bool]:
    """Return each user's plays, the number of (user, context) pairs, and if there are weights."""
    plays = row_sums(tallies.indptr, tallies.plays)
    return plays, len(tallies.pairs()[1]), tallies.is_weighted


# Ours: an empty cell is unsupported if chance leaves any cell empty with at most this probability
SUPPORT_LEVEL = 0.001


def unsupported_cells(
    visits: FloatArray, n_users: IntArray, *, least_probability: float | None = None
) -> BoolArray:
    """Return cells that are empty although every action of their context had a fair chance.

    All tables have shape (n_contexts, n_actions): how often each cell was played, and how many
    users met it. ``least_probability`` is the smallest propensity that counts as support; None for
    uniform exploration.

    Guarantee: if every play of a context gives each action at least the probability p, some empty
    cell is called unsupported with probability at most ``SUPPORT_LEVEL``: n independent draws miss
    an action with probability at most (1−p)^n, and there are S·A cells. With propensities,
    n counts plays. Under uniform exploration, p = 1/A, and n counts the pairs of user and action,
    since users may keep one action in a context.

    >>> visits = np.array([[40.0, 0.0], [3.0, 0.0]])
    >>> unsupported_cells(visits, visits.astype(np.int64)).tolist()
    [[False, True], [False, False]]
    """
    draws = n_users.sum(axis=1) if least_probability is None else visits.sum(axis=1)
    probability = 1.0 / visits.shape[1] if least_probability is None else least_probability
    # Use logarithms, because powers with so many draws underflow.
    log_chance = np.log(visits.size) + draws * np.log1p(-min(probability, 0.5))
    unsupported: BoolArray = (visits == 0) & (log_chance < np.log(SUPPORT_LEVEL))[:, None]
    return unsupported
