"""The next epoch's plan, rule by rule, in numbers worked out by hand."""

from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.learners.epochs import Schedule, next_plan
from unswayed.learners.epochs.planning import doubts_of, shows_coalition, surviving_actions
from unswayed.learners.estimates import Estimates
from unswayed.policy import EpochPlan, Policy, Rule
from unswayed.tallies import Tallies, tally

ACTIONS = ("tea", "soup", "cake")
#: Epoch 1 has 100 interactions per user, epoch 2 has 200.
SCHEDULE = Schedule(first=100)
N_USERS = 1000


def a_policy(means: list[list[float]], contexts: tuple[str, ...], **changes: Any) -> Policy:
    """Return a policy without bounds on lies; chance explains 1/8 of every mean."""
    table = np.array(means)
    settings: dict[str, Any] = {
        "low": np.full(table.shape, -np.inf),
        "high": np.full(table.shape, np.inf),
        "sampling_errors": np.full(table.shape, 0.125),
        "context_probabilities": np.full(len(table), 1 / len(table)),
    }
    return Policy(
        context_labels=Labels.of(contexts),
        action_labels=Labels.of(ACTIONS),
        mean_rewards=table,
        counts=np.full(table.shape, 50),
        alpha=0.1,
        method="paper",
        **(settings | changes),
    )


def the_plan(**changes: Any) -> EpochPlan:
    """Return a plan that holds a tenth of the users back; lunch is sticky, all else is spread."""
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


def test_every_part_of_the_next_plan_is_what_the_policy_and_the_schedule_say() -> None:
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
            # Errors of 1/8 + 1/8 over a lead of 1/8: twice too wide, so four times the plays;
            # twice as many for the alarm; of two actions in 100 · 1000 · 0.75 plays.
            Rule(
                action="soup",
                surviving=("soup", "cake"),
                explorer_share=24 * 4 * 2 * 2 / 75_000,
                is_sticky=True,
                is_spread=False,
                baseline="cake",
            ),
            # A lead of 1/2 leaves no doubt and no rival; the context is new.
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


def test_no_alarm_is_the_default_and_a_review_explores_all_actions() -> None:
    policy = a_policy([[0.125, 0.75, 0.25]], ("lunch",))
    second = planned(planned(the_plan(), policy), policy)
    assert (second.epoch, second.is_alarmed) == (2, False)
    assert second.rules[0].surviving == ACTIONS
    assert second.rules[0].explorer_share == 24 * 3 / 200_000
    third = planned(second, policy)
    assert third.rules[0].surviving == ("soup",)
    assert third.rules[0].explorer_share == 24 / 400_000


