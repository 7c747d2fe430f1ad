"""What the learner that serves decides, keeps and hands on, step by step."""

from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.learners.epochs import EpochLearner, Schedule, next_plan
from unswayed.policy import Decider, EpochPlan, Mode

SECRET = bytes(range(16))
ACTIONS = ["tea", "soup", "cake"]
MEANS = {"lunch": (0.2, 0.8, 0.5), "dinner": (0.7, 0.3, 0.2)}
START = EpochPlan.start("spring", ["lunch", "dinner"], ACTIONS, is_sticky=False, is_spread=True)


def a_learner(plan: EpochPlan = START, **options: Any) -> EpochLearner:
    settings: dict[str, Any] = {"alpha": 0.1, "method": "paper"}
    return EpochLearner(plan, SECRET, **(settings | options))


def serve(learner: EpochLearner, rng: np.random.Generator, *, users: int, rounds: int) -> None:
    for _ in range(rounds):
        for user in range(users):
            context = "lunch" if rng.random() < 0.5 else "dinner"
            decision = learner.decide(user, context)
            mean = MEANS[context][ACTIONS.index(str(decision.ruling.action))]
            learner.observe(decision.id, mean + 0.1 * rng.standard_normal())


def test_decisions_are_those_of_the_plan_with_plays_counted_by_user_and_epoch(
    rng: np.random.Generator,
) -> None:
    learner = a_learner(schedule=Schedule(first=2))
    for _ in range(2):
        decider = Decider(learner.plan, SECRET)
        for play in range(4):
            for user in ("ann", "bob"):
                decision = learner.decide(user, "lunch")
                assert decision.ruling == decider.decide(user, "lunch", play)
                learner.observe(decision.id, rng.random())
        learner.end_epoch()


def test_age_is_the_mean_number_of_decisions_and_begins_anew_with_an_epoch() -> None:
    learner = a_learner(schedule=Schedule(first=2))
    assert learner.age == 0.0
    for user in ("ann", "bob", "ann", "ann", "ann"):
        learner.observe(learner.decide(user, "lunch").id, 1.0)
    assert learner.age == 2.5
    learner.end_epoch()
    assert learner.age == 0.0


def test_what_explorers_said_is_kept_by_user_context_and_action() -> None:
    learner = a_learner()
    said: dict[tuple[str, str, str], list[float]] = {}
    for number in range(40):
        user, context = f"user-{number % 3}", ("lunch", "dinner", "brunch")[number % 4 % 3]
        decision = learner.decide(user, context)
        learner.observe(decision.id, float(number))
        cell = (user, context, str(decision.ruling.action))
        said.setdefault(cell, []).append(float(number))
    collected = learner.collected()
    assert list(collected.action_labels) == ACTIONS
    tallies = collected.tallies
    found = {}
    for row, name in enumerate(collected.user_labels.texts):
        for entry in range(tallies.indptr[row], tallies.indptr[row + 1]):
            place, action = divmod(int(tallies.cells[entry]), len(ACTIONS))
            cell = (name, collected.context_labels.texts[place], ACTIONS[action])
            found[cell] = (float(tallies.plays[entry]), float(tallies.sums[entry]))
    assert found == {cell: (len(told), sum(told)) for cell, told in said.items()}


def test_a_schedule_that_is_given_stays(rng: np.random.Generator) -> None:
    schedule = Schedule(first=3, plays_per_cell=1.0)
    learner = a_learner(schedule=schedule)
    serve(learner, rng, users=30, rounds=3)
    policy, is_alarmed = learner.learn()
    expected = next_plan(START, policy, schedule=schedule, n_users=30, is_alarmed=is_alarmed)
    assert 0.0 < expected.rule("lunch").explorer_share < 1.0
    assert learner.end_epoch() == expected
    assert learner.schedule is schedule


def test_the_oldest_of_too_many_open_decisions_is_forgotten() -> None:
    learner = a_learner(max_open_decisions=2)
    first, second, third = (learner.decide("ann", "lunch") for _ in range(3))
    with pytest.raises(InputError, match="more than 2 decisions were made since"):
        learner.observe(first.id, 1.0)
    learner.observe(second.id, 1.0)
    learner.observe(third.id, 1.0)
    assert int(learner.collected().tallies.plays.sum()) == 2


def test_a_reward_of_the_policys_own_play_closes_the_decision_and_teaches_nothing() -> None:
    plan = EpochPlan.start("spring", ["lunch"], ACTIONS, is_sticky=False, explorer_share=0.0)
    learner = a_learner(plan)
    decision = learner.decide("ann", "lunch")
    assert decision.ruling.mode is Mode.EXPLOIT
    learner.observe(decision.id, 1.0)
    assert learner.collected().tallies.plays.sum() == 0
    with pytest.raises(InputError, match="is not open"):
        learner.observe(decision.id, 1.0)


def test_a_label_that_does_not_fit_changes_nothing() -> None:
    learner = a_learner()
    with pytest.raises(InputError, match="does not fit"):
        learner.decide("ann", 7)
    learner.observe(learner.decide(1, "lunch").id, 1.0)  # "ann" is not known: users are numbers
    assert list(learner.collected().user_labels) == [1]
    assert learner.age == 1.0


def refusal(make: Any) -> str:
    with pytest.raises(InputError) as refused:
        make()
    return str(refused.value)


def test_what_cannot_be_served_gets_a_sentence() -> None:
    sticky = EpochPlan.start("x", ["lunch"], ACTIONS)
    assert refusal(lambda: a_learner(sticky)) == (
        "the plan is sticky; start it with is_sticky=False to learn from it."
    )
    learner = a_learner()
    learner.observe(learner.decide("ann", "lunch").id, 1.0)
    turned = EpochPlan.start("x", ["lunch"], ACTIONS[::-1], is_sticky=False)
    assert refusal(lambda: a_learner(turned, collected=learner.collected())) == (
        "what was collected has other actions than the plan; give that of this campaign."
    )
    assert refusal(lambda: a_learner(method="papers")).startswith("unknown method 'papers'")
    assert "0.6" in refusal(lambda: a_learner(alpha=0.6))


def test_a_schedule_without_further_epochs_leaves_the_plan_as_it_is() -> None:
    learner = a_learner(schedule=Schedule(first=1, growth=np.inf))
    learner.observe(learner.decide("ann", "lunch").id, 1.0)
    assert refusal(learner.end_epoch) == (
        "the schedule has no further epoch; this policy is final."
    )
    assert learner.plan is START
    assert learner.age == 1.0


def test_the_default_method_is_the_projects_own() -> None:
    assert EpochLearner(START, SECRET, alpha=0.1).method == "bounded"
