"""Decisions of groups: what is asked of them, what is written, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Labels
from unswayed.policy import Policy
from unswayed.policy.own_decisions import GroupDecisions

CONTEXTS, ACTIONS = Labels.of(["home", "search", "cart"]), Labels.of(["tea", "milk"])
WRITTEN: dict[str, Any] = {
    "user_type": "integer",
    "groups": [
        {"decisions": {"home": "milk", "cart": "tea"}, "users": ["3", "9"]},
        {"decisions": {"search": "milk"}, "users": ["7"]},
    ],
}


def two_groups() -> GroupDecisions:
    """Users 3 and 9 have decisions of their own at home and in the cart, user 7 in search."""
    return GroupDecisions(
        user_labels=Labels.of([3, 7, 9]),
        groups=np.array([0, 1, 0]),
        actions=np.array([[1, UNKNOWN, 0], [UNKNOWN, 1, UNKNOWN]]),
    )


def test_a_member_gets_the_groups_action_and_nobody_else_does() -> None:
    groups = two_groups()
    assert [groups.group(user) for user in (3, 7, 9, 4)] == [0, 1, 0, UNKNOWN]
    assert [groups.action(3, context) for context in range(3)] == [1, UNKNOWN, 0]
    assert [groups.action(7, context) for context in range(3)] == [UNKNOWN, 1, UNKNOWN]
    assert groups.action(4, 0) == UNKNOWN
    assert groups.action(9, UNKNOWN) == UNKNOWN  # not the last context's


def test_groups_are_written_in_words_and_read_back() -> None:
    assert two_groups().to_json(CONTEXTS, ACTIONS) == WRITTEN
    read = GroupDecisions.from_json(WRITTEN, CONTEXTS, ACTIONS)
    assert read.to_json(CONTEXTS, ACTIONS) == WRITTEN
    assert read.groups.tolist() == [0, 0, 1]
    assert read.actions.tolist() == two_groups().actions.tolist()
    assert [read.group(user) for user in (3, 7, 9)] == [0, 1, 0]  # numbers, as they were


def test_a_policy_keeps_its_groups_and_lets_them_decide() -> None:
    table = np.full((3, 2), 0.25)
    policy = Policy(
        context_labels=CONTEXTS,
        action_labels=ACTIONS,
        mean_rewards=table,
        low=table - 0.125,
        high=table + 0.125,
        counts=np.ones((3, 2), np.int64),
        context_probabilities=np.full(3, 1 / 3),
        alpha=0.1,
        method="paper",
        groups=two_groups(),
    )
    written = policy.to_json()
    assert written["groups"] == WRITTEN
    read = Policy.from_json(written)
    assert read.to_json() == written
    assert [read.decide("home", user=user).action for user in (3, 7)] == ["milk", "tea"]


def changed(number: int, **fields: Any) -> dict[str, Any]:
    groups = [dict(one) for one in WRITTEN["groups"]]
    groups[number] |= fields
    return WRITTEN | {"groups": groups}


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (changed(1, users=["7", "3"]), "a user is in two groups"),
        (changed(0, decisions={"attic": "tea"}), "names what is not in it"),
        (changed(0, decisions={"home": "gin"}), "names what is not in it"),
    ],
)
def test_damaged_groups_are_refused_in_one_sentence(damaged: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=f"^the policy is damaged: .*{words}\\.$"):
        GroupDecisions.from_json(damaged, CONTEXTS, ACTIONS)
