"""What plans, policies and personal decisions look like on disk and in words, field by field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Labels
from unswayed.policy import Policy
from unswayed.policy.own_decisions import PersonalDecisions
from unswayed.policy.plan import EpochPlan, Rule

MEANS = np.array([[0.25, 0.5], [0.75, 0.5]])


def a_policy(**options: Any) -> Policy:
    made: dict[str, Any] = {
        "context_labels": Labels.of(["home", "search"]),
        "action_labels": Labels.of(["tea", "milk"]),
        "mean_rewards": MEANS,
        "low": MEANS - 0.125,
        "high": MEANS + 0.25,
        "counts": np.array([[3, 4], [5, 6]]),
        "context_probabilities": np.array([0.75, 0.25]),
        "alpha": 0.1,
        "method": "paper",
    }
    return Policy(**(made | options))


def own_decisions() -> PersonalDecisions:
    """Ann has tea at home, user 7 milk in search; labels of users are numbers."""
    codes = np.array([0, 1]), np.array([0, 1]), np.array([0, 1])
    return PersonalDecisions(Labels.of([3, 7]), *codes)


def test_a_plan_file_has_the_fields_of_the_documented_format(tmp_path: Path) -> None:
    rule = Rule(
        action="soup",
        surviving=("soup", "tea"),
        explorer_share=0.25,
        is_sticky=True,
        is_spread=True,
        baseline="tea",
    )
    plan = EpochPlan(
        campaign="früh",
        epoch=3,
        contexts=Labels.of(["lunch"]),
        actions=Labels.of(["tea", "soup"]),
        rules=(rule,),
        unknown=replace(rule, is_sticky=False, is_spread=False),
        control_share=0.1,
        is_alarmed=True,
    )
    plan.save(tmp_path / "plan.json")
    named = '"action": "soup", "surviving": ["soup", "tea"], "explorer_share": 0.25'
    unknown = '"action": "soup",\n"surviving": ["soup", "tea"],\n"explorer_share": 0.25'
    assert (tmp_path / "plan.json").read_bytes().decode() == (
        '{\n"format": "unswayed-epoch-plan",\n"version": 1,\n"campaign": "früh",\n"epoch": 3,\n'
        '"control_share": 0.1,\n"is_alarmed": true,\n"context_type": "string",\n'
        '"actions": ["tea", "soup"],\n"contexts": {\n'
        f'"lunch": {{{named}, "explorers": "per-play", "design": "sticky", '
        '"baseline": "tea"}\n},\n'
        f'"unknown": {{\n{unknown},\n"explorers": "per-epoch",\n"design": "per-play",\n'
        '"baseline": "tea"\n}\n}\n'
    )
    assert EpochPlan.load(tmp_path / "plan.json") == plan


def test_personal_decisions_come_back_from_json_and_decide() -> None:
    policy = a_policy(personal=own_decisions())
    written = policy.to_json()
    assert written["personal"] == {
        "user_type": "integer",
        "decisions": {"3": {"home": "tea"}, "7": {"search": "milk"}},
    }
    for read in (policy, Policy.from_json(written)):
        own = read.decide("home", user=3)
        assert (own.action, own.is_personal, own.is_known) == ("tea", True, True)
        assert (own.mean, own.low, own.high) == (0.25, 0.125, 0.5)
        assert read.decide("search", user=7).action == "milk"
        for context, user in (("home", 7), ("search", 3), ("home", 99), ("home", None)):
            common = read.decide(context, user=user)
            assert common.action == a_policy().decide(context).action
            assert common.is_personal is False
    assert own_decisions().action("3", 0) == UNKNOWN
    damaged = written | {"personal": {"user_type": "integer", "decisions": {"3": {"cart": "tea"}}}}
    with pytest.raises(InputError, match="a user's own decision names what is not in it"):
        Policy.from_json(damaged)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"low": MEANS[:1]}, "low must have shape (2, 2)."),
        ({"high": MEANS[:1]}, "high must have shape (2, 2)."),
        ({"mean_rewards": MEANS[:1]}, "mean_rewards must have shape (2, 2)."),
        ({"counts": np.zeros((2, 1), np.int64)}, "counts must have shape (2, 2)."),
        ({"flip_fraction": np.zeros(3)}, "flip_fraction must have shape (2,)."),
        ({"flip_fraction_upper": np.zeros(3)}, "flip_fraction_upper must have shape (2,)."),
        ({"sampling_errors": np.zeros((1, 2))}, "sampling_errors must have shape (2, 2)."),
        ({"action_labels": Labels.of([])}, "a policy needs at least one action."),
    ],
)
def test_policies_that_cannot_be_are_refused_in_one_sentence(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as refused:
        a_policy(**options)
    assert str(refused.value) == words


def test_a_policy_names_its_size_method_and_share() -> None:
    assert repr(a_policy()) == (
        "<Policy of 2 contexts and 2 actions, learned with method='paper', alpha=0.1>"
    )
    np.testing.assert_array_equal(a_policy().bias_bounds, np.full((2, 2), 0.25))
    parts = a_policy(sampling_errors=np.full((2, 2), 0.0625))
    np.testing.assert_array_equal(parts.bias_bounds, np.full((2, 2), 0.1875))
