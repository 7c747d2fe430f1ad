"""A digest depends on every column, and not on the order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unswayed.events import Events
from unswayed.tallies import tally_events
from unswayed.tallies.log_data import digest_of

COLUMNS: dict[str, Any] = {
    "users": np.array(["ann", "bob", "bob", "cid"]),
    "contexts": np.array(["home", "home", "cart", "cart"]),
    "actions": np.array(["tea", "milk", "tea", "milk"]),
    "rewards": np.array([1.0, 0.0, 1.0, 0.5]),
    "propensities": np.array([0.5, 0.25, 0.5, 0.25]),
}

CHANGES: list[tuple[str, Any]] = [
    ("users", "dan"),
    ("contexts", "shop"),
    ("actions", "water"),
    ("rewards", 0.75),
    ("propensities", 0.75),
]


def changed(name: str, value: Any) -> Events:
    column = COLUMNS[name].copy()
    column[0] = value
    return Events.of(**(COLUMNS | {name: column}))


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_a_change_in_any_column_changes_the_digest(name: str, value: Any) -> None:
    before, after = Events.of(**COLUMNS), changed(name, value)
    assert digest_of(before) != digest_of(after)
    assert digest_of(tally_events(before)) != digest_of(tally_events(after))


def test_the_order_of_rows_does_not_matter() -> None:
    whole = Events.of(**COLUMNS)
    turned = Events.of(**{name: column[::-1] for name, column in COLUMNS.items()})
    assert digest_of(whole) == digest_of(turned)


def test_each_half_of_a_digest_distinguishes_logs() -> None:
    """The two hashes are independent, so both hardly ever collide for the same logs."""
    first, second = (digest_of(log) for log in (Events.of(**COLUMNS), changed("rewards", 0.75)))
    assert all(before != after for before, after in zip(first, second, strict=True))
    assert first[0] != first[1]