def test_a_lost_alarm_holds_only_decisions_that_would_change_and_doubts_them_most() -> None:
    """In epoch 1; lunch would change, dinner stays, and brunch was not in the plan."""
    contexts, clear = ("lunch", "dinner", "brunch"), [0.75, 0.125, 0.125]
    before = planned(
        the_plan(),
        a_policy([[0.125, 1.0, 0.125], clear], contexts[:2]),
        is_alarmed=True,
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
    # As long as it is found, decisions follow the policy.
    found = planned(before, a_policy([clear] * 3, contexts), is_alarmed=True)
    assert [rule.action for rule in found.rules] == ["tea"] * 3


def test_a_policy_of_other_actions_gets_a_sentence() -> None:
    other = EpochPlan.start("x", ["lunch"], ["wine", "beer"])
    with pytest.raises(InputError) as refused:
        planned(other, a_policy([[0.1, 0.2, 0.3]], ("lunch",)))
    assert str(refused.value) == (
        "the policy's actions are not those of the plan; learn it from the same campaign."
    )


@pytest.mark.parametrize(
    ("means", "errors", "doubts", "survive"),
    [
        # The doubt of the closest rival counts; at 1 an action stays.
        ([1.0, 0.75, 0.5], [0.125, 0.25, 0.375], 1.5, [True, True, True]),
        ([1.0, 0.75, 0.5], [0.125, 0.125, 0.25], 1.0, [True, True, False]),
        ([1.0, 0.75, 0.25], [0.125, 0.0, 0.25], 0.5, [True, False, False]),
        # Without errors, a mean or a lead nothing is told apart, and the others still are.
        ([1.0, np.nan, 0.5], [0.125, 0.125, 0.125], np.inf, [True, True, False]),
        ([1.0, 0.75, 0.5], [0.125, np.inf, 0.125], np.inf, [True, True, False]),
        ([1.0, 0.75, 0.5], [np.nan, 0.125, 0.125], np.inf, [True, True, True]),
        ([1.0, 1.0, 0.5], [0.125, 0.125, 0.125], np.inf, [True, True, False]),
        ([1.0, 0.75, 0.5], None, np.inf, [True, True, True]),
    ],
)
def test_doubt_is_the_sum_of_both_errors_over_the_lead(
    means: list[float], errors: list[float] | None, doubts: float, survive: list[bool]
) -> None:
    clear = [1.0, 0.0, 0.0]
    if errors is None:
        policy, other = a_policy([means, clear], ("lunch", "dinner"), sampling_errors=None), np.inf
    else:
        both = np.array([errors, [0.25, 0.25, 0.25]])
        policy, other = a_policy([means, clear], ("lunch", "dinner"), sampling_errors=both), 0.5
    assert doubts_of(policy).tolist() == [doubts, other]
    assert surviving_actions(policy)[0].tolist() == survive


def test_an_interval_that_touches_the_best_lower_end_survives() -> None:
    """The policy's own action stays even where another interval lies above its own."""
    low = [[0.0, 0.5, -np.inf], [0.5, np.nan, 0.25], [0.875, 0.875, 0.875]]
    high = [[0.25, 0.75, 0.5], [0.75, np.nan, 0.375], [1.0, 1.0, 1.0]]
    policy = a_policy(
        [[0.25, 0.0, 0.0], [0.5, np.nan, 0.375], [1.0, 0.875, 0.875]],
        ("lunch", "dinner", "brunch"),
        low=np.array(low),
        high=np.array(high),
        sampling_errors=np.full((3, 3), 9.0),
    )
    assert surviving_actions(policy).tolist() == [
        [True, True, True],
        [True, True, False],
        [True, True, True],
    ]
    # Of an action without a mean nothing is known, whatever its interval is.
    policy = a_policy(
        [[0.5, np.nan, 0.375]],
        ("lunch",),
        low=np.array([[0.25, np.nan, 0.25]]),
        high=np.array([[0.75, np.nan, 0.5]]),
        sampling_errors=np.full((1, 3), 9.0),
    )
    assert surviving_actions(policy).tolist() == [[True, True, True]]


def estimates(weights: list[float], **evidence: Any) -> Estimates:
    table = np.zeros((1, 2))
    return Estimates(
        mean_rewards=table,
        sampling_errors=table,
        bias_bounds=table,
        context_probabilities=np.ones(1),
        frequent_contexts=np.ones(1, np.bool_),
        user_weights=np.array(weights),
        decided_by=np.array(["x"]),
        evidence=evidence,
    )


def one_play_each(users: list[int], n_users: int) -> Tallies:
    zeros = np.zeros(len(users), np.int64)
    return tally(
        np.array(users),
        zeros,
        zeros,
        np.ones(len(users)),
        n_users=n_users,
        n_contexts=1,
        n_actions=2,
    )


def test_a_coalition_shows_when_more_than_a_hundredth_of_active_users_weight_is_gone() -> None:
    active = one_play_each(list(range(50)), 60)
    assert not shows_coalition(estimates([1.0] * 50 + [0.0] * 10), active)
    assert not shows_coalition(estimates([0.75] + [1.0] * 59), active)  # 0.005
    assert shows_coalition(estimates([0.25] + [1.0] * 59), active)  # 0.015
