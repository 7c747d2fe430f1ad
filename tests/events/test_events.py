import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Events, Labels


def test_labels_give_codes_back_and_forth() -> None:
    labels = Labels.of(["b", "a", "c"])
    assert labels.codes(["c", "b", "?"]).tolist() == [2, 0, UNKNOWN]
    assert list(labels) == ["b", "a", "c"]
    assert Labels.of([7, 3]).are_integers


def test_extending_labels_keeps_the_old_codes() -> None:
    assert list(Labels.of(["b"]).extended(["a", "b", "a"])) == ["b", "a"]


@pytest.mark.parametrize("labels", [["a", 1], [1.5], [None], [True, 1]])
def test_labels_of_mixed_or_odd_types_are_refused(labels: list[object]) -> None:
    with pytest.raises(InputError, match="all strings or all integers"):
        Labels.of(labels)  # type: ignore[arg-type]


def test_a_repeated_label_is_named() -> None:
    with pytest.raises(InputError, match="'a' is given twice"):
        Labels.of(["a", "b", "a"])


def test_events_refuse_a_reward_that_is_not_a_number_and_name_the_row() -> None:
    with pytest.raises(InputError, match="row 1: reward is nan"):
        Events.of(["u", "u"], ["s", "s"], ["a", "b"], [1.0, np.nan])


def test_events_refuse_columns_of_other_lengths() -> None:
    with pytest.raises(InputError, match="column 'reward' has 1 rows"):
        Events.of(["u", "u"], ["s", "s"], ["a", "b"], [1.0])


def test_events_refuse_an_action_that_was_not_offered() -> None:
    with pytest.raises(InputError, match="row 1: action 'z'"):
        Events.of(["u", "u"], ["s", "s"], ["a", "z"], [1.0, 0.0], action_labels=["a", "b"])


@pytest.mark.parametrize("propensity", [0.0, 1.5, -0.1])
def test_events_refuse_a_propensity_that_is_no_probability(propensity: float) -> None:
    with pytest.raises(InputError, match="row 0: propensity"):
        Events.of(["u"], ["s"], ["a"], [1.0], propensities=[propensity])
