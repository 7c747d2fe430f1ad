"""Labels and arrays that grow, and decisions that wait, at their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.refusals import refusal
from unswayed.learners.online.growing import GrowingArray, GrowingLabels
from unswayed.learners.online.open_decisions import OpenDecisions


def test_the_room_of_an_array_doubles() -> None:
    """So that each addition costs the same on average."""
    numbers = GrowingArray(np.int64)
    rooms = []
    for size in (0, 16, 17, 32, 33, 200, 201):
        numbers.append(range(len(numbers), size))
        rooms.append(len(numbers.room))
    assert rooms == [16, 16, 32, 32, 64, 200, 400]
    assert numbers.values.tolist() == list(range(201))
    assert not numbers.room[201:].any()


def test_values_take_the_type_of_their_array() -> None:
    flags = GrowingArray(np.bool_)
    flags.append(np.zeros(2))
    flags.append([1, 0])
    assert flags.values.tolist() == [False, False, True, False]
    flags.values[0] = True
    assert flags.values.tolist() == [True, False, True, False]


def test_a_text_is_no_column_of_labels() -> None:
    for text in ("ann", b"ann"):
        assert refusal(GrowingLabels().codes, text) == (
            f"a column of labels is the text {text!r}; give a list, such as [{text!r}]."
        )


def test_labels_in_arrays_are_plain_labels() -> None:
    numbers, names = GrowingLabels(), GrowingLabels()
    assert numbers.codes(np.array([7, 5, 7])).tolist() == [0, 1, 0]
    assert names.codes(np.array(["b", "a"])).tolist() == [0, 1]
    assert [type(label) for label in (*numbers.since(0), *names.since(0))] == [int] * 2 + [str] * 2
    assert numbers.codes([]).dtype == np.int64


def test_later_labels_are_of_the_type_of_the_first() -> None:
    labels = GrowingLabels(["ann"])
    assert refusal(labels.codes, [7]) == (
        "row 0: label 7 does not fit: labels must be all strings or all integers."
    )
    assert refusal(labels.checked, ["bob", True]) == (
        "row 1: label True does not fit: labels must be all strings or all integers."
    )
    assert list(labels.labels()) == ["ann"]
    assert len(labels) == 1


@pytest.mark.parametrize("stranger", [True, 1.0, "1", ["1"], None])
def test_only_the_very_label_is_known(stranger: Any) -> None:
    """A list cannot even be looked up."""
    labels = GrowingLabels([1])
    assert labels.known(1) == 0
    assert labels.known(stranger) is None
    assert GrowingLabels().known(stranger) is None


def test_one_decision_may_wait() -> None:
    waiting = OpenDecisions(limit=1)
    first = waiting.add((1, 2, 3))
    assert waiting.find(first) == (1, 2, 3)
    second = waiting.add((4, 5, 6))
    assert waiting.to_json() == {second: [4, 5, 6]}
    assert "is not open" in refusal(waiting.find, [second])
    with pytest.raises(ValueError, match=r"^decision 'a' is of nobody$"):
        waiting.restore({"a": [0, -1, 0]}, most=(1, 1, 1))
    with pytest.raises(ValueError, match="values to unpack"):
        waiting.restore({"a": [0, 0]}, most=(1, 1, 1))
