"""When epochs end and how much they explore, in numbers worked out by hand."""

import math

import pytest

from unswayed.errors import InputError
from unswayed.learners.epochs import Schedule, planned_schedule


def share(schedule: Schedule, epoch: int, **changes: float | bool) -> float:
    options: dict[str, object] = {"n_users": 1000, "n_actions": 3, "context_probability": 0.5}
    return schedule.explorer_share(epoch, **(options | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"first": 0}, "first is 0: epoch 0 needs at least 1 interaction."),
        ({"first": 1, "growth": 1.0}, "growth is 1.0: it must be above 1."),
        ({"first": 1, "growth": math.nan}, "growth is nan: it must be above 1."),
        ({"first": 1, "plays_per_cell": -0.5}, "plays_per_cell is -0.5: it must be 0 or larger."),
        (
            {"first": 1, "plays_per_cell": math.inf},
            "plays_per_cell is inf: it must be 0 or larger.",
        ),
        ({"first": 1, "longest": 0.9}, "longest is 0.9: an epoch needs at least 1 interaction."),
        (
            {"first": 1, "longest": math.nan},
            "longest is nan: an epoch needs at least 1 interaction.",
        ),
    ],
)
def test_a_refusal_names_the_value_and_what_it_must_be(
    options: dict[str, float], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        Schedule(**options)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


def test_everybody_explores_in_epoch_0_and_wherever_plays_are_few() -> None:
    # Epoch 1 has 1 · 1000 · 0.5 plays here; 500 / 3 of each action use them up.
    assert share(Schedule(first=1, plays_per_cell=500 / 3), 1) == 1.0
    assert share(Schedule(first=1, plays_per_cell=125.0), 1) == 0.75
    assert share(Schedule(first=1, plays_per_cell=250.0), 1) == 1.0
    assert share(Schedule(first=1, plays_per_cell=0.0), 0) == 1.0


@pytest.mark.parametrize(
    ("n_users", "n_contexts", "n_actions", "first"),
    [(100, 7, 3, 14), (64, 2, 2, 4), (64, 5, 1, 5), (64, 1, 5, 5), (10**6, 9, 9, 4)],
)
def test_epoch_0_is_planned_for_64_plays_of_each_cell_and_4_of_each_user(
    n_users: int, n_contexts: int, n_actions: int, first: int
) -> None:
    planned = planned_schedule(n_users=n_users, n_contexts=n_contexts, n_actions=n_actions)
    assert planned == Schedule(first=first)
