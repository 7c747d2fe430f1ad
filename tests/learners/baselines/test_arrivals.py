"""What the baselines share: checked arrivals and means."""

import re

import numpy as np
import pytest

from tests.learners.baselines.scenes import small_setting
from unswayed.errors import InputError
from unswayed.learners.baselines.arrivals import checked_arrivals


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
