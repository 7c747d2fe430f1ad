"""What the baselines share: checked arrivals and means."""

import re
from typing import Any

import numpy as np
import pytest

from tests.learners.baselines.scenes import small_setting
from unswayed.errors import InputError
from unswayed.learners.baselines.arrivals import checked_arrivals, means


def test_arrivals_of_any_integers_and_numbers_become_plain_contiguous_arrays(
    rng: np.random.Generator,
) -> None:
    setting = small_setting(rng, n_users=3, n_contexts=2, n_actions=2)
    given: tuple[Any, Any, Any] = (
        np.array([0, 9, 1, 9, 2, 9], np.int32)[::2],
        np.array([1, 9, 0, 9, 1, 9], np.uint8)[::2],
        np.array([[0, 1, 2], [3, 4, 5]], np.float32).T,
    )
    users, contexts, outcomes = checked_arrivals(*given, setting)
    assert users.tolist() == [0, 1, 2]
    assert contexts.tolist() == [1, 0, 1]
    assert outcomes.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert [a.dtype.name for a in (users, contexts, outcomes)] == ["int64", "int64", "float64"]
    assert all(array.flags.c_contiguous for array in (users, contexts, outcomes))


@pytest.mark.parametrize(
    ("users", "contexts", "outcomes"),
    [
        ((2, 1), (2,), (2, 4)),
        ((2,), (3,), (2, 4)),
        ((2,), (2, 1), (2, 4)),
        ((2,), (2,), (3, 4)),
        ((2,), (2,), (2, 3)),
        ((2,), (2,), (8,)),
    ],
)
def test_arrays_of_other_shapes_are_named_with_the_shapes_to_give(
    users: tuple[int, ...],
    contexts: tuple[int, ...],
    outcomes: tuple[int, ...],
    rng: np.random.Generator,
) -> None:
    sentence = (
        f"users, contexts and outcomes have shapes {users}, {contexts} and {outcomes}: "
        "give (n,), (n,) and (n, 4)."
    )
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        checked_arrivals(
            np.zeros(users, np.int64),
            np.zeros(contexts, np.int64),
            np.zeros(outcomes),
            small_setting(rng),
        )


@pytest.mark.parametrize(
    ("user", "context", "sentence"),
    [
        (20, 2, "a user is not in 0..19: number the users from 0."),
        (-1, 2, "a user is not in 0..19: number the users from 0."),
        (19, 3, "a context is not in 0..2: number the contexts from 0."),
        (19, -1, "a context is not in 0..2: number the contexts from 0."),
    ],
)
def test_codes_out_of_range_are_named_with_the_range(
    user: int, context: int, sentence: str, rng: np.random.Generator
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        checked_arrivals(
            np.array([0, user]), np.array([0, context]), np.zeros((2, 4)), small_setting(rng)
        )


def test_the_last_user_and_the_last_context_fit(rng: np.random.Generator) -> None:
    users, contexts, _ = checked_arrivals(
        np.array([19]), np.array([2]), np.zeros((1, 4)), small_setting(rng)
    )
    assert (users.tolist(), contexts.tolist()) == ([19], [2])


def test_means_are_nan_where_nothing_was_counted() -> None:
    sums = np.array([[3.0, -1.0], [0.0, 5.0]])
    counts = np.array([[2, 1], [0, 4]], np.int32)
    np.testing.assert_array_equal(means(sums, counts), [[1.5, -1.0], [np.nan, 1.25]])
