"""The wording of each note on a log and on a policy, and when it is omitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.learners.test_explaining import make_policy
from tests.tallies import summaries
from unswayed.events import Columns, Provenance
from unswayed.learners.explaining import (
    notes_on_bad_rows,
    notes_on_log,
    notes_on_policy,
    notes_on_summary,
)
from unswayed.learners.options import LearnOptions
from unswayed.tallies import tally
from unswayed.tallies.log_data import PreparedLog

SOUND = replace(
    summaries.SOUND,
    n_events=6_000,
    n_users=300,
    n_contexts=3,
    median_interactions=20.0,
    most_interactions=20,
    interaction_ratio=20.0,
    repeated_share=0.5,
    uniform_p_value=0.5,
    rare_share=0.0,
)


def notes(**changes: Any) -> tuple[str, ...]:
    return notes_on_summary(replace(SOUND, **changes))


def test_a_large_ratio_of_interactions_is_noted() -> None:
    """A ratio of 20 is the largest that causes no note."""
    assert notes() == ()
    assert notes(interaction_ratio=1234.4) == (
        "the most active user has 1,234 times the interactions of the least active; guarantees "
        "weaken with that ratio, and a cap on interactions per user bounds it.",
    )


def test_non_uniform_actions_are_noted_with_a_remedy() -> None:
    odd = {"looks_uniform": False, "uniform_p_value": 0.00031}
    assert notes(**odd) == (
        "actions do not look uniformly explored (p = 0.0003); give a propensity column if the log "
        "was not explored uniformly.",
    )
    assert notes(**odd, is_weighted=True) == (
        "actions do not look uniformly explored (p = 0.0003); the propensities do not fit the log; "
        "check them.",
    )


def test_a_note_on_cells_without_plays_names_the_first_one() -> None:
    cells = (("home", "tea"), ("search", "milk"))
    never = (
        "some actions were never played in some contexts, for instance 'tea' in 'home'; they have "
        "no estimate there.",
    )
    assert notes(never_played=cells[:1]) == notes(never_played=cells) == never
    assert notes(unsupported=cells) == (
        "where some actions have no support, the ranking of the others is right, but their means "
        "are too large by the ratio of all actions to those that could be played.",
    )


def test_rare_contexts_are_noted_with_examples() -> None:
    rare = {"n_rare_contexts": 1200, "rare_share": 0.034, "rarest_contexts": ("a", "b")}
    assert notes(**rare) == (
        "contexts too rare for a sound decision: 1,200 (3.4% of the events), for instance 'a', "
        "'b'.",
    )


def test_notes_on_a_log_have_a_fixed_order() -> None:
    every = notes(
        interaction_ratio=30.0,
        looks_uniform=False,
        never_played=(("home", "tea"),),
        unsupported=(("home", "tea"),),
        n_rare_contexts=1,
        rarest_contexts=("a",),
    )
    assert [note.split()[0] for note in every] == ["the", "actions", "some", "where", "contexts"]


def test_dropped_rows_are_counted_by_reason() -> None:
    read = Provenance("log.csv", 9_000, Columns())
    assert notes_on_bad_rows(read) == ()
    bad = replace(read, bad_rows={"reward is missing": 1200, "user is missing": 3})
    assert notes_on_bad_rows(bad) == (
        "rows left out: 1,203 (1,200: reward is missing; 3: user is missing).",
    )


def test_weighting_capping_forgetting_and_merging_are_noted() -> None:
    codes = np.zeros(1, np.int64)
    log = PreparedLog(
        tallies=tally(codes, codes, codes, np.ones(1), n_users=1, n_contexts=1, n_actions=1),
        provenance=Provenance("log.csv", 9_000, Columns()),
        n_clipped=111,
        n_users_capped=2000,
        n_events_capped=3000,
        n_events_forgotten=4000,
        n_logs=3,
    )
    options = LearnOptions(
        method="paper", min_propensity=0.05, max_interactions_per_user=1000, half_life="1.5h"
    )
    assert notes_on_log(log, options) == (
        "events are weighted by 1/propensity; 1.23% of the propensities are below 0.05 and count "
        "as that.",
        "2,000 users had more than 1,000 interactions; a sample of as many was kept of each, and "
        "3,000 events left out.",
        "with a half-life of 1.5h 4,000 events were forgotten; older ones count less often.",
    )
    weighted, added = notes_on_log(log, LearnOptions(tallies="tallies"))
    assert "does not weight events" in weighted
    assert added == "learned from 3 logs in tallies."


def test_notes_on_a_policy_are_whole_sentences() -> None:
    """At most three examples are given; a lead equal to the sampling error is not close."""
    means = np.array([[0.0, 0.25, 0.125], [0.5, np.nan, np.nan], [0.1, 0.1, 0.0]])
    errors = np.full((3, 3), 0.125)
    policy = replace(make_policy(), mean_rewards=means, sampling_errors=errors)
    lie = {
        "direction": "down",
        "accounts": 1234.5,
        "contexts": 4,
        "actions": ["tea", "milk"],
        "by_context": {"a": "tea", "b": "milk", "c": 7, "d": "tea"},
    }
    source = {
        "evidence": {"lies": [lie], "bounded": 0.0011, "cut": 0.5},
        "changed": dict.fromkeys("wxyz", "tea"),
    }
    assert notes_on_policy(policy, source) == (
        "a group of about 1,234 accounts lowers one action in each of 4 contexts, such as 'tea' in "
        "a, 'milk' in b, 7 in c; it no longer counts.",
        "decisions that differ from plain means: 4 of 3, for instance 'w', 'x', 'y'.",
        "decisions whose lead over the runner-up is within sampling error: 1 of 3, for instance in "
        "'cart'.",
        "0.1% of the plays do not count: repeated plays of an account in a cell count less, and "
        "no account counts more than three times the average one.",
        "50.0% of the rewards lie beyond the tail of most users' rewards and were clipped to it.",
    )


def test_small_shares_are_not_noted() -> None:
    policy = replace(make_policy(), sampling_errors=None)
    assert notes_on_policy(policy, {"evidence": {}, "changed": {}}) == ()
    least = {"evidence": {"bounded": 0.001, "cut": 0.001}, "changed": {}}
    assert notes_on_policy(policy, least) == ()
