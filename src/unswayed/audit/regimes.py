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
"""Ours: number of actions from which uneven play indicates that users chose, and not a server that
prefers some actions."""

LEAST_REPEATS = 20.0
"""Ours: minimum expected number of repeated plays for the test of repeats."""

FEW_REPEATS = 0.2
"""Ours: share of the expected repeats below which users chose: they usually rate an item once."""

DEVIATIONS = 4.0
"""Ours: the dispersion of uniform play may exceed 1 by this many standard deviations."""

USERS_PER_ACTION = 30
"""Ours: minimum number of visitors per action of a context for the test of uniform play."""


@dataclass(frozen=True, slots=True)
class Regime:
    """Who chose the actions, and the reason for that conclusion."""

    name: Literal["server", "users"]
    reason: str


def regime_of_log(tallies: UserTallies, summary: LogSummary, wanted: RegimeName) -> Regime:
    """Return who chose the actions, as given or as inferred from the log.

    Propensities indicate the server, and so does uniform play. Users who choose for themselves
    rarely choose an item twice, and play many items unevenly.
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

    The p-value of uniform play is 1 if few users played each action, so the dispersion index of the
    numbers of users per action is tested, too.

    Parameters
    ----------
    users
        Shape (S, A); the number of users who played each action in each context.
    """
    n_actions = users.shape[1]
    tested = users[users.sum(axis=1) >= USERS_PER_ACTION * n_actions]
    if not tested.size:
        return False
    dispersion = float((tested.var(axis=1) / tested.mean(axis=1)).mean())
    return dispersion <= 1.0 + DEVIATIONS * math.sqrt(2.0 / tested.size)


def _repeats(tallies: UserTallies) -> tuple[float, float]:
    """Return the observed and the expected number of pairs of plays of a user in the same cell."""
    plays = tallies.cell_sums("plays")
    shares = plays / np.maximum(plays.sum(axis=1, keepdims=True), 1.0)
    found = tallies.blocks.map_blocks(_block_repeats, (shares**2).sum(axis=1))
    return sum(seen for seen, _ in found), sum(expected for _, expected in found)


def _block_repeats(tallies: Tallies, coincidence: FloatArray) -> tuple[float, float]:
    seen = float((tallies.plays * (tallies.plays - 1.0)).sum()) / 2.0
    contexts = tallies.cells // tallies.n_actions
    visits = entry_users(tallies.indptr) * tallies.n_contexts + contexts
    # Entries are sorted by user and cell, so those of a user in a context are adjacent.
    starts = np.flatnonzero(np.diff(visits, prepend=-1))
    n = np.add.reduceat(tallies.plays, starts)
    return seen, float((n * (n - 1.0) / 2.0 * coincidence[contexts[starts]]).sum())
