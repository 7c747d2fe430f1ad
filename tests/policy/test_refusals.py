"""Errors of policies and plans, each one sentence that names a remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.policy.test_policy import make_policy
from tests.refusals import refusal
from unswayed.policy import EpochPlan, Policy

PLAN = EpochPlan.start("spring", ["lunch"], ["tea", "soup"], explorer_share=0.5)
AGAIN = "learn it again or use the program that wrote it."


def ruled(**options: Any) -> Callable[[], EpochPlan]:
    """Return a function that makes a plan with the given rule for lunch."""
    return lambda: replace(PLAN, rules=(replace(PLAN.rules[0], **options),))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        *(
            (lambda options=options: replace(PLAN, **options), sentence)
            for options, sentence in (
                ({"campaign": ""}, "the campaign is ''; give it a name."),
                (
                    {"campaign": "\ud800"},
                    "the campaign's name '\\ud800' is not valid Unicode text.",
                ),
                ({"epoch": -1}, "epoch is -1: it counts 0, 1, 2, …."),
                ({"control_share": -0.1}, "control_share is -0.1: it must lie between 0 and 1."),
                ({"is_alarmed": 1}, "is_alarmed is 1: it must be true or false."),
                ({"rules": ()}, "there are 0 rules for 1 contexts; give one for each."),
            )
        ),
        (ruled(action="gin"), "context 'lunch': 'gin' is not an action of the plan."),
        (ruled(baseline="gin"), "context 'lunch': 'gin' is not an action of the plan."),
        (
            ruled(surviving=("soup",)),
            "context 'lunch': the surviving actions must be different, and the policy's action "
            "'tea' must be one of them.",
        ),
        (
            ruled(surviving=("tea", "tea")),
            "context 'lunch': the surviving actions must be different, and the policy's action "
            "'tea' must be one of them.",
        ),
        (
            ruled(explorer_share=1.5),
            "explorer_share of context 'lunch' is 1.5: it must lie between 0 and 1.",
        ),
        (
            ruled(explorer_share=None),
            "explorer_share of context 'lunch' is None: it must lie between 0 and 1.",
        ),
        (
            lambda: replace(PLAN, unknown=replace(PLAN.unknown, action="gin")),
            "unknown contexts: 'gin' is not an action of the plan.",
        ),
        (
            lambda: replace(PLAN, unknown=replace(PLAN.unknown, explorer_share=-1)),
            "explorer_share of unknown contexts is -1: it must lie between 0 and 1.",
        ),
        (
            lambda: replace(PLAN, control_share=0.5),
            "context 'lunch': there is a control group, so the rule needs a baseline.",
        ),
        (lambda: EpochPlan.start("spring", [], []), "a plan needs at least one action."),
        (
            lambda: EpochPlan.from_json({**PLAN.to_json(), "format": "x"}),
            "this is not a plan: its 'format' is not 'unswayed-epoch-plan'.",
        ),
        (
            lambda: EpochPlan.from_json({**PLAN.to_json(), "version": 2}),
            f"the plan has version 2 and this program reads version 1; {AGAIN}",
        ),
        (
            lambda: EpochPlan.from_json({**PLAN.to_json(), "context_type": "integer"}),
            "the plan is damaged: 'context_type' is missing or malformed.",
        ),
    ],
)
def test_an_invalid_plan_is_refused_in_one_sentence(call: Callable[[], Any], sentence: str) -> None:
    assert refusal(call) == sentence


@pytest.mark.parametrize("missing", [name for name in PLAN.to_json() if name != "format"])
def test_a_missing_field_of_a_plan_is_named(missing: str) -> None:
    value = {name: item for name, item in PLAN.to_json().items() if name != missing}
    expected = f"the plan is damaged: '{missing}' is missing or malformed."
    if missing == "version":
        expected = f"the plan has version None and this program reads version 1; {AGAIN}"
    assert refusal(EpochPlan.from_json, value) == expected


@pytest.mark.parametrize(
    "missing", [name for name in PLAN.to_json()["unknown"] if name != "baseline"]
)
def test_a_missing_field_of_a_rule_is_named(missing: str) -> None:
    rule = {name: item for name, item in PLAN.to_json()["unknown"].items() if name != missing}
    assert refusal(EpochPlan.from_json, {**PLAN.to_json(), "unknown": rule}) == (
        f"the plan is damaged: '{missing}' is missing or malformed."
    )


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        (b"[]", "is not a policy: it holds no JSON object."),
        (b"{}", "is not a policy: its 'format' is not 'unswayed-policy'."),
        (b"[" * 100_000, "is not a policy: it is nested too deep."),
        (
            b"{",
            "is not a policy: it is not JSON (Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1)).",
        ),
        (
            b'{"a": Infinity}',
            "is not a policy: it is not JSON (Infinity is not a number in JSON).",
        ),
    ],
)
def test_the_error_for_a_file_that_is_not_a_policy_gives_the_reason(
    content: bytes, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(content)
    assert refusal(Policy.load, path) == f"{path} {ending}"


@pytest.mark.parametrize(
    ("key", "wrong", "named"),
    [
        ("actions", {"tea": 1}, "'actions'"),
        ("mean_rewards", [], "'mean_rewards'"),
        ("source", [], "'source'"),
        ("method", 7, "the text 7"),
        ("method", list(range(99)), f"the text {list(range(99))}"[:80]),
        ("created", None, "the text None"),
        ("adversarial_fraction", "0.1", "the number '0.1'"),
        ("adversarial_fraction", "1" * 99, f"the number '{'1' * 99}'"[:80]),
        ("adversarial_fraction", 10**300, f"the number {10**300}"[:80]),
        ("adversarial_fraction", True, "the number True"),
        ("context_probabilities", {"lunch": "x"}, "the number 'x'"),
        ("context_probabilities", {}, "'lunch'"),
        ("flip_fraction", {"lunch": []}, "the number []"),
        ("flip_fraction_upper", {}, "'lunch'"),
        ("mean_rewards", {"lunch": {"tea": {}}}, "'soup'"),
    ],
)
def test_a_damaged_policy_names_the_missing_or_malformed_field(
    key: str, wrong: Any, named: str
) -> None:
    assert refusal(Policy.from_json, {**written(), key: wrong}) == (
        f"the policy is damaged: {named} is missing or malformed."
    )


@pytest.mark.parametrize("missing", ["mean_rewards", "actions", "source", "method", "created"])
def test_a_missing_field_of_a_policy_is_named(missing: str) -> None:
    value = {name: item for name, item in written().items() if name != missing}
    assert refusal(Policy.from_json, value) == (
        f"the policy is damaged: '{missing}' is missing or malformed."
    )


@pytest.mark.parametrize("count", [-1, None, 1e19])
def test_a_policy_with_invalid_counts_is_refused(count: float | None) -> None:
    value = written()
    value["mean_rewards"]["lunch"]["tea"]["n"] = count
    assert refusal(Policy.from_json, value) == (
        "the policy is damaged: a count 'n' is missing or malformed."
    )


def written() -> dict[str, Any]:
    """Return the JSON form of a policy for lunch."""
    value: dict[str, Any] = make_policy(["lunch"], ["tea", "soup"], [[0.25, 0.5]]).to_json()
    return value
