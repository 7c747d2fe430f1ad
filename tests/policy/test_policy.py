import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.policy import Policy
from unswayed.policy.partition import Feature, Partition, Split


def make_policy(contexts: list[Any], actions: list[Any], means: Any, **options: Any) -> Policy:
    means = np.asarray(means, dtype=float)
    return Policy(
        context_labels=Labels.of(contexts),
        action_labels=Labels.of(actions),
        mean_rewards=means,
        low=means - 0.1,
        high=means + 0.1,
        counts=np.arange(means.size).reshape(means.shape),
        context_probabilities=np.full(len(contexts), 1 / len(contexts)),
        alpha=0.1,
        method="paper",
        **options,
    )


def policy_by_age() -> Policy:
    """Return a policy of two leaves: tea for users under 30, and milk for older ones."""
    nodes = (Split(0, ((2,), (3,)), (1, 2)), None, None)
    partition = Partition((Feature("age", edges=(30.0,)),), nodes)
    means = np.array([[0.1, 0.3], [0.3, 0.1]])
    labels = list(partition.labels)
    made = make_policy(labels, ["tea", "milk"], means)
    return replace(made, counts=np.full((2, 2), 100), partition=partition)


SHOP = make_policy(["home", "search"], ["tea", "milk"], np.array([[0.2, 0.6], [0.5, 0.4]]))


def test_the_action_with_the_largest_mean_is_chosen_with_its_interval() -> None:
    decision = SHOP.decide("home")
    assert (decision.action, decision.is_known) == ("milk", True)
    assert decision.low < decision.mean == 0.6 < decision.high


def test_an_unknown_context_gets_the_best_single_action_and_is_marked() -> None:
    decision = SHOP.decide("checkout")
    assert (decision.action, decision.is_known) == ("milk", False)


def test_a_context_without_data_gets_the_default_action_and_is_marked() -> None:
    policy = make_policy(["home", "empty"], ["tea", "milk"], np.array([[0.2, 0.6], [np.nan] * 2]))
    assert policy.decide("empty").action == "milk"
    assert not policy.decide("empty").is_known


def test_an_action_without_data_is_never_chosen() -> None:
    policy = make_policy(["home"], ["tea", "milk"], np.array([[-3.0, np.nan]]))
    assert policy.decide("home").action == "tea"


def test_an_action_without_data_does_not_become_the_default_because_rewards_are_negative() -> None:
    """Rewards are costs: tea is cheaper where both are known; cola's cost is unknown."""
    costs = np.array([[-2.0, -3.0, np.nan], [-1.0, -4.0, np.nan]])
    policy = make_policy(["home", "search"], ["tea", "milk", "cola"], costs)
    assert policy.decide("cart").action == "tea"


label_lists = st.one_of(
    st.lists(st.text(min_size=0, max_size=8), min_size=1, max_size=5, unique=True),
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5, unique=True),
)


@given(contexts=label_lists, actions=label_lists, data=st.data())
def test_a_round_trip_through_json_keeps_every_label_and_number(
    contexts: list[Any], actions: list[Any], data: st.DataObject
) -> None:
    numbers = st.one_of(st.just(np.nan), st.floats(-1e9, 1e9))
    size = len(contexts) * len(actions)
    means = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size)))
    policy = make_policy(contexts, actions, means.reshape(len(contexts), len(actions)))
    again = Policy.from_json(json.loads(json.dumps(policy.to_json(), allow_nan=False)))
    assert again.context_labels == policy.context_labels
    assert again.action_labels == policy.action_labels
    np.testing.assert_array_equal(again.mean_rewards, policy.mean_rewards)
    np.testing.assert_array_equal(again.counts, policy.counts)
    assert again.to_json() == policy.to_json()


def test_a_missing_policy_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json: there is no such file"):
        Policy.load(tmp_path / "none.json")


def test_intervals_without_a_bound_are_marked_and_survive_json() -> None:
    means = np.array([[0.2, 0.6], [np.nan, 0.4]])
    policy = replace(
        SHOP,
        mean_rewards=means,
        low=np.array([[-np.inf, 0.5], [np.nan, 0.1]]),
        high=np.array([[np.inf, 0.9], [np.nan, np.inf]]),
        sampling_errors=np.array([[0.1, 0.1], [np.nan, 0.1]]),
    )
    cells = policy.to_json()["mean_rewards"]
    assert cells["home"]["tea"]["bound"] == "no bound"
    assert cells["home"]["tea"]["low"] is None
    assert "bound" not in cells["home"]["milk"]
    assert cells["home"]["milk"]["sampling_error"] == 0.1
    assert cells["home"]["milk"]["bias_bound"] == pytest.approx(0.2)
    assert cells["search"]["tea"]["mean"] is None
    again = Policy.from_json(json.loads(json.dumps(policy.to_json())))
    for name in ("low", "high", "sampling_errors", "bias_bounds"):
        np.testing.assert_array_equal(getattr(again, name), getattr(policy, name))


def test_a_policy_file_has_the_documented_fields(tmp_path: Path) -> None:
    """Other programs read these files, so names and layout are part of the interface."""
    policy = replace(
        SHOP,
        created="2026-01-31",
        source={"log": "täglich.csv"},
        flip_fraction=np.array([0.1, np.nan]),
        flip_fraction_upper=np.array([0.2, 0.25]),
    )
    policy.save(tmp_path / "policy.json")
    cells = [
        [
            '{"mean": 0.2, "low": 0.1, "high": 0.30000000000000004, "n": 0}',
            '{"mean": 0.6, "low": 0.5, "high": 0.7, "n": 1}',
        ],
        [
            '{"mean": 0.5, "low": 0.4, "high": 0.6, "n": 2}',
            '{"mean": 0.4, "low": 0.30000000000000004, "high": 0.5, "n": 3}',
        ],
    ]
    expected = f"""{{
"format": "unswayed-policy",
"version": 1,
"created": "2026-01-31",
"adversarial_fraction": 0.1,
"method": "paper",
"context_type": "string",
"action_type": "string",
"actions": ["tea", "milk"],
"default_action": "milk",
"policy": {{
"home": "milk",
"search": "tea"
}},
"mean_rewards": {{
"home": {{"tea": {cells[0][0]}, "milk": {cells[0][1]}}},
"search": {{"tea": {cells[1][0]}, "milk": {cells[1][1]}}}
}},
"context_probabilities": {{
"home": 0.5,
"search": 0.5
}},
"source": {{
"log": "täglich.csv"
}},
"flip_fraction": {{
"home": 0.1,
"search": null
}},
"flip_fraction_upper": {{
"home": 0.2,
"search": 0.25
}}
}}
"""
    assert (tmp_path / "policy.json").read_bytes().decode() == expected
    again = Policy.load(tmp_path / "policy.json")
    assert again.source == {"log": "täglich.csv"}
    np.testing.assert_array_equal(again.flip_fraction, [0.1, np.nan])
    np.testing.assert_array_equal(again.flip_fraction_upper, [0.2, 0.25])
