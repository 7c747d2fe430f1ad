"""Epochs in the service: plans of the epoch learner, from the decisions in the store."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from tests.service.learned import learned_policy
from tests.service.running import SHOP, Running, running, until
from unswayed.learners.epochs import Schedule, next_plan
from unswayed.policy import best_known
from unswayed.service.catalogue import add_policy, plan_of
from unswayed.service.planning import Progress, aligned, make_plan, next_plan_of

POLICY = learned_policy(SHOP.contexts, SHOP.actions)

#: Four decisions a user: the first epoch of a shop with so many users is over.
GROWN = Progress(age=4.0, n_users=20_000, is_alarmed=False)


def publish(server: Running, progress: Progress) -> None:
    """Publish a learned policy after so many decisions."""
    with server.prepared.database.connected() as connection, connection.transaction():
        add_policy(connection, "shop", POLICY, job="", activate=True, progress=progress)


def test_the_plan_is_that_of_the_epoch_learner() -> None:
    start = make_plan("shop", SHOP)
    found = next_plan_of(start, SHOP, POLICY, GROWN)
    expected = next_plan(start, POLICY, schedule=Schedule(first=4), n_users=20_000)
    assert found == expected
    assert found.epoch == 1
    # at lunch the lower end of soup, .25, lies above the upper ends of the others
    assert found.rule("lunch").surviving == ("soup",)
    assert found.rule("lunch").explorer_share < 1.0


def test_intervals_under_undeclared_assumptions_exclude_nothing() -> None:
    """All rewards so far were 0 or 1, but the campaign does not declare this range."""
    assumed = replace(POLICY, source={"intervals": {"is_assumed": True}}, sampling_errors=None)
    start = make_plan("shop", SHOP)
    assert next_plan_of(start, SHOP, assumed, GROWN).rule("lunch").surviving == SHOP.actions
    stated = replace(assumed, source={"intervals": {"is_assumed": False}})
    assert next_plan_of(start, SHOP, stated, GROWN).rule("lunch").surviving == ("soup",)


def test_a_decision_that_is_not_the_largest_mean_is_rolled_out() -> None:
    is_excluded = np.zeros(POLICY.mean_rewards.shape, np.bool_)
    lunch, best = POLICY.context_labels.code("lunch"), POLICY.actions
    is_excluded[lunch, best[lunch]] = True
    second = int(best_known(POLICY.mean_rewards, is_excluded)[lunch])
    for policy in (
        replace(POLICY, is_excluded=is_excluded),
        replace(POLICY, decisions=np.where(is_excluded.any(axis=1), second, best)),
    ):
        assert policy.actions[lunch] == second != best[lunch]
        np.testing.assert_array_equal(aligned(policy, SHOP).actions, policy.actions)
        rolled = next_plan_of(make_plan("shop", SHOP), SHOP, policy, replace(GROWN, age=3.9))
        assert rolled.rule("lunch").action == policy.action_labels[second]
        # Once the chosen action is removed, the largest remaining mean is chosen.
        fewer = tuple(a for a in SHOP.actions if a != policy.action_labels[second])
        left = aligned(policy, msgspec.structs.replace(SHOP, actions=fewer))
        np.testing.assert_array_equal(left.actions, best_known(left.mean_rewards))


def test_within_an_epoch_only_the_policy_changes() -> None:
    start = make_plan("shop", SHOP)
    found = next_plan_of(start, SHOP, POLICY, replace(GROWN, age=3.9))
    assert found.epoch == 0
    assert [rule.action for rule in found.rules] == ["soup", "curry"]
    assert all(rule.surviving == SHOP.actions for rule in found.rules)
    assert all(rule.explorer_share == 1.0 for rule in found.rules)


def test_all_epochs_that_are_over_end() -> None:
    plan = next_plan_of(make_plan("shop", SHOP), SHOP, POLICY, replace(GROWN, age=40.0))
    assert plan.epoch == 4  # epochs end at 4, 8, 16 and 32 decisions per user
    assert plan.rule("lunch").surviving == SHOP.actions  # review epochs explore all actions again


def test_an_alarm_is_kept_and_increases_exploration() -> None:
    start = make_plan("shop", SHOP)
    calm, alarmed = (
        next_plan_of(start, SHOP, POLICY, replace(GROWN, is_alarmed=is_alarmed))
        for is_alarmed in (False, True)
    )
    assert alarmed.is_alarmed
    assert alarmed.rule("lunch").explorer_share > calm.rule("lunch").explorer_share
    changed = msgspec.structs.replace(SHOP, control_share=0.1)
    assert next_plan_of(alarmed, changed, POLICY).is_alarmed


def test_in_serve_mode_explore_share_explores_the_surviving_actions() -> None:
    served = msgspec.structs.replace(SHOP, mode="serve", explore_share=0.3, control_share=0.2)
    plan = next_plan_of(make_plan("shop", served), served, POLICY, GROWN)
    assert plan.rule("lunch").surviving == ("soup",)
    assert [rule.explorer_share for rule in plan.rules] == [0.3, 0.3]
    assert plan.control_share == 0.2


def test_added_labels_are_explored() -> None:
    plan = next_plan_of(make_plan("shop", SHOP), SHOP, POLICY, GROWN)
    more = SHOP.with_labels(contexts=["breakfast"], actions=["tea"])
    grown = next_plan_of(plan, more, POLICY)
    assert grown.epoch == plan.epoch
    assert grown.rule("breakfast").surviving == more.actions
    assert grown.rule("breakfast").explorer_share == 1.0
    assert grown.rule("lunch").surviving == ("soup", "tea")
    assert grown.rule("lunch").explorer_share > plan.rule("lunch").explorer_share
    # It has no estimate, so later epochs do not exclude it either.
    later = next_plan_of(grown, more, POLICY, replace(GROWN, age=16.0))
    assert later.epoch == 3
    assert later.rule("lunch").surviving == ("soup", "tea")
    assert later.rule("breakfast").surviving == more.actions


def test_a_policy_is_aligned_with_the_labels_of_the_campaign() -> None:
    turned = msgspec.structs.replace(
        SHOP, contexts=("dinner", "brunch", "lunch"), actions=("cola", "tea", "soup", "curry")
    )
    found = aligned(POLICY, turned)
    assert [found.decide(context).action for context in ("lunch", "dinner")] == ["soup", "curry"]
    assert not found.decide("brunch").is_known
    assert np.isnan(found.mean_rewards[:, 1]).all()
    for context in ("lunch", "dinner"):
        assert found.decide(context).low == POLICY.decide(context).low


def test_without_a_policy_everything_is_explored_again() -> None:
    plan = next_plan_of(make_plan("shop", SHOP), SHOP, POLICY, GROWN)
    assert next_plan_of(plan, SHOP, None) == make_plan("shop", SHOP, epoch=1)


def test_a_restart_resumes_the_plan(store: str, tmp_path: Path) -> None:
    with running(store, tmp_path) as server:
        publish(server, GROWN)
        until(lambda: server.get("/v1/shop/policy")["version"] == 1)
        before = server.get("/v1/shop/policy")["plan"]
        users = [f"user {number}" for number in range(200)]
        until(lambda: server.decide()["plan"] == 2)
        was = [server.decide(user)["action"] for user in users]
    with running(store, tmp_path) as server:
        assert server.get("/v1/shop/policy")["plan"] == before
        assert before["epoch"] == 1
        assert [server.decide(user)["action"] for user in users] == was
        exploration = server.get("/v1/shop/status")["exploration"]["lunch"]
        assert exploration["policy_action"] == "soup"
        assert exploration["surviving"] == 1
        assert exploration["explorer_share"] == before["contexts"]["lunch"]["explorer_share"]
        publish(server, replace(GROWN, age=8.0))
        with server.prepared.database.connected() as connection:
            assert plan_of(connection, "shop", 3)[0].epoch == 2


def test_a_change_of_settings_keeps_the_current_epoch(sqlite_shop: Running) -> None:
    publish(sqlite_shop, GROWN)
    sqlite_shop.call("PATCH", "/v1/shop", {"control_share": 0.2}).raise_for_status()
    plan = sqlite_shop.get("/v1/shop/policy")["plan"]
    assert (plan["epoch"], plan["control_share"]) == (1, 0.2)
    assert plan["contexts"]["lunch"]["surviving"] == ["soup"]
    sqlite_shop.post("/v1/shop/policy/0/activate")
    plan = sqlite_shop.get("/v1/shop/policy")["plan"]
    assert plan["contexts"]["lunch"]["surviving"] == list(SHOP.actions)
    sqlite_shop.post("/v1/shop/policy/1/activate")
    plan = sqlite_shop.get("/v1/shop/policy")["plan"]
    assert (plan["epoch"], plan["contexts"]["lunch"]["action"]) == (1, "soup")
