"""A café's log with colluders, and commands run in this process."""

import numpy as np
import pyarrow as pa

from unswayed.cli.main import app

BEST = {"home": "tea", "search": "milk", "☕ café": "water"}


def café_log(
    rng: np.random.Generator, n: int = 6_000, n_users: int = 300, alpha: float = 0.1
) -> pa.Table:
    """Return a log in which each context has one best action and colluders push milk everywhere."""
    contexts, actions = np.array(list(BEST)), np.array(["tea", "milk", "water"])
    users = rng.integers(n_users, size=n)
    s, a = rng.integers(3, size=n), rng.integers(3, size=n)
    best = np.array([list(actions).index(action) for action in BEST.values()])
    rewards = (rng.random(n) < np.where(a == best[s], 0.9, 0.2)).astype(float)
    is_liar = users < alpha * n_users
    rewards[is_liar] = actions[a[is_liar]] == "milk"
    return pa.table(
        {
            "user": [f"user-{code}" for code in users],
            "context": contexts[s],
            "action": actions[a],
            "reward": rewards,
        }
    )


def unswayed(*arguments: object) -> None:
    """Run a command in this process."""
    app([str(argument) for argument in arguments], standalone_mode=False)
