"""Fitting tables and successive days, adding and removing actions, and serving the policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from unswayed import Columns, InputError, RobustMCB, read_events

MEANS = {"home": {"tea": 0.3, "milk": 0.7}, "search": {"tea": 0.8, "milk": 0.4}}
SECRET = bytes(range(16))


def table(rng: np.random.Generator, n_users: int = 300, n_plays: int = 8) -> dict[str, Any]:
    """Return a log in which every fifth user is in a coalition that reverses all rewards."""
    users = np.repeat(np.arange(n_users), n_plays)
    contexts = rng.choice(["home", "search"], size=len(users))
    actions = rng.choice(["tea", "milk"], size=len(users))
    means = np.array([MEANS[s][a] for s, a in zip(contexts, actions, strict=True)])
    rewards = (rng.random(len(users)) < means).astype(float)
    rewards[users % 5 == 0] = -20 * means[users % 5 == 0]
    return {"user": users, "context": contexts, "action": actions, "reward": rewards}


def same(one: RobustMCB, other: RobustMCB) -> None:
    first, second = one.policy_.to_json(), other.policy_.to_json()
    first.pop("created")
    second.pop("created")
    assert first == second


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_a_table_of_any_library_is_fitted(kind: Any, rng: np.random.Generator) -> None:
    """The policy is the same as from the events that `read_events` returns."""
    columns = table(rng)
    learner = RobustMCB(0.2).fit(kind(columns))
    assert learner.predict(["home", "search"]) == ["milk", "tea"]
    same(learner, RobustMCB(0.2).fit(read_events(pa.table(columns)).events))
    renamed = {"account": columns.pop("user"), **columns}
    same(learner, RobustMCB(0.2).fit(kind(renamed), columns=Columns(user="account")))
    with pytest.raises(InputError, match="no column 'user'"):
        RobustMCB(0.2).fit(kind(renamed))


def test_fitting_day_by_day_gives_the_policy_of_all_days(rng: np.random.Generator) -> None:
    """The policies are equal bit for bit; `fit` discards earlier days."""
    days = [pa.table(table(rng)) for _ in range(3)]
    learner = RobustMCB(0.2)
    for day in days:
        assert learner.partial_fit(day) is learner
    together = RobustMCB(0.2).fit(pa.concat_tables(days))
    same(learner, together)
    assert learner.policy() is learner.policy_
    same(learner.fit(days[0]), RobustMCB(0.2).fit(days[0]))


WITH_CONTEXTS = pytest.mark.parametrize(
    ("options", "names"),
    [({"features": ["context"]}, {}), ({}, {"context": "country"})],
    ids=["features", "columns"],
)


def with_countries(rng: np.random.Generator) -> pa.Table:
    return pa.table({**table(rng, 80), "country": ["NO", "DE"] * 320})


@WITH_CONTEXTS
def test_a_fit_that_is_refused_changes_nothing(
    options: dict[str, Any], names: dict[str, Any], rng: np.random.Generator
) -> None:
    """The next day is learned with the same leaves and columns as before."""
    days = [with_countries(rng), with_countries(rng)]
    learner, other = RobustMCB(0.2, **options), RobustMCB(0.2, **options)
    for day in days:
        other.partial_fit(day, **names)
        learner.partial_fit(day, **names)
        for refused in (day.slice(0, 0), day.filter(pc.field("action") == "tea")):
            with pytest.raises(InputError, match=r"no rows|1 action"):
                learner.fit(refused, **names)
    same(learner, other)


@pytest.mark.parametrize("features", [[], ["country"]])
def test_a_log_with_other_features_is_not_added(
    features: list[str], rng: np.random.Generator
) -> None:
    log = with_countries(rng)
    learner = RobustMCB(0.2, features=["context"]).fit(log).set_params(features=features)
    with pytest.raises(InputError, match="other features; call fit"):
        learner.partial_fit(log)
    same(learner.fit(log), RobustMCB(0.2, features=features).fit(log))


@WITH_CONTEXTS
def test_changing_parameters_keeps_the_contexts(
    options: dict[str, Any], names: dict[str, Any], rng: np.random.Generator
) -> None:
    log = with_countries(rng)
    learner = RobustMCB(0.1, **options).fit(log, **names).set_params(alpha=0.2)
    learner.policy()
    same(learner, RobustMCB(0.2, **options).fit(log, **names))


def test_the_policy_after_a_fit_is_that_of_the_fit(rng: np.random.Generator) -> None:
    """Plays that are observed later are added to the log."""
    log = pa.table(table(rng))
    learner = RobustMCB(0.2, actions=["tea", "milk"], secret=SECRET).fit(log)
    fitted = learner.policy_
    assert learner.policy() is fitted
    action = learner.decide(7, "home")
    learner.observe(7, "home", action, 1.0)
    assert learner.policy().counts.sum() == fitted.counts.sum() + 1
    assert learner.policy().decide("home").action == "milk"


def test_decisions_can_be_made_by_the_policy(rng: np.random.Generator) -> None:
    learner = RobustMCB(0.2, actions=["tea", "milk"], secret=SECRET)
    with pytest.raises(InputError, match="nothing was learned yet"):
        learner.decide("ann", "home", mode="policy")
    learner.fit(pa.table(table(rng)))
    users = list(range(40))
    assert set(learner.decide_many(users, ["home"] * 40)) == {"tea", "milk"}
    assert set(learner.decide_many(users, ["home"] * 40, mode="policy")) == {"milk"}
    assert learner.decide(3, "search", mode="policy") == "tea"
    with pytest.raises(InputError, match="mode is explore or policy, not 'greedy'"):
        learner.decide("ann", "home", mode="greedy")  # type: ignore[arg-type]


def played(learner: RobustMCB, rng: np.random.Generator, means: dict[str, float]) -> None:
    """Let 200 users play six times each."""
    users = list(range(200)) * 6
    actions = learner.decide_many(users, ["home"] * len(users))
    rewards = [float(rng.random() < means[str(action)]) for action in actions]
    learner.observe_many(users, ["home"] * len(users), actions, rewards)


@pytest.mark.parametrize("method", ["paper", "bounded"])
def test_an_action_is_added_and_found_to_be_the_best(method: str, rng: np.random.Generator) -> None:
    """Earlier plays count with the probabilities of their time, so means are unbiased."""
    means = {"tea": 0.2, "milk": 0.5, "soup": 0.8}
    learner = RobustMCB(
        0.05, method=method, actions=["tea", "milk"], contexts=["home"], secret=SECRET
    )
    played(learner, rng, means)
    assert learner.policy().decide("home").action == "milk"
    learner.add_action("soup")
    played(learner, rng, means)
    policy = learner.policy()
    assert policy.decide("home").action == "soup"
    assert policy.counts.sum() == 2 * 1200
    # Hoeffding's bound for 400 of 2,400 plays at level 1e-6 per mean, with 5 % of the users
    # trimmed.
    found = {str(a): policy.mean_rewards[0, policy.action_labels.code(a)] for a in means}
    for action, mean in means.items():
        assert abs(found[action] - mean) < np.sqrt(np.log(2e6) / (2 * 400)) + 0.05


def test_a_removed_action_is_neither_played_nor_chosen(rng: np.random.Generator) -> None:
    means = {"tea": 0.2, "milk": 0.5, "soup": 0.8}
    learner = RobustMCB(0.05, actions=list(means), contexts=["home"], secret=SECRET)
    played(learner, rng, means)
    assert learner.policy().decide("home").action == "soup"
    learner.remove_action("soup")
    with pytest.raises(InputError, match="nothing was learned yet"):
        learner.predict(["home"])
    assert (
        learner.policy().decide("home").action == "milk"
    )  # estimated from the plays of the other actions
    assert set(learner.decide_many(list(range(200)), ["home"] * 200)) == {"tea", "milk"}
    with pytest.raises(InputError, match="action 'soup'"):
        learner.observe(1, "home", "soup", 1.0)
    for action, sentence in (("soup", "no action 'soup' to remove"), ("tea", "at least two")):
        with pytest.raises(InputError, match=sentence):
            learner.remove_action(action)
    with pytest.raises(InputError, match="given twice"):
        learner.add_action("tea")


def test_plays_since_the_last_policy_count_although_the_actions_changed(
    rng: np.random.Generator,
) -> None:
    """The previous policy is not returned again."""
    learner = RobustMCB(0.05, actions=["tea", "milk"], contexts=["home"], secret=SECRET)
    played(learner, rng, {"tea": 0.2, "milk": 0.5})
    before = learner.policy()
    played(learner, rng, {"tea": 0.2, "milk": 0.5})
    learner.add_action("soup")
    assert learner.policy().counts.sum() == 2 * before.counts.sum()
