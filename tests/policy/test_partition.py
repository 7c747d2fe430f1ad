"""Partitions of attributes: rules, unknown values, and manipulated files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.refusals import refusal
from unswayed.errors import InputError
from unswayed.events.attributes import AttributeColumn, Categories
from unswayed.policy.partition import Feature, LinearAdvice, Partition, Split

AGE = Feature("age", edges=(20.0, 40.0))
LAND = Feature("land", levels=("DE", "FR"))


def tree() -> Partition:
    """Return a tree: Germans by age, and all other known countries."""
    nodes = (Split(1, ((2,), (1, 3)), (1, 2)), Split(0, ((0, 2), (3, 4)), (3, 4)), None, None, None)
    return Partition((AGE, LAND), nodes)


def test_rules_are_readable() -> None:
    assert list(tree().labels) == [
        "20<=age and land is DE",
        "age<20 (or missing) and land is DE",
        "land is not DE",
    ]


@pytest.mark.parametrize(
    ("land", "age", "leaf"),
    [
        ("DE", 20, "20<=age and land is DE"),
        ("DE", 19.9, "age<20 (or missing) and land is DE"),
        ("DE", None, "age<20 (or missing) and land is DE"),
        ("DE", float("nan"), "age<20 (or missing) and land is DE"),
        ("FR", "25", "land is not DE"),
        ("ES", 25, "land is not DE"),
        (None, 25, None),
        (pd.NA, 25, None),
        ("DE", pd.NA, "age<20 (or missing) and land is DE"),
    ],
)
def test_a_row_and_a_table_of_it_have_the_same_leaf(land: Any, age: Any, leaf: str | None) -> None:
    partition = tree()
    assert partition.leaf({"land": land, "age": age}) == leaf
    codes = np.array([-1 if pd.isna(land) else 0], np.int32)
    columns: dict[str, AttributeColumn] = {
        "age": np.array([np.nan if pd.isna(age) else float(age)]),
        "land": Categories(codes, ("" if pd.isna(land) else land,)),
    }
    (found,) = partition.leaves(columns)
    assert found == (-1 if leaf is None else partition.labels.code(leaf))


def test_advice_is_one_more_attribute() -> None:
    """The best action of a linear model; a missing number has a column of its own."""
    coefficients = np.zeros((2, 3))
    coefficients[1, 1], coefficients[1, 2] = 1.0, 5.0
    advice = LinearAdvice(("tea", "milk"), np.array([30.0]), np.array([10.0]), coefficients)
    nodes = (Split(1, ((2,), (3,)), (1, 2)), None, None)
    partition = Partition((AGE,), nodes, advice)
    leaves = [partition.leaf({"age": age}) for age in (20, 40, None)]
    assert leaves == ["advice is tea", "advice is milk", "advice is milk"]
    again = Partition.from_json(json.loads(json.dumps(partition.to_json())))
    assert again.hash == partition.hash


def test_an_attribute_may_be_called_advice() -> None:
    advice = LinearAdvice(
        ("tea", "milk"), np.zeros(1), np.ones(1), np.array([[0.0, 1, 0], [0, -1, 0]])
    )
    nodes = (Split(1, ((2,), (3,)), (1, 2)), None, None)
    partition = Partition((Feature("advice", edges=()),), nodes, advice)
    assert partition.leaf({"advice": 2.0}) == "linear advice is tea"


def test_a_partition_that_was_changed_is_refused() -> None:
    written = tree().to_json()
    assert Partition.from_json(written).hash == tree().hash
    changed = json.loads(json.dumps(written))
    changed["features"][0]["edges"][0] = 21.0
    assert "hash does not match" in refusal(Partition.from_json, changed)
    newer = {**written, "version": 2}
    assert "version 2" in refusal(Partition.from_json, newer)


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": []},
        {"nodes": [None, None]},
        {"nodes": [{"feature": 0, "branches": [[2], [3]], "children": [0, 1]}, None]},
        {"nodes": [{"feature": 9, "branches": [[2], [3]], "children": [1, 2]}, None, None]},
        {"nodes": [{"feature": 0, "branches": [[2], [99]], "children": [1, 2]}, None, None]},
        {"nodes": [{"feature": 0, "branches": [[2], [2]], "children": [1, 2]}, None, None]},
        {"features": []},
        {"features": [{"name": "age", "type": "number", "edges": [2.0, 1.0], "trusted": False}]},
        {"features": [{"name": "age", "type": "text", "levels": [], "trusted": False}]},
        {"features": [{"name": 3, "type": "number", "edges": [], "trusted": False}]},
        {"features": 3},
        {"advice": {"actions": ["tea"], "centres": [0.0], "scales": [1.0], "coefficients": [[]]}},
    ],
)
def test_a_malformed_partition_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Partition.from_json({**tree().to_json(), **change})
