"""Compile loops before they are needed: learn from a small log of each kind of reward."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from unswayed.errors import Note
from unswayed.learners.from_log import learn_log
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.randomness import generator

N_USERS, N_PLAYS, N_CONTEXTS, N_ACTIONS = 100, 20, 4, 3

COLLUDING = 0.2  # Share of users who push one action, so that code for flagged users is compiled
KINDS = ("clicks", "clicks with propensities", "ratings")  # Kinds of rewards; their loops differ


def warm_up(
    on_kind: Callable[[str], None] = lambda _: None, *, method: str = DEFAULT_METHOD
) -> None:
    """Learn from a small log of each kind, so that all loops are compiled and kept on disk.

    Otherwise the first run after an installation compiles them, which takes a minute on an idle
    machine and longer on a busy one. ``on_kind`` is called with each of ``KINDS`` as it begins.
    """
    for kind in KINDS:
        on_kind(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)  # the policies are discarded
            learn_log(small_log(kind), alpha=COLLUDING, method=method)


def small_log(kind: str) -> pa.Table:
    """Return a log of users with the same mean rewards, and of some who push the first action."""
    rng = generator(0, "warm-up", kind)
    n = N_USERS * N_PLAYS
    user = np.repeat(np.arange(N_USERS), N_PLAYS)
    context, action = rng.integers(N_CONTEXTS, size=n), rng.integers(N_ACTIONS, size=n)
    means = rng.random((N_CONTEXTS, N_ACTIONS))[context, action]
    is_lie = user < COLLUDING * N_USERS
    reward = np.where(is_lie, action == 0, rng.random(n) < means).astype(float)
    if kind == "ratings":
        reward += rng.standard_normal(n)
    columns = {
        "user": [f"user {code}" for code in user],
        "context": [f"context {code}" for code in context],
        "action": [f"action {code}" for code in action],
        "reward": reward,
    }
    if kind == "clicks with propensities":
        columns["propensity"] = np.full(n, 1.0 / N_ACTIONS)
    return pa.table(columns)
