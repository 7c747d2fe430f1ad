import datetime as dt

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Events, Labels


def test_labels_and_codes_are_converted_in_both_directions() -> None:
    labels = Labels.of(["b", "a", "c"])
    assert labels.codes(["c", "b", "?"]).tolist() == [2, 0, UNKNOWN]
    assert list(labels) == ["b", "a", "c"]
    assert Labels.of([7, 3]).type_name == "integer"


@pytest.mark.parametrize("labels", [["a", 1], [True, 1], [1, 1.5]])
def test_labels_of_mixed_types_are_refused(labels: list[object]) -> None:
    with pytest.raises(InputError, match="all of one type"):
        Labels.of(labels)


@pytest.mark.parametrize("label", [None, float("nan"), float("inf"), b"bytes", ("a", "b")])
def test_values_that_json_cannot_represent_are_refused_as_labels(label: object) -> None:
    with pytest.raises(InputError, match="cannot be a label"):
        Labels.of([label])


def test_a_repeated_label_is_named() -> None:
    with pytest.raises(InputError, match="'a' is given twice"):
        Labels.of(["a", "b", "a"])


@pytest.mark.parametrize(
    ("labels", "type_name"),
    [
        (["x", "ü"], "string"),
        ([3, -4], "integer"),
        ([0.1, 1e300, -2.0], "number"),
        ([True, False], "boolean"),
    ],
)
def test_labels_of_every_type_can_be_restored_from_text(
    labels: list[object], type_name: str
) -> None:
    written = Labels.of(labels)
    read = Labels.parsed(written.texts, written.type_name)
    assert written.type_name == type_name
    assert read == written
    assert [type(label) for label in read] == [type(label) for label in labels]


@pytest.mark.parametrize("known", [["a", "b"], [1, 2], [True]])
def test_invalid_labels_are_unknown_to_code_and_to_codes(known: list[object]) -> None:
    labels = Labels.of(known)
    for given in (["a", "b"], {"a": 1}, None, b"a"):
        assert labels.code(given) == UNKNOWN
        assert labels.codes([given, known[0]]).tolist() == [UNKNOWN, 0]


def test_true_and_1_are_different_labels() -> None:
    assert Labels.of([0, 1]).code(True) == UNKNOWN
    assert Labels.of([False, True]).code(1) == UNKNOWN
    assert Labels.of([False, True]).codes([True, 0]).tolist() == [1, UNKNOWN]


def test_dates_are_found_as_dates_and_as_text() -> None:
    labels = Labels.of([dt.date(2026, 1, 31), dt.date(2026, 2, 1)])
    assert labels.code("2026-01-31") == labels.code(dt.date(2026, 1, 31)) == 0
    assert list(Labels.of([dt.datetime(2026, 1, 31, 12)])) == ["2026-01-31 12:00:00"]


def test_numpy_values_are_labels_too() -> None:
    assert Labels.of(np.array([2, 1])).code(np.int64(1)) == 1
    assert Labels.of(np.array(["a"])).code(np.str_("a")) == 0


def test_unhashable_values_are_unknown() -> None:
    assert Labels.of(["a"]).code(["a"]) == UNKNOWN


def test_events_refuse_a_reward_that_is_not_a_number_and_name_the_row() -> None:
    with pytest.raises(InputError, match="row 1: reward is nan"):
        Events.of(["u", "u"], ["s", "s"], ["a", "b"], [1.0, np.nan])


def test_events_refuse_columns_of_different_lengths() -> None:
    with pytest.raises(InputError, match="column 'reward' has 1 rows"):
        Events.of(["u", "u"], ["s", "s"], ["a", "b"], [1.0])


def test_events_refuse_an_action_that_was_not_offered() -> None:
    with pytest.raises(InputError, match="row 1: action 'z'"):
        Events.of(["u", "u"], ["s", "s"], ["a", "z"], [1.0, 0.0], action_labels=["a", "b"])


@pytest.mark.parametrize("propensity", [0.0, 1.5, -0.1])
def test_events_refuse_a_propensity_that_is_not_a_probability(propensity: float) -> None:
    with pytest.raises(InputError, match="row 0: propensity"):
        Events.of(["u"], ["s"], ["a"], [1.0], propensities=[propensity])
