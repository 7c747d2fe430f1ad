"""Explanations of a learner's results, in labels and sentences."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from tests.policy.test_policy import make_policy as plain_policy
from unswayed.events import Events
from unswayed.learners.explaining import (
    changed_decisions,
    decision_rows,
    leads,
    named_lies,
    notes_on_policy,
    plain_actions,
)
from unswayed.policy import Policy
from unswayed.tallies import tally_events

MEANS = np.array([[0.2, 0.6, 0.5], [0.5, np.nan, np.nan], [0.1, 0.1, 0.0]])


def make_policy(**source: object) -> Policy:
    """Return a policy of three contexts and three actions."""
    return replace(
        plain_policy(["home", "search", "cart"], ["tea", "milk", "cola"], MEANS, source=source),
        low=np.where(np.isnan(MEANS), np.nan, -np.inf),
        sampling_errors=np.full((3, 3), 0.05),
        counts=np.where(np.isnan(MEANS), 0, 10),
        context_probabilities=np.array([0.2, 0.3, 0.5]),
        method="bounded",
    )


def test_the_runner_up_and_its_lead_are_named() -> None:
    second, lead = leads(make_policy())
    assert second.tolist() == [2, -1, 1]
    np.testing.assert_allclose(lead, [0.1, np.nan, 0.0])


def test_the_runner_up_is_the_best_action_that_is_not_excluded() -> None:
    is_excluded = MEANS == 0.6
    policy = replace(make_policy(), is_excluded=is_excluded)
    second, lead = leads(policy)
    assert second.tolist() == [0, -1, 1]
    np.testing.assert_allclose(lead, [0.3, np.nan, 0.0])
    assert [row["excluded"] for row in decision_rows(policy)] == [[], [], ["milk"]]
    is_alone = np.array([[False, True, True], [False] * 3, [False, True, True]])
    np.testing.assert_allclose(
        leads(replace(policy, is_excluded=is_alone))[1], [np.nan, np.nan, 0.0]
    )
    decided = replace(policy, decisions=np.array([0, 0, 0]))
    np.testing.assert_allclose(leads(decided)[1], [-0.3, np.nan, 0.0])


def test_notes_say_where_the_largest_mean_is_not_chosen() -> None:
    source: dict[str, object] = {"evidence": {}, "changed": {}}
    policy = replace(make_policy(), is_excluded=MEANS == 0.6)
    out = "decisions whose largest mean is ruled out by worst-case intervals: 1 of 3, for "
    assert any(note.startswith(out) for note in notes_on_policy(policy, source))
    other = replace(make_policy(), decisions=np.array([0, 0, 0]))
    notes = notes_on_policy(other, source)
    assert "decisions that are not the largest mean: 1 of 3, for instance in 'home'." in notes
    assert not any("largest mean" in note for note in notes_on_policy(make_policy(), source))


def test_rows_with_unknown_values_can_be_written_as_json() -> None:
    """Unknown means and infinite ends are not representable as JSON numbers."""
    rows = decision_rows(make_policy(changed={"home": "cola"}))
    json.dumps(rows, allow_nan=False)
    assert [row["context"] for row in rows] == ["cart", "search", "home"]
    assert [row["naive"] for row in rows] == [None, None, "cola"]
    assert rows[1]["runner_up"] is None
    assert rows[1]["lead"] is None
    assert rows[0]["low"] is None


def test_decisions_that_differ_from_plain_means_are_listed() -> None:
    assert changed_decisions(make_policy(), np.array([2, 0, 0])) == {"home": "cola"}


def test_reports_list_lies_by_items_and_accounts() -> None:
    policy = make_policy()
    about_one = {"cells": [2, 5, 8], "raises": True, "accounts": 612.3}
    another_in_each = {"cells": [1, 3, 8], "raises": False, "accounts": 40.0}
    lies = named_lies([about_one, another_in_each], policy)
    assert lies[0]["actions"] == ["cola"]
    assert lies[0]["contexts"] == 2  # in the other context it was never played
    assert lies[1]["by_context"] == {"home": "milk", "search": "tea", "cart": "cola"}
    notes = notes_on_policy(policy, {"evidence": {"lies": lies}, "changed": {"home": "cola"}})
    assert notes[0] == (
        "a group of about 612 accounts raises 'cola' in 2 contexts; it no longer counts."
    )
    assert "lowers one action in each of 3 contexts, such as 'milk' in home" in notes[1]
    assert "decisions that differ from plain means: 1 of 3, for instance 'home'." in notes[2]
    assert "within sampling error: 1 of 3" in notes[3]
    assert "'cart'" in notes[3]


def test_rows_contain_the_share_of_accounts_that_a_decision_withstands() -> None:
    fractions = {"flip_fraction": np.array([0.1, 0.2, 0.3]), "flip_fraction_upper": np.full(3, 0.4)}
    rows = decision_rows(replace(make_policy(), **fractions))  # type: ignore[arg-type]
    assert [row["withstands"] for row in rows] == [0.3, 0.2, 0.1]
    assert [row["falls_to"] for row in rows] == [0.4] * 3
    assert [row["code"] for row in rows] == [2, 1, 0]
    assert [row["share"] for row in rows] == [0.5, 0.3, 0.2]
    assert rows[2]["sampling_error"] == 0.05


def test_plain_means_are_sums_of_rewards_divided_by_plays() -> None:
    log = Events.of(
        ["ann", "ann", "bob", "bob", "cid"],
        ["home", "home", "home", "search", "cart"],
        ["tea", "tea", "milk", "milk", "milk"],
        [0.5, 0.5, 0.9, -0.5, 0.0],
    )
    # At home tea gets more rewards, but milk larger ones; elsewhere only milk was played, without
    # reward.
    assert plain_actions(tally_events(log)).tolist() == [1, 1, 1]


def test_plain_means_weigh_plays_by_their_propensities() -> None:
    log = Events.of(
        ["ann", "bob"], ["home"] * 2, ["tea", "milk"], [0.5, 0.4], propensities=[0.9, 0.1]
    )
    tallies = tally_events(log).uniform()
    np.testing.assert_allclose(tallies.cell_sums("counts"), [[0.5 / 0.9, 0.5 / 0.1]])
    assert plain_actions(tallies).tolist() == [0]


def test_a_row_contains_the_decision_its_interval_and_the_runner_up() -> None:
    flat = replace(
        make_policy(changed={"home": "cola"}),
        low=np.where(np.isnan(MEANS), np.nan, MEANS - 0.2),
        high=np.where(np.isnan(MEANS), np.nan, MEANS + 0.2),
        context_probabilities=np.array([0.2, 0.6, 0.2]),
    )
    first, second, third = decision_rows(flat)
    assert [first["context"], second["context"], third["context"]] == ["search", "home", "cart"]
    for number in ("mean", "low", "high", "lead", "bias_bound"):
        second[number] = round(second[number], 12)
    assert second == {
        "code": 0,
        "context": "home",
        "share": 0.2,
        "action": "milk",
        "mean": 0.6,
        "low": 0.4,
        "high": 0.8,
        "runner_up": "cola",
        "lead": 0.1,
        "naive": "cola",
        "excluded": [],
        "sampling_error": 0.05,
        "bias_bound": 0.15,
        "withstands": None,
        "falls_to": None,
    }
    assert (first["action"], first["runner_up"], third["action"]) == ("tea", None, "tea")


def test_of_equally_frequent_contexts_the_first_comes_first() -> None:
    n = 40
    policy = replace(
        plain_policy(list(range(n)), ["tea", "milk"], [[0.2, 0.3]] * n),
        context_probabilities=np.where(np.arange(n) % 2, 0.02, 0.03),
    )
    rows = decision_rows(policy)
    assert [row["code"] for row in rows] == [*range(0, n, 2), *range(1, n, 2)]
    assert {row["runner_up"] for row in rows} == {"tea"}
    # Without a sampling error the parts of the interval are unknown.
    assert {row["sampling_error"] for row in rows} == {row["bias_bound"] for row in rows} == {None}


def test_descriptions_of_lies_have_all_documented_fields() -> None:
    policy = replace(make_policy(), counts=np.ones((3, 3), np.int64))
    down = {"cells": [0, 3], "raises": False, "accounts": 12.345}
    up = {"cells": [8], "raises": True, "accounts": 7.0}
    assert named_lies([down, up], policy) == [
        {"direction": "down", "accounts": 12.3, "contexts": 2, "actions": ["tea"]},
        {"direction": "up", "accounts": 7.0, "contexts": 1, "actions": ["cola"]},
    ]
