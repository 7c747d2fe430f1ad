"""Ends and exploration rates of epochs, and the next plan, compared with values by hand."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.policy.test_policy import make_policy
from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.learners.epochs import Schedule, next_plan, planned_schedule
from unswayed.policy import EpochPlan, Policy, Rule

ACTIONS = ("tea", "soup", "cake")
#: Epoch 1 has 100 interactions per user, epoch 2 has 200.
SCHEDULE = Schedule(first=100)
N_USERS = 1000


def a_policy(means: list[list[float]], contexts: tuple[str, ...], **changes: Any) -> Policy:
    """Return a policy without worst-case intervals; all sampling errors are 1/8."""
    table = np.array(means)
    settings: dict[str, Any] = {
        "low": np.full(table.shape, -np.inf),
        "high": np.full(table.shape, np.inf),
        "sampling_errors": np.full(table.shape, 0.125),
    }
    return replace(make_policy(list(contexts), list(ACTIONS), table), **(settings | changes))


def the_plan(**changes: Any) -> EpochPlan:
    """Return a plan with a control group of a tenth; lunch is sticky, other contexts are not."""
    known, unknown = (
        Rule(
            action="cake",
            surviving=("cake", "tea", "soup"),
            explorer_share=share,
            is_sticky=is_sticky,
            is_spread=not is_sticky,
            baseline=baseline,
        )
        for share, is_sticky, baseline in ((0.5, True, "cake"), (0.25, False, "tea"))
    )
    settings: dict[str, Any] = {"epoch": 0, "control_share": 0.1}
    return EpochPlan(
        campaign="spring",
        contexts=Labels.of(["lunch"]),
        actions=Labels.of(ACTIONS),
        rules=(known,),
        unknown=unknown,
        **(settings | changes),
    )


def planned(plan: EpochPlan, policy: Policy, **options: Any) -> EpochPlan:
    return next_plan(plan, policy, schedule=SCHEDULE, n_users=N_USERS, **options)


def test_every_part_of_the_next_plan_follows_from_the_policy_and_the_schedule() -> None:
    policy = a_policy(
        [[0.125, 0.75, 0.625], [0.75, 0.25, 0.25]],
        ("lunch", "dinner"),
        context_probabilities=np.array([0.75, 0.25]),
    )
    assert planned(the_plan(), policy, is_alarmed=True) == EpochPlan(
        campaign="spring",
        epoch=1,
        contexts=Labels.of(["lunch", "dinner"]),
        actions=Labels.of(ACTIONS),
        rules=(
            # Errors of 1/8 + 1/8 with a lead of 1/8 are twice too wide, which needs four times the
            # plays; the alarm doubles them; two actions share 100 · 1000 · 0.75 plays.
            Rule(
                action="soup",
                surviving=("soup", "cake"),
                explorer_share=24 * 4 * 2 * 2 / 75_000,
                is_sticky=True,
                is_spread=False,
                baseline="cake",
            ),
            # With a lead of 1/2, no rival is left; the context is new.
            Rule(
                action="tea",
                surviving=("tea",),
                explorer_share=24 * 2 / 25_000,
                is_sticky=False,
                is_spread=True,
                baseline="tea",
            ),
        ),
        unknown=Rule(
            action="soup",
            surviving=("cake", "tea", "soup"),
            explorer_share=0.25,
            is_sticky=False,
            is_spread=True,
            baseline="tea",
        ),
        control_share=0.1,
        is_alarmed=True,
    )


def test_after_an_alarm_changed_decisions_are_kept_and_explored_most() -> None:
    """In epoch 1, the decision at lunch would change, that at dinner would not; brunch is new."""
    contexts, clear = ("lunch", "dinner", "brunch"), [0.75, 0.125, 0.125]
    before = planned(
        the_plan(), a_policy([[0.125, 1.0, 0.125], clear], contexts[:2]), is_alarmed=True
    )
    before = EpochPlan.from_json(before.to_json() | {"epoch": 0})
    lost = planned(before, a_policy([clear] * 3, contexts))
    per_play = 24 / (100_000 / 3)
    assert [rule.action for rule in lost.rules] == ["soup", "tea", "tea"]
    assert [rule.surviving for rule in lost.rules] == [("tea", "soup"), ("tea",), ("tea",)]
    assert [rule.explorer_share for rule in lost.rules] == pytest.approx(
        [16 * 2 * per_play, per_play, per_play]
    )
    assert before.rule("brunch").action == "soup"
    # While a coalition is detected, decisions follow the policy.
    found = planned(before, a_policy([clear] * 3, contexts), is_alarmed=True)
    assert [rule.action for rule in found.rules] == ["tea"] * 3


def test_a_policy_with_other_actions_is_rejected() -> None:
    other = EpochPlan.start("x", ["lunch"], ["wine", "beer"])
    with pytest.raises(InputError) as refused:
        planned(other, a_policy([[0.1, 0.2, 0.3]], ("lunch",)))
    assert str(refused.value) == (
        "the policy's actions are not those of the plan; learn it from the same campaign."
    )


LUNCH = [[0.1, 0.6, 0.55]]


def survivors(policy: Policy, plan: EpochPlan | None = None) -> tuple[EpochPlan, set[object]]:
    """Return the next plan, and the surviving actions at lunch."""
    plan = planned(the_plan() if plan is None else plan, policy)
    return plan, set(plan.rule("lunch").surviving)


def test_an_action_is_paused_if_its_worst_case_interval_lies_below_the_best() -> None:
    table, chance = np.array(LUNCH), np.full((1, 3), 0.3)
    narrow, wide = (
        a_policy(LUNCH, ("lunch",), low=table - half, high=table + half, sampling_errors=chance)
        for half in (0.1, 0.3)
    )
    assert survivors(narrow)[1] == {"soup", "cake"}
    assert survivors(wide)[1] == set(ACTIONS)
    # An interval with an unstated assumption, such as rewards of 0 and 1, excludes nothing.
    assumed = replace(narrow, source={"intervals": {"is_assumed": True}})
    assert survivors(assumed)[1] == set(ACTIONS)
    stated = replace(narrow, source={"intervals": {"is_assumed": False}})
    assert survivors(stated)[1] == {"soup", "cake"}


def test_a_wrongly_paused_action_returns_at_the_next_review() -> None:
    """Lies eliminate the best action; a review epoch explores it, and it wins again."""
    lied = a_policy([[0.1, 0.2, 0.95]], ("lunch",))
    plan, left = survivors(lied)
    assert left == {"cake"}
    plan, left = survivors(lied, plan)
    assert (plan.epoch, left) == (2, set(ACTIONS))
    assert planned(plan, a_policy(LUNCH, ("lunch",))).rule("lunch").action == "soup"


def share(schedule: Schedule, epoch: int, **changes: float | bool) -> float:
    options: dict[str, object] = {"n_users": 1000, "n_actions": 3, "context_probability": 0.5}
    return schedule.explorer_share(epoch, **(options | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"first": 0}, "first is 0: epoch 0 needs at least 1 interaction."),
        ({"first": 1, "plays_per_cell": -0.5}, "plays_per_cell is -0.5: it must be 0 or larger."),
        (
            {"first": 1, "plays_per_cell": math.inf},
            "plays_per_cell is inf: it must be 0 or larger.",
        ),
    ],
)
def test_errors_name_the_value_and_the_allowed_range(
    options: dict[str, float], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        Schedule(**options)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


def test_everybody_explores_in_epoch_0_and_in_rare_contexts() -> None:
    # Epoch 1 has 1 · 1000 · 0.5 plays here, which 500 / 3 plays of each action use up.
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
