"""Who chose the actions of a log: the server, or the users themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.tallies import Tallies, UserTallies, entry_users
from unswayed.tallies.log_summary import UNIFORM_LEVEL, LogSummary
from unswayed.visible import counted

RegimeName = Literal["auto", "server", "users"]

MANY_ACTIONS = 50
"""Ours: with at least this many actions, a log that is not explored evenly was chosen by its users;
with fewer, by a server that prefers some actions."""

LEAST_REPEATS = 20.0
"""Ours: expected number of repeated plays from which their absence is evidence."""

FEW_REPEATS = 0.2
"""Ours: users who pick items rate each once; with less than this share of the repeats expected by
chance, users chose."""

DEVIATIONS = 4.0
"""Ours: the dispersion of uniform play stays within this many standard deviations."""

USERS_PER_ACTION = 30
"""Ours: visitors of a context for each action, before uneven play can be detected."""


@dataclass(frozen=True, slots=True)
class Regime:
    """Who chose, and how that is known."""

    name: Literal["server", "users"]
    reason: str


def regime_of_log(tallies: UserTallies, summary: LogSummary, wanted: RegimeName) -> Regime:
    """Return who chose the actions: as stated, or as inferred from the log.

    Propensities, or uniform play if there is enough data to test it, indicate the server. Users who
    choose for themselves rate an item once, where chance would repeat it, and spread unevenly over
    many items.
    """
    if wanted != "auto":
        return Regime(wanted, "as stated")
    if summary.is_weighted:
        return Regime("server", "the log has propensities")
    if summary.uniform_p_value >= UNIFORM_LEVEL and _is_even(tallies.cell_users()):
        return Regime("server", "the actions of a context are played about equally often")
    seen, expected = _repeats(tallies)
    if expected >= LEAST_REPEATS and seen < FEW_REPEATS * expected:
        return Regime(
            "users",
            f"users met an item again {counted(seen, 'time')}, where random choice would give "
            f"{expected:,.0f}",
        )
    if tallies.n_actions >= MANY_ACTIONS:
        return Regime("users", f"{tallies.n_actions:,} items are chosen unevenly")
    return Regime("server", "there are few actions, and users meet them again")


def _is_even(users: IntArray) -> bool:
    """Return whether actions were explored evenly over enough users.

    If too few users met each action, the p-value of uniform play is 1. So the variance of
    the number of users per action must not exceed its mean by more than chance either.

    Parameters
    ----------
    users
        Shape (S, A); how many met each action of each context.
    """
    n_actions = users.shape[1]
    tested = users[users.sum(axis=1) >= USERS_PER_ACTION * n_actions]
    if not tested.size:
        return False
    dispersion = float((tested.var(axis=1) / tested.mean(axis=1)).mean())
    return dispersion <= 1.0 + DEVIATIONS * math.sqrt(2.0 / tested.size)


def _repeats(tallies: UserTallies) -> tuple[float, float]:
    """Return pairs of plays of a user in one cell: how many there are, and how many by chance."""
    plays = tallies.cell_sums("plays")
    shares = plays / np.maximum(plays.sum(axis=1, keepdims=True), 1.0)
    found = tallies.blocks.map_blocks(_block_repeats, (shares**2).sum(axis=1))
    return sum(seen for seen, _ in found), sum(expected for _, expected in found)


def _block_repeats(tallies: Tallies, coincidence: FloatArray) -> tuple[float, float]:
    seen = float((tallies.plays * (tallies.plays - 1.0)).sum()) / 2.0
    contexts = tallies.cells // tallies.n_actions
    visits = entry_users(tallies.indptr) * tallies.n_contexts + contexts
    # Entries are sorted by user and cell, so those of one user and context are next to each other.
    starts = np.flatnonzero(np.diff(visits, prepend=-1))
    n = np.add.reduceat(tallies.plays, starts)
    return seen, float((n * (n - 1.0) / 2.0 * coincidence[contexts[starts]]).sum())
