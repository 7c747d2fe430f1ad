"""The online learner: its decisions, its counts, and what its method receives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.learners.recording import RECORDED, Recording
from tests.refusals import refusal
from unswayed import Columns, Events, RobustMCB
from unswayed.errors import Note
from unswayed.policy import Assignment

pytestmark = pytest.mark.usefixtures("recorded")

SECRET = bytes(range(16))


def shop(alpha: Any = 0.1, **options: Any) -> RobustMCB:
    """Return a learner with two actions and one context that uses the recording method."""
    given = {"actions": ["tea", "milk"], "contexts": ["home"], "method": RECORDED} | options
    return RobustMCB(alpha, secret=SECRET, **given)


def drawn(user: str, context: str, play: int | None, epoch: int, actions: list[str]) -> str:
    """Return the action that the assignment gives."""
    draw = Assignment(secret=SECRET, epoch=epoch)
    (code,) = draw.actions(
        draw.digests("user", [user]),
        draw.digests("context", [context]),
        n_actions=len(actions),
        plays=None if play is None else np.array([play]),
    )
    return actions[int(code)]


def cells(learner: RobustMCB) -> dict[tuple[Any, Any], tuple[int, float]]:
    """Return the number of plays and the mean reward of each cell that was played, by label."""
    policy = learner.policy()
    return {
        (policy.context_labels[int(s)], policy.action_labels[int(a)]): (
            int(policy.counts[s, a]),
            round(float(policy.mean_rewards[s, a]), 9),
        )
        for s, a in zip(*np.nonzero(policy.counts), strict=True)
    }


def test_get_params_returns_the_given_parameters() -> None:
    assert RobustMCB().get_params() == {
        "alpha": 0.1,
        "method": "bounded",
        "actions": None,
        "contexts": [],
        "warmup_interactions": 0,
        "reward_range": None,
        "reward_deviation": None,
        "features": [],
        "max_leaves": 32,
        "trusted": [],
        "advice": "auto",
    }
    given = {
        "alpha": "auto",
        "method": "paper",
        "actions": [3, 1],
        "contexts": ["home"],
        "warmup_interactions": 5,
        "reward_range": [0.0, 1.0],
        "reward_deviation": None,
        "features": ["age"],
        "max_leaves": 4,
        "trusted": ["age"],
        "advice": "off",
    }
    assert RobustMCB(**given).get_params() == given  # type: ignore[arg-type]


def test_the_repr_shows_observations_and_results() -> None:
    learner = shop(actions=["tea", "milk"])
    plain = "RobustMCB(alpha=0.1, method='recorded', actions=['tea', 'milk'], contexts=['home'])"
    learner.decide("ann", "home")
    assert repr(learner) == plain
    learner.observe("ann", "cart", "tea", 1.0)
    assert repr(learner) == plain + "  # observed: 1 events"
    learner.policy()
    assert repr(learner) == plain + "  # observed: 1 events; learned: 2 contexts, 2 actions"
    log = Events.of(["ann"], ["home"], ["tea"], [1.0])
    assert repr(shop().fit(log)) == plain + "  # learned: 1 context, 2 actions"


def test_an_action_that_cannot_be_stored_is_refused_and_changes_nothing() -> None:
    learner, untouched = shop(), shop()
    assert refusal(learner.add_action, "\ud800") == (
        "label '\\ud800' is not valid Unicode text; decode it properly first."
    )
    assert learner.get_params() == untouched.get_params()
    users = [f"user-{n}" for n in range(20)]
    assert learner.decide_many(users, ["cart"] * 20) == untouched.decide_many(users, ["cart"] * 20)


def test_removing_an_action_discards_what_was_learned() -> None:
    learner = shop("auto", actions=["tea", "milk", "soup"])
    names = ("policy_", "estimates_", "flip_bounds_", "unknown_fraction_")
    users = [f"user-{n}" for n in range(30)]
    learner.observe_many(users, ["cart"] * 30, ["tea", "milk", "soup"] * 10, np.ones(30))
    learner.policy()
    assert all(hasattr(learner, name) for name in names)
    learner.remove_action("milk")
    assert not any(hasattr(learner, name) for name in names)
    assert cells(learner) == {("cart", "tea"): (10, 1.0), ("cart", "soup"): (10, 1.0)}
    assert "at least two" in refusal(learner.remove_action, "tea")
    assert list(learner.action_labels_) == ["tea", "soup"]


def test_predictions_are_rows_of_the_policy() -> None:
    log = Events.of(
        ["ann", "bob", "ann"], ["home", "home", "cart"], ["tea", "milk", "milk"], [0.25, 0.75, 0.5]
    )
    learner = shop(actions=["milk", "tea"]).fit(log)
    assert list(learner.action_labels_) == ["milk", "tea"]
    np.testing.assert_array_equal(
        learner.predict_expectations(["cart", "?", "home"]),
        [[0.5, np.nan], [np.nan, np.nan], [0.75, 0.25]],
    )
    with pytest.warns(Note, match=re.escape("the policy has no context '?'")):
        assert learner.predict(["home", "?"]) == ["milk", "milk"]
    assert learner.frequent_contexts_ == ["home"]
    assert learner.user_weights_.tolist() == [1.0, 1.0]
    assert list(learner.user_labels_) == ["ann", "bob"]
    assert refusal(learner.predict_expectations, "am") == (
        "contexts is the text 'am'; give a list, such as ['am']."
    )
    assert refusal(learner.decide_many, "am", ["home"] * 2, mode="policy") == (
        "users is the text 'am'; give a list, such as ['am']."
    )
    assert learner.decide_many(["x", "y"], ["home", "cart"], mode="policy") == ["milk", "milk"]


STICKY = {
    "user": [f"user-{n}" for n in range(50) for _ in range(2)],
    "context": ["home"] * 100,
    "action": [("tea", "milk")[n % 2] for n in range(50) for _ in range(2)],
    "reward": [1.0] * 99 + [float("nan")],
}


@pytest.mark.parametrize("name", ["fit", "partial_fit"])
def test_the_options_of_a_log_are_respected(name: str, recorded: Recording) -> None:
    """Columns, bad rows, and the inferred or stated design."""
    table = pa.table(STICKY).rename_columns({"user": "account"})
    how = {"columns": Columns(user="account"), "on_bad_rows": "drop"}
    for design, is_sticky in ((None, True), ("uniform", False), ("sticky", True)):
        chosen = {} if design is None else {"design": design}
        learner = getattr(shop(), name)(table, **how, **chosen)
        given = recorded.given[-1]
        assert given.design.is_sticky.tolist() == [is_sticky]
        assert given.tallies.interactions.sum() == 99
        assert len(learner.user_labels_) == 50
    assert "no column 'user'" in refusal(getattr(shop(), name), table, on_bad_rows="drop")
    message = refusal(getattr(shop(), name), table, columns=Columns(user="account"))
    assert 'use `on_bad_rows="drop"`' in message


def test_the_design_of_a_log_whose_users_change_actions_is_uniform(recorded: Recording) -> None:
    shop().fit(pa.table({**STICKY, "action": ["tea", "milk"] * 50, "reward": [1.0] * 100}))
    assert recorded.given[-1].design.is_sticky.tolist() == [False]


def test_refused_logs_do_not_change_the_learner() -> None:
    day = Events.of(["ann", "bob"], ["home"] * 2, ["tea", "milk"], [0.25, 0.75])
    learner = shop().fit(day)
    strange = Events.of(["ann"], ["home"], ["gin"], [1.0])
    assert refusal(learner.partial_fit, strange) == (
        "the log has action 'gin', which is not among `actions`."
    )
    assert learner.policy() is learner.policy_
    learner.partial_fit(day)
    assert cells(learner) == {("home", "tea"): (2, 0.25), ("home", "milk"): (2, 0.75)}
    learner.fit(day)
    assert cells(learner) == {("home", "tea"): (1, 0.25), ("home", "milk"): (1, 0.75)}
