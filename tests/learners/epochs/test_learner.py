import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import UNKNOWN
from unswayed.learners.epochs import EpochLearner, Schedule
from unswayed.policy import EpochPlan, Mode

SECRET = bytes(range(16))
ACTIONS = ["tea", "soup", "cake"]
MEANS = {"lunch": (0.2, 0.8, 0.5), "dinner": (0.7, 0.3, 0.2)}


def a_learner(plan: EpochPlan | None = None, **options: object) -> EpochLearner:
    chosen = plan or EpochPlan.start("spring", ["lunch"], ACTIONS, is_sticky=False, is_spread=True)
    settings: dict[str, object] = {"alpha": 0.1, "schedule": Schedule(first=3)}
    return EpochLearner(chosen, SECRET, **(settings | options))  # type: ignore[arg-type]


def serve(learner: EpochLearner, rng: np.random.Generator, *, rounds: int, bad: int = 0) -> None:
    """Serve 300 users; the first ``bad`` of them praise tea and damn everything else."""
    for _ in range(rounds):
        for user in range(300):
            context = "lunch" if rng.random() < 0.7 else "dinner"
            decision = learner.decide(user, context)
            action = ACTIONS.index(str(decision.ruling.action))
            reward = MEANS[context][action] + 0.1 * rng.standard_normal()
            learner.observe(decision.id, (2.0 if action == 0 else -1.0) if user < bad else reward)


def test_what_was_learned_is_served_and_new_contexts_join(rng: np.random.Generator) -> None:
    learner = a_learner()
    serve(learner, rng, rounds=3, bad=45)
    assert learner.age == 3.0
    plan = learner.end_epoch()
    assert plan.epoch == 1
    assert plan.rule("lunch").action == "soup"
    assert plan.rule("dinner").action == "tea"
    modes = [learner.decide(user, "lunch").ruling.mode for user in range(300)]
    assert Mode.EXPLOIT in modes


def test_a_context_that_turns_up_in_mid_epoch_is_served_and_nothing_of_it_is_lost() -> None:
    learner = a_learner()
    learner.observe(learner.decide("ann", "lunch").id, 1.0)
    decision = learner.decide("bob", "brunch")
    assert decision.ruling.action in ACTIONS
    learner.observe(decision.id, 0.5)
    assert learner.plan.contexts.code("brunch") == UNKNOWN
    collected = learner.collected()
    assert sorted(collected.context_labels.texts) == ["brunch", "lunch"]
    assert float(collected.tallies.sums.sum()) == 1.5
    assert learner.end_epoch().contexts.code("brunch") != UNKNOWN


def test_a_campaign_goes_on_where_it_was_stopped(streams: object) -> None:
    """Plan, secret and what was collected are all there is."""
    whole, first = a_learner(), a_learner()
    for learner in (whole, first):
        serve(learner, streams("first"), rounds=3)  # type: ignore[operator]
        learner.end_epoch()
    again = EpochPlan.from_json(first.plan.to_json(), campaign="spring")
    second = a_learner(again, collected=first.collected())
    for learner in (whole, second):
        serve(learner, streams("second"), rounds=3)  # type: ignore[operator]
    assert second.end_epoch() == whole.end_epoch()


def test_only_explorers_rewards_are_learned_from(rng: np.random.Generator) -> None:
    learner = a_learner()
    serve(learner, rng, rounds=3)
    learner.end_epoch()
    before = int(learner.collected().tallies.plays.sum())
    n_explored = 0
    for user in range(300):
        decision = learner.decide(user, "lunch")
        n_explored += decision.ruling.mode is Mode.EXPLORE
        learner.observe(decision.id, -5.0)
    assert 0 < n_explored < 300
    assert int(learner.collected().tallies.plays.sum()) == before + n_explored


def test_a_reward_counts_once_and_bad_input_changes_nothing() -> None:
    learner = a_learner()
    decision = learner.decide("ann", "lunch")
    with pytest.raises(InputError):
        learner.observe(decision.id, float("nan"))
    learner.observe(decision.id, 1.0)
    with pytest.raises(InputError):
        learner.observe(decision.id, 1.0)
    with pytest.raises(InputError):
        learner.decide(7, "lunch")
    with pytest.raises(InputError):
        learner.decide("bob", 3.5)
    assert learner.collected().user_labels.texts == ["ann"]
    assert int(learner.collected().tallies.plays.sum()) == 1


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(InputError, match="sticky"):
        a_learner(EpochPlan.start("x", ["lunch"], ACTIONS))
    learner = a_learner()
    learner.observe(learner.decide("ann", "lunch").id, 1.0)
    other = EpochPlan.start("x", ["lunch"], ["wine", "beer"], is_sticky=False)
    with pytest.raises(InputError, match="other actions"):
        a_learner(other, collected=learner.collected())
    with pytest.raises(
        InputError, match=r"^the schedule has no further epoch; this policy is final\.$"
    ):
        a_learner(
            schedule=Schedule(first=1, growth=np.inf), collected=learner.collected()
        ).end_epoch()
