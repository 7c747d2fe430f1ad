"""Untrusted policy files are refused if they are invalid, and survive a round trip otherwise."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.test_policy import make_policy
from unswayed.errors import InputError
from unswayed.policy import Policy
from unswayed.reports.policies import predicted_table


def sound() -> dict[str, Any]:
    """Return a valid policy as JSON."""
    value: dict[str, Any] = make_policy(
        ["home", "search"],
        ["tea", "milk"],
        np.array([[0.25, 0.5], [0.75, np.nan]]),
        flip_fraction=np.array([0.1, 0.2]),
        source={"read": {"columns": {"context": ["context"]}}},
    ).to_json()
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to every value inside a JSON value."""
    found = [path] if path else []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            found += places(item, (*path, key))
    return found


PLACES = places(sound())

wrong_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.just("\ud800"),
    st.just(10**400),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(st.lists(st.tuples(st.sampled_from(PLACES), wrong_values), min_size=1, max_size=3))
def test_a_policy_with_wrong_values_is_refused_or_survives_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, changes: list[Any]
) -> None:
    value = sound()
    for path, wrong in changes:
        inner: Any = value
        try:
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = wrong
        except (KeyError, IndexError, TypeError):  # an earlier change removed this path
            continue
    folder = tmp_path_factory.mktemp("policy")
    (folder / "policy.json").write_text(json.dumps(value), encoding="utf-8")
    try:
        policy = Policy.load(folder / "policy.json")
    except InputError:
        return
    policy.save(folder / "again.json")
    assert Policy.load(folder / "again.json").to_json() == policy.to_json()
    for context in [*policy.context_labels, "unknown"]:
        assert policy.decide(context).action in policy.action_labels


@pytest.mark.parametrize("read", [[], {"columns": 7}, {"bins": {"price": "x"}}])
def test_a_policy_with_an_invalid_record_of_its_log_still_predicts_by_named_columns(
    read: Any, tmp_path: Path
) -> None:
    policy = Policy.from_json({**sound(), "source": {"read": read}})
    rows = tmp_path / "rows.csv"
    rows.write_text("context\nhome\n")
    with pytest.raises(InputError, match="`columns`"):
        predicted_table(policy, rows)
