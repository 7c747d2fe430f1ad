"""File formats and texts of plans and policies, field by field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.policy.test_policy import make_policy
from unswayed.errors import InputError, Note
from unswayed.events import Labels
from unswayed.policy import Policy
from unswayed.policy.plan import EpochPlan, Rule

MEANS = np.array([[0.25, 0.5], [0.75, 0.5]])


def a_policy(**options: Any) -> Policy:
    made = make_policy(["home", "search"], ["tea", "milk"], MEANS)
    return replace(made, **({"low": MEANS - 0.125, "high": MEANS + 0.25} | options))


@pytest.mark.parametrize(("key", "whose"), [("personal", "single users"), ("groups", "groups")])
def test_outdated_decisions_are_reported(key: str, whose: str) -> None:
    with pytest.warns(Note, match=f"decisions of {whose}.*get the common decisions"):
        read = Policy.from_json(a_policy().to_json() | {key: {"decisions": {}}})
    assert read.decide("home") == a_policy().decide("home")


def test_a_plan_file_has_the_documented_fields(tmp_path: Path) -> None:
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
def test_invalid_policies_are_refused_in_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        a_policy(**options)
    assert str(refused.value) == words


def test_the_repr_of_a_policy_shows_its_size_method_and_share() -> None:
    assert repr(a_policy()) == (
        "<Policy of 2 contexts and 2 actions, learned with method='paper', alpha=0.1>"
    )
    np.testing.assert_array_equal(a_policy().bias_bounds, np.full((2, 2), 0.25))
    parts = a_policy(sampling_errors=np.full((2, 2), 0.0625))
    np.testing.assert_array_equal(parts.bias_bounds, np.full((2, 2), 0.1875))
