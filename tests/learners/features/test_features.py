"""Contexts learned from attributes, with and without an attack."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from tests.learners.features.logs import BEST, FEATURES, N_USERS, linear_log, shop_log, visits
from tests.refusals import refusal
from unswayed import Events, Policy, RobustMCB, learn_log, learn_on_cluster
from unswayed.visible import percent


@pytest.mark.parametrize("is_pushed", [False, True], ids=["peace", "push"])
def test_leaves_follow_the_attributes_that_matter_whoever_pushes(
    is_pushed: bool, rng: np.random.Generator
) -> None:
    """Without a stated share of colluders, the push succeeds on the same log."""
    log = shop_log(rng, is_pushed=is_pushed)
    asked, best = visits(rng)
    robust, naive = (
        np.mean(np.array(RobustMCB(alpha, features=FEATURES).fit(log).predict(asked)) == best)
        for alpha in (0.12, 0.0)
    )
    assert robust > 0.9
    assert naive < 0.5 if is_pushed else naive > 0.9


def test_nothing_is_split_when_one_action_is_best_for_everybody(rng: np.random.Generator) -> None:
    log = shop_log(rng)
    chances = np.where(np.array(log["action"].to_pylist()) == "tea", 0.2, 0.1)
    rewards = (rng.random(len(log)) < chances).astype(float)
    log = log.set_column(log.column_names.index("reward"), "reward", pa.array(rewards))
    policy = learn_log(log, features=FEATURES, alpha=0.1).policy
    assert list(policy.context_labels) == ["everybody"]
    assert policy.decide({"country": "XX", "age": None, "hour": 3}).action == "tea"


def test_a_single_category_gives_the_decisions_of_a_context_column(
    rng: np.random.Generator,
) -> None:
    """Estimates are the same, too: one leaf per level is that table."""
    log = shop_log(rng, is_pushed=True)
    by_label = learn_log(log, context="country", alpha=0.12).policy
    by_feature = learn_log(log, features=["country"], alpha=0.12).policy
    for country in by_label.context_labels:
        one, other = by_label.decide(country), by_feature.decide({"country": country})
        assert replace(other, leaf=None) == one
        assert other.leaf == f"country is {country}"
    assert not by_feature.decide({"country": "XX"}).is_known


def test_the_order_of_the_rows_does_not_matter(rng: np.random.Generator) -> None:
    log = shop_log(rng)
    options: dict[str, Any] = {"features": FEATURES, "alpha": 0.1}
    one = learn_log(log, **options).policy
    other = learn_log(log.take(pa.array(rng.permutation(len(log)))), **options).policy
    assert one.partition is not None
    assert other.partition is not None
    assert one.partition.hash == other.partition.hash
    assert one.actions.tolist() == other.actions.tolist()


def test_a_saved_policy_decides_for_attributes_as_before(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """For one visit, for a table, and after another day with the same leaves."""
    log, (asked, _) = shop_log(rng), visits(rng, 200)
    learner = RobustMCB(0.1, features=FEATURES).fit(log)
    policy, path = learner.policy_, tmp_path / "policy.json"
    policy.save(path)
    loaded = Policy.load(path)
    assert loaded.partition is not None
    assert policy.partition is not None
    assert loaded.partition.hash == policy.partition.hash
    rows = asked.to_pylist()
    for row, action in zip(rows, learner.predict(asked), strict=True):
        decision = loaded.decide(row)
        assert decision.action == action
        assert decision.leaf in policy.context_labels
    assert loaded.decide_many(rows)[0] == learner.predict(asked)
    learner.save(tmp_path / "learner.zip")
    again = RobustMCB.load(tmp_path / "learner.zip")
    assert again.partial_fit(shop_log(rng)).policy_.context_labels == policy.context_labels


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_tables_are_predicted_row_by_row(kind: Any) -> None:
    """One action per row, not per column of the table; for one or several context columns."""
    users = np.repeat(np.arange(60), 4)
    context = np.tile(["home", "search"], 120)
    actions = np.tile(["tea", "tea", "milk", "milk"], 60)
    rewards = np.where((context == "home") == (actions == "tea"), 1.0, 0.0)
    log = {
        "user": users,
        "page": context,
        "land": ["FR"] * 240,
        "action": actions,
        "reward": rewards,
    }
    asked = kind({"land": ["FR"] * 3, "page": ["home", "search", "home"]})
    expected = ["tea", "milk", "tea"]
    for columns in ("page", ["land", "page"]):
        learner = RobustMCB(0.05).fit(pa.table(log), context=columns)
        assert learner.predict(asked) == expected
        assert learner.predict_expectations(asked).shape == (3, 2)
    assert learner.predict([("FR", "home"), {"page": "search", "land": "FR"}, ("FR", "home")]) == (
        expected
    )


def test_honest_intervals_use_users_held_out_from_the_partition(rng: np.random.Generator) -> None:
    """They are wider, allow for more colluders, and cover true means; decisions use all users."""
    log = shop_log(rng)
    options: dict[str, Any] = {"features": FEATURES, "alpha": 0.05, "reward_range": (0, 1)}
    plain = learn_log(log, **options).policy
    honest = learn_log(log, honest=True, **options).policy
    assert 0.4 * N_USERS < honest.source["honest"]["users"] < 0.6 * N_USERS
    assert honest.source["honest"]["alpha"] > 0.05
    width = np.nanmean(honest.high - honest.low)
    assert width > np.nanmean(plain.high - plain.low)
    decision = honest.decide({"country": "NO", "age": 30.0, "hour": 3})
    assert decision.action == "tea"
    assert decision.low <= BEST <= decision.high


def test_advice_may_come_from_a_column(rng: np.random.Generator) -> None:
    """Leaves begin with the choices of the other model, if they help."""
    log = shop_log(rng)
    ages = np.array([np.nan if age is None else age for age in log["age"].to_pylist()])
    country = np.array(log["country"].to_pylist())
    young = np.where(np.isnan(ages) | (ages < 40.0), "milk", "water")
    model = np.where(np.isin(country, ["NO", "SE"]), "tea", young)
    advised = log.append_column("model", pa.array(model))
    policy = learn_log(advised, features=["hour"], advice="model", alpha=0.1).policy
    assert set(policy.context_labels) == {"model is milk", "model is tea", "model is water"}
    assert policy.decide({"hour": 3, "model": "water"}).action == "water"


def test_advice_does_not_cover_values_that_the_log_never_had(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """Such a row gets the default action and a flag, and is dropped from a later log."""
    log = linear_log(rng)
    log = log.append_column("land", pa.array(rng.choice(["NO", "SE"], len(log))))
    learned = learn_log(log, features=[*FEATURES, "land"], alpha=0.1)
    learned.policy.save(tmp_path / "policy.json")
    policy = Policy.load(tmp_path / "policy.json")
    assert policy.partition is not None
    assert policy.partition.advice is not None
    assert "no leaf" not in " ".join(learned.notes)
    seen = {"country": 0.5, "age": -9.0, "hour": 0.0, "land": "NO"}
    assert policy.decide(seen).is_known
    unseen: list[dict[str, Any]] = [{"land": "XX"}, {"land": None}, {"age": None}]
    for value in unseen:
        found = policy.decide({**seen, **value})
        assert (found.leaf, found.is_known) == (None, False)
        assert found.action == policy.action_labels[policy.default_action]
    land = pa.array(["XX", None, "NO", *log["land"].to_pylist()[3:]])
    tuesday = log.set_column(log.column_names.index("land"), "land", land)
    again = learn_log(tuesday, features=[*FEATURES, "land"], partition=policy.partition, alpha=0.1)
    assert again.policy.counts.sum() == len(log) - 2


def test_leaves_that_mix_contexts_of_the_logging_policy_are_noted(rng: np.random.Generator) -> None:
    """Members like tea and get it; no propensity note appears if the features separate them."""
    log = shop_log(rng)
    is_member = np.array([int(user[1:]) % 2 == 0 for user in log["user"].to_pylist()])
    preferred = np.where(is_member, "tea", "milk")
    is_shown = rng.random(len(log)) < 0.5
    actions = np.where(is_shown, preferred, log["action"].to_numpy(zero_copy_only=False))
    propensities = np.where(actions == preferred, 0.625, 0.125)
    rewards = (rng.random(len(log)) < np.where(actions == preferred, 0.3, 0.1)).astype(float)
    columns = {"user": log["user"], "member": is_member, "hour": log["hour"], "action": actions}
    log = pa.table({**columns, "reward": rewards, "propensity": propensities})
    words = "rewards go with the propensity"
    mixed = learn_log(log, features=["hour"], alpha=0.1)
    assert words in " ".join(mixed.notes)
    apart = learn_log(log, features=["hour", "member"], alpha=0.1)
    assert len(apart.policy.context_labels) > 1
    weighed = learn_log(log, features=["hour"], alpha=0.1, method="paper")
    assert words not in " ".join([*apart.notes, *weighed.notes])


def test_the_picture_of_the_tree_has_every_rule_and_decision(rng: np.random.Generator) -> None:
    """Each branch shows its condition, each leaf its action and share of visits."""
    policy = learn_log(shop_log(rng), features=FEATURES, alpha=0.1).policy
    axes = policy.plot_tree(Figure().subplots())
    words = [text.get_text() for text in axes.texts]
    for code, rule in enumerate(policy.context_labels.texts):
        assert set(rule.split(" and ")) <= set(words)
        share = percent(float(policy.context_probabilities[code]))
        action = policy.decide(rule).action
        assert any(word.startswith(f"{action}: ") and f"({share})" in word for word in words)
    by_label = learn_log(shop_log(rng), context="country", alpha=0.1).policy
    assert "not learned from features" in refusal(by_label.plot_tree)


def test_bad_features_are_refused_with_the_way_out(rng: np.random.Generator) -> None:
    log = shop_log(rng)
    assert "no column 'contry'" in refusal(learn_log, log, features=["contry", "age"])
    assert "Did you mean 'country'?" in refusal(learn_log, log, features=["contry", "age"])
    message = refusal(learn_log, log, features=["age"], context=["country", "hour"])
    assert "cannot be given; name" in message
    assert "reward column" in refusal(learn_log, log, features=["age", "reward"])
    assert "named twice" in refusal(learn_log, log, features=["age", "age"])
    assert "no column 'oracle'" in refusal(learn_log, log, features=["age"], advice="oracle")
    assert "not among the features" in refusal(learn_log, log, features=["age"], trusted=["hour"])
    assert "`max_leaves`" in refusal(learn_log, log, features=["age"], max_leaves=0)
    assert "needs `features`" in refusal(learn_log, log, honest=True)
    refused = refusal(learn_on_cluster, "log.parquet", features=["age"], honest=True)
    assert "`honest` works only with" in refused
    times = log.append_column("day", pa.array([0] * len(log)).cast(pa.timestamp("s")))
    assert "the hour" in refusal(learn_log, times, features=["day", "age"])
    events = Events.of(["u"], ["home"], ["tea"], [1.0])
    assert "table or a file" in refusal(RobustMCB(features=["age"]).fit, events)


def test_unusable_attributes_are_refused(rng: np.random.Generator) -> None:
    learner = RobustMCB(alpha=0.1, features=FEATURES).fit(shop_log(rng))
    columns = {"country": ["NO", "DE"], "age": [30, 40], "hour": [3, 4]}
    assert "contexts is one mapping" in refusal(learner.predict, columns)
    assert "contexts is one mapping" in refusal(learner.predict_expectations, columns)
    policy = learner.policy_
    assert "lack 'hour'" in refusal(policy.decide, {"country": "NO", "age": 30})
    assert "Did you mean 'countri'?" in refusal(
        policy.decide, {"countri": "NO", "age": 30, "hour": 1}
    )
    message = refusal(policy.decide, {"country": "DE", "age": "old", "hour": 3})
    assert "'age' is 'old'; it must be a number" in message
    huge = refusal(policy.decide, {"country": "DE", "age": 10**400, "hour": 3})
    assert "it must be a number, or None" in huge
    assert "not a tuple" in refusal(policy.decide, ("NO", 30, 3))
    assert not policy.decide({"country": None, "age": 30, "hour": 3}).is_known


def test_deciding_for_attributes_loads_no_heavy_library(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    path = tmp_path / "policy.json"
    learn_log(shop_log(rng), features=FEATURES, alpha=0.1).policy.save(path)
    program = f"""
import sys
from unswayed import Policy
Policy.load({str(path)!r}).decide({{"country": "NO", "age": 31, "hour": 3}})
heavy = {{"numba", "duckdb", "matplotlib", "scipy", "pyarrow", "pandas"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)
