import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import Events


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
