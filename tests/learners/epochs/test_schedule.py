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


def test_the_smallest_schedule_has_epochs_of_one_interaction_and_explores_only_at_first() -> None:
    schedule = Schedule(first=1, plays_per_cell=0.0, longest=1)
    assert [schedule.length(epoch) for epoch in range(4)] == [1, 1, 1, 1]
    assert share(schedule, 0) == 1.0
    assert share(schedule, 40) == 0.0


def test_epochs_double_and_have_no_longest_one_by_default() -> None:
    assert [Schedule(first=3).end(epoch) for epoch in (0, 1, 2, 10)] == [3, 6, 12, 3 * 2**10]


def test_ages_are_rounded_up_to_whole_interactions() -> None:
    assert Schedule(first=1, growth=1.001).end(1) == 2
    # 10 · 1.11 = 11.1, 12.3, 13.7, 15.2: an epoch of two is not too long for a longest of two.
    schedule = Schedule(first=10, growth=1.11, longest=2)
    assert [schedule.end(epoch) for epoch in range(5)] == [10, 12, 13, 14, 16]


def test_a_growth_without_end_is_one_epoch_and_then_another_for_ever() -> None:
    schedule = Schedule(first=7, growth=math.inf)
    assert (schedule.end(0), schedule.end(1), schedule.length(1)) == (7, math.inf, math.inf)
    assert (schedule.epoch_at(6.9), schedule.epoch_at(7), schedule.epoch_at(1e9)) == (0, 1, 1)
    # A share of infinitely many plays is none.
    assert share(schedule, 1) == 0.0


def test_everybody_explores_in_epoch_0_and_wherever_plays_are_few() -> None:
    # Epoch 1 has 1 · 1000 · 0.5 plays here; 500 / 3 of each action use them up.
    assert share(Schedule(first=1, plays_per_cell=500 / 3), 1) == 1.0
    assert share(Schedule(first=1, plays_per_cell=125.0), 1) == 0.75
    assert share(Schedule(first=1, plays_per_cell=250.0), 1) == 1.0
    assert share(Schedule(first=1, plays_per_cell=0.0), 0) == 1.0


def test_doubt_and_an_alarm_multiply() -> None:
    schedule = Schedule(first=1000)  # 500,000 plays in epoch 1; 72 of them are wanted.
    assert share(schedule, 1, doubt=2.0, is_alarmed=True) == pytest.approx(8 * 72 / 500_000)
    assert share(schedule, 2, doubt=5.0) == pytest.approx(16 * 72 / 1_000_000)


@pytest.mark.parametrize(
    ("n_users", "n_contexts", "n_actions", "first"),
    [(100, 7, 3, 14), (64, 2, 2, 4), (64, 5, 1, 5), (64, 1, 5, 5), (10**6, 9, 9, 4)],
)
def test_epoch_0_is_planned_for_64_plays_of_each_cell_and_4_of_each_user(
    n_users: int, n_contexts: int, n_actions: int, first: int
) -> None:
    planned = planned_schedule(n_users=n_users, n_contexts=n_contexts, n_actions=n_actions)
    assert planned == Schedule(first=first)
