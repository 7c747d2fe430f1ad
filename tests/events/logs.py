"""Logs for tests of reading, and counts of their rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from unswayed.events import Events


def random_log(
    rng: np.random.Generator, n: int = 400, *, n_users: int = 25, n_contexts: int = 4
) -> pa.Table:
    """Return a log with valid but awkward labels."""
    contexts = ["home", 'with "quotes", comma', "ünïcode ☕", "a|b\\c", "x", "y"][:n_contexts]
    actions = ["tea", "milk", "007"]
    return pa.table(
        {
            "user": [f"user-{i}" for i in rng.integers(n_users, size=n)],
            "context": [contexts[i] for i in rng.integers(len(contexts), size=n)],
            "action": [actions[i] for i in rng.integers(len(actions), size=n)],
            "reward": rng.normal(size=n),
        }
    )


def account(events: Events) -> Counter[tuple[Any, ...]]:
    """Count the distinct rows, with decoded labels."""
    return Counter(
        zip(
            (events.user_labels[code] for code in events.users.tolist()),
            (events.context_labels[code] for code in events.contexts.tolist()),
            (events.action_labels[code] for code in events.actions.tolist()),
            events.rewards.tolist(),
            strict=True,
        )
    )


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Count the distinct rows of the table itself."""
    names = ("user", "context", "action", "reward")
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))
