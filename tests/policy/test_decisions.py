"""Decisions other than the largest mean: excluded actions, and other rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.policy.test_policy import make_policy
from unswayed.errors import InputError
from unswayed.policy import Policy, best_known
from unswayed.reports.policies import compare_policies

MEANS = np.array([[0.2, 0.6, 0.4], [0.5, 0.1, np.nan], [np.nan] * 3])
PLAIN = make_policy(["home", "search", "empty"], ["tea", "milk", "cola"], MEANS)
OUT = np.array([[False, True, False], [False, True, False], [False] * 3])
EXCLUDED = replace(PLAIN, is_excluded=OUT)
DECIDED = replace(EXCLUDED, decisions=np.array([0, 0, 1]))


def chosen(policy: Policy) -> list[Any]:
    """Return the action of each known context, and that of an unknown one."""
    return policy.decide_many(["home", "search", "unseen"])[0]


def written(policy: Policy, change: Callable[[dict[str, Any]], None] = lambda _: None) -> Policy:
    """Write a policy, change the file, and return the policy that is read from it."""
    value = json.loads(json.dumps(policy.to_json(), allow_nan=False))
    change(value)
    return Policy.from_json(value)


def test_an_excluded_action_is_never_chosen_even_if_it_is_the_only_known_one() -> None:
    nan = np.nan
    table = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 2.0], [nan, 5.0, nan], [5.0, nan, nan]])
    is_excluded = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]], np.bool_)
    assert best_known(table).tolist() == [0, 1, 1, 0]
    assert best_known(table, is_excluded).tolist() == [1, 2, 1, 1]


def test_an_excluded_action_keeps_its_mean_and_is_not_chosen_anywhere() -> None:
    assert chosen(PLAIN) == ["milk", "tea", "tea"]
    assert chosen(EXCLUDED) == ["cola", "tea", "tea"]
    assert EXCLUDED.decide("home").mean == 0.4
    assert EXCLUDED.mean_rewards[0, 1] == 0.6
    alone = make_policy(["home"], ["tea", "milk"], MEANS[:1, :2])
    assert alone.decide("unseen").action == "milk"
    assert replace(alone, is_excluded=OUT[:1, :2]).decide("unseen").action == "tea"


def test_listed_decisions_override_the_means() -> None:
    """If nothing was learned about a context, the default action is played all the same."""
    assert chosen(DECIDED) == ["tea", "tea", "tea"]
    assert DECIDED.decide("home").mean == 0.2
    assert DECIDED.decide("empty").action == "tea"
    (change,) = compare_policies(EXCLUDED, DECIDED).changes
    assert (change.before, change.after, change.mean_after) == ("cola", "tea", 0.2)


@pytest.mark.parametrize("policy", [EXCLUDED, DECIDED], ids=["excluded", "decided"])
def test_a_written_policy_decides_the_same_and_marks_excluded_actions(
    policy: Policy, tmp_path: Path
) -> None:
    policy.save(tmp_path / "policy.json")
    again = Policy.load(tmp_path / "policy.json")
    np.testing.assert_array_equal(again.actions, policy.actions)
    np.testing.assert_array_equal(again.is_excluded, OUT)
    assert again.to_json() == policy.to_json()
    marks = {
        (context, action)
        for context, row in policy.to_json()["mean_rewards"].items()
        for action, cell in row.items()
        if "excluded" in cell
    }
    assert marks == {("home", "milk"), ("search", "milk")}
    assert again.cells()["is_excluded"].tolist() == OUT.ravel().tolist()


def test_a_file_without_a_list_of_decisions_uses_the_means() -> None:
    def without(value: dict[str, Any]) -> None:
        del value["policy"]

    assert chosen(written(DECIDED, without)) == chosen(EXCLUDED)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value["policy"].update(home="beer"),
        lambda value: value["policy"].update(home=["tea"]),
        lambda value: value["policy"].update(home="milk"),  # tea is excluded
        lambda value: value["policy"].pop("home"),
        lambda value: value.update(policy=7),
        lambda value: value["mean_rewards"]["home"]["tea"].update(excluded="no"),
        lambda value: value["mean_rewards"]["home"]["cola"].update(excluded=True),
    ],
)
def test_impossible_decisions_are_refused(change: Callable[[dict[str, Any]], None]) -> None:
    with pytest.raises(InputError):
        written(EXCLUDED, change)


@pytest.mark.parametrize(
    "wrong",
    [
        {"decisions": np.array([0, 0])},
        {"decisions": np.array([0, 3, 0])},
        {"decisions": np.array([0, -1, 0])},
        {"decisions": np.array([1, 0, 0])},  # excluded
        {"is_excluded": OUT[:2]},
        {"is_excluded": np.ones((3, 3), np.bool_)},
    ],
)
def test_a_policy_with_impossible_decisions_cannot_be_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        replace(EXCLUDED, **wrong)
