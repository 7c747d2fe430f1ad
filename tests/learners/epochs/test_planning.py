import math
from dataclasses import replace

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.learners.epochs import REVIEW_EVERY, Schedule, next_plan
from unswayed.policy import EpochPlan, Policy

ACTIONS = ["tea", "soup", "cake"]
SCHEDULE = Schedule(first=4)


def a_policy(
    means: np.ndarray,
    half: float,
    *,
    contexts: tuple[str, ...] = ("lunch",),
    error: float | None = None,
) -> Policy:
    return Policy(
        context_labels=Labels.of(contexts),
        action_labels=Labels.of(ACTIONS),
        mean_rewards=means,
        low=means - half,
        high=means + half,
        sampling_errors=np.full(means.shape, min(half, 0.05) if error is None else error),
        counts=np.full(means.shape, 50),
        context_probabilities=np.full(len(means), 1 / len(means)),
        alpha=0.1,
        method="paper",
    )


def a_plan(epoch: int = 0) -> EpochPlan:
    return replace(EpochPlan.start("x", ["lunch"], ACTIONS, is_sticky=False), epoch=epoch)


LUNCH = np.array([[0.1, 0.6, 0.55]])


def test_an_action_goes_when_its_interval_lies_below_the_best() -> None:
    plan = next_plan(a_plan(), a_policy(LUNCH, 0.1), schedule=SCHEDULE, n_users=100)
    assert plan.epoch == 1
    assert plan.rule("lunch").surviving == ("soup", "cake")
    assert plan.rule("lunch").action == "soup"


@pytest.mark.parametrize("half", [0.3, math.inf])
def test_what_no_bound_rules_out_stays_if_chance_may_explain_it(half: float) -> None:
    plan = next_plan(a_plan(), a_policy(LUNCH, half, error=0.3), schedule=SCHEDULE, n_users=100)
    assert plan.rule("lunch").surviving == tuple(ACTIONS)


def test_what_chance_does_not_explain_rests_until_the_next_review() -> None:
    """Errors of 0.05 each explain 0.05 and not 0.5; no bound on lies rules anything out."""
    policy = a_policy(LUNCH, math.inf)
    plan = next_plan(a_plan(), policy, schedule=SCHEDULE, n_users=100)
    assert plan.rule("lunch").surviving == ("soup", "cake")
    plan = next_plan(plan, policy, schedule=SCHEDULE, n_users=100)
    assert plan.rule("lunch").surviving == tuple(ACTIONS)


def test_a_wrongly_eliminated_action_comes_back() -> None:
    """The best action goes by a lie, is explored again in a review, and wins by new evidence."""
    lied = np.array([[0.1, 0.2, 0.55]])
    plan = next_plan(a_plan(), a_policy(lied, 0.05), schedule=SCHEDULE, n_users=100)
    assert plan.rule("lunch").surviving == ("cake",)
    while (plan.epoch + 1) % REVIEW_EVERY:
        plan = next_plan(plan, a_policy(lied, 0.05), schedule=SCHEDULE, n_users=100)
        assert plan.rule("lunch").surviving == ("cake",)
    plan = next_plan(plan, a_policy(lied, 0.05), schedule=SCHEDULE, n_users=100)
    assert plan.rule("lunch").surviving == tuple(ACTIONS)
    plan = next_plan(plan, a_policy(LUNCH, 0.05), schedule=SCHEDULE, n_users=100)
    assert plan.rule("lunch").action == "soup"


def test_contexts_that_turned_up_are_in_the_next_plan() -> None:
    means = np.array([[0.1, 0.6, 0.55], [0.9, 0.1, 0.1]])
    policy = a_policy(means, 0.1, contexts=("lunch", "dinner"))
    plan = next_plan(a_plan(), policy, schedule=SCHEDULE, n_users=100)
    assert plan.rule("dinner").action == "tea"
    assert not plan.rule("dinner").is_sticky


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"first": 0}, "at least 1"),
        ({"first": 1, "growth": 1.0}, "above 1"),
        ({"first": 1, "plays_per_cell": -1.0}, "0 or larger"),
        ({"first": 1, "plays_per_cell": math.inf}, "0 or larger"),
    ],
)
def test_a_schedule_that_goes_nowhere_is_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Schedule(**options)  # type: ignore[arg-type]


def test_a_doubtful_context_explores_more_in_the_next_plan() -> None:
    clear = np.array([[0.1, 0.9, 0.1]])
    shares = [
        next_plan(a_plan(), a_policy(means, math.inf), schedule=Schedule(first=100), n_users=10**5)
        .rule("lunch")
        .explorer_share
        for means in (clear, LUNCH)
    ]
    # Errors of 0.05 each against leads of 0.8 and 0.05: nothing and twice too wide. Four times as
    # many plays each, of two actions instead of one.
    assert shares[1] == pytest.approx(8 * shares[0])


def test_a_coalition_that_is_found_no_more_is_believed_in_for_one_more_epoch() -> None:
    swayed = np.array([[0.7, 0.6, 0.55]])
    found = next_plan(
        a_plan(), a_policy(LUNCH, 0.3), schedule=SCHEDULE, n_users=100, is_alarmed=True
    )
    assert found.is_alarmed
    lost = next_plan(found, a_policy(swayed, 0.3), schedule=SCHEDULE, n_users=100)
    assert lost.rule("lunch").action == "soup"
    assert not lost.is_alarmed
    again = next_plan(lost, a_policy(swayed, 0.3), schedule=SCHEDULE, n_users=100)
    assert again.rule("lunch").action == "tea"
