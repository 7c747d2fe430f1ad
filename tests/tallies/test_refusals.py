"""Errors of tallying, merging, storing and learning consist of one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.refusals import refusal
from tests.tallies.summaries import SOUND
from unswayed.events import Events
from unswayed.tallies import merged, merged_logs, tally_events
from unswayed.tallies.log_summary import check_learnable
from unswayed.tallies.store import add_log, load_tallies

LOG = Events.of(["ann", "bob"], ["home", "cart"], ["tea", "milk"], [1.0, 0.5])
WEIGHTED = Events.of(["ann"], ["home"], ["tea"], [1.0], propensities=[0.5])
RARE = Events.of(["ann"] * 2, ["home"] * 2, ["tea"] * 2, [1.0] * 2, propensities=[1e-308] * 2)
DAY = tally_events(LOG)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: tally_events(LOG, min_propensity=0.0),
            "`min_propensity` is 0.0: it must be above 0 and at most 1.",
        ),
        (
            lambda: tally_events(LOG, min_propensity=1.5),
            "`min_propensity` is 1.5: it must be above 0 and at most 1.",
        ),
        (
            lambda: tally_events(RARE, min_propensity=1e-308),
            "the weighted sums of rewards overflow: raise `min_propensity` or rescale the rewards.",
        ),
        (lambda: merged_logs([]), "there are no tallies to add up."),
        (
            lambda: merged_logs([DAY, tally_events(WEIGHTED)]),
            "a log with propensities and one without cannot be added up; read both the same way.",
        ),
        (
            lambda: merged_logs([DAY, tally_events(Events.of(["ann"], [7], ["tea"], [1.0]))]),
            "contexts are of different types (integer, string) in logs that should be added up; "
            "write them all as strings.",
        ),
        (
            lambda: merged_logs([DAY, tally_events(Events.of(["ann"], ["home"], [7], [1.0]))]),
            "actions are of different types (integer, string) in logs that should be added up; "
            "write them all as strings.",
        ),
        (
            lambda: merged_logs([DAY, tally_events(Events.of([7], ["home"], ["tea"], [1.0]))]),
            "users are of different types (integer, string); write them all as strings.",
        ),
        (
            lambda: merged(DAY, replace(DAY, n_actions=3)),
            "tallies of different users, contexts or actions cannot be merged; give both logs the "
            "same labels.",
        ),
    ],
)
def test_invalid_events_are_refused_in_one_sentence(call: Callable[[], Any], sentence: str) -> None:
    assert refusal(call) == sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"n_users": 1},
            "the log has one user; robustness compares users, so it needs many. Check the user "
            "column.",
        ),
        (
            {"n_actions": 1},
            "the log has one action, so there is nothing to decide. Check the action column.",
        ),
        (
            {"lowest_reward_mean": 0.25, "highest_reward_mean": 0.25 + 1e-14},
            "rewards are 0.25 everywhere, so no action can be distinguished from another. Check "
            "the reward column.",
        ),
        (
            {"rare_share": 0.51},
            "51% of the events lie in contexts where fewer than two actions were met by more than "
            "7 users, which alpha = 0.2 needs; the log has 1,000 users, 2,000 contexts and 3 "
            "actions. Use coarser contexts (`bins=…`), a smaller alpha, or a longer log.",
        ),
        (
            {"unsupported": (("home", "tea"), ("cart", "milk"))},
            "action 'tea' was never played in context 'home', which chance does not explain: the "
            "actions were not explored uniformly there. Leave the action or the context out, log "
            "with exploration, or learn about the other actions only with `allow_unplayed`.",
        ),
        (
            {"unsupported": (("home", "tea"),), "is_weighted": True},
            "action 'tea' was never played in context 'home', so no weight can make up for it: "
            "the logging policy gave it no support there. Leave the action or the context out, "
            "log with exploration, or learn about the other actions only with `allow_unplayed`.",
        ),
    ],
)
def test_a_log_without_enough_data_is_refused_with_a_remedy(
    changes: dict[str, Any], sentence: str
) -> None:
    assert refusal(check_learnable, replace(SOUND, **changes), alpha=0.2) == sentence


def test_a_log_at_the_limits_is_accepted() -> None:
    check_learnable(replace(SOUND, n_users=2, n_actions=2), alpha=0.2)
    check_learnable(replace(SOUND, unsupported=(("home", "tea"),)), alpha=0.2, allow_unplayed=True)
    check_learnable(
        replace(SOUND, lowest_reward_mean=0.25, highest_reward_mean=0.25 + 1e-9), alpha=0.2
    )


def test_an_index_has_the_documented_fields(tmp_path: Path) -> None:
    """Later versions must read the index, so names and layout are part of the format."""
    digest = add_log(tmp_path, None, DAY, {"source": "täglich.csv"}).logs[0]["digest"]
    assert json.loads((tmp_path / "tallies.json").read_text(encoding="utf-8")) == {
        "format": "unswayed-tallies",
        "version": 3,
        "piece": f"000001-{digest[:8]}",
        "contexts": ["home", "cart"],
        "actions": ["tea", "milk"],
        "events": 2,
        "logs": [{"source": "täglich.csv", "digest": digest}],
    }


def test_a_log_that_was_added_before_is_refused_by_name(tmp_path: Path) -> None:
    stored = add_log(tmp_path, None, DAY, {})
    assert refusal(add_log, tmp_path, stored, DAY, {"source": "tue.csv"}) == (
        "the log tue.csv was added to these tallies before, and would count twice; to learn from "
        "what is there, leave it out and give `tallies` alone, or start in a new folder."
    )


def test_a_folder_that_another_run_changed_is_not_overwritten(tmp_path: Path) -> None:
    add_log(tmp_path, None, DAY, {})
    before = (tmp_path / "tallies.json").read_bytes()
    assert refusal(add_log, tmp_path, None, tally_events(WEIGHTED), {}) == (
        f"another run changed the tallies in {tmp_path} meanwhile, and nothing was written; run "
        "this again."
    )
    assert (tmp_path / "tallies.json").read_bytes() == before


def test_tallies_of_another_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tallies.json").write_text('{"format": "others", "version": 3}')
    assert refusal(load_tallies, tmp_path) == (
        f"{tmp_path} holds others of version 3, and this program reads unswayed-tallies of "
        "version 3; make the tallies again: learn from the logs of all days, one after the other, "
        "with `tallies` and a new folder."
    )


def rewritten(folder: Path, kind: str, **columns: Any) -> None:
    """Rewrite columns of the entries or the users of a folder."""
    (path,) = folder.glob(f"{kind}-*.parquet")
    table = pq.read_table(path).to_pydict()
    pq.write_table(pa.table({**table, **columns}), path)


@pytest.mark.parametrize(
    ("kind", "columns", "reason"),
    [
        ("entries", {"cells": [0, 3]}, "cells or entries are not of the expected type"),
        (
            "users",
            {"entries": np.array([1.0, 1.0])},
            "cells or entries are not of the expected type",
        ),
        (
            "entries",
            {"cells": np.array([0, 4], np.int32)},
            "an entry belongs to no context and action",
        ),
        (
            "entries",
            {"cells": np.array([-1, 3], np.int32)},
            "an entry belongs to no context and action",
        ),
        ("users", {"entries": [1, 2]}, "the users' numbers of entries do not add up"),
        ("users", {"entries": [3, -1]}, "the users' numbers of entries do not add up"),
        (
            "entries",
            {"sums": [np.nan, 1.0], "cells": np.array([0, 3], np.int32)},
            "column sums contains values that are not finite numbers",
        ),
        (
            "entries",
            {"counts": [1, 1], "cells": np.array([0, 3], np.int32)},
            "column counts contains values that are not finite numbers",
        ),
    ],
)
def test_pieces_with_invalid_indices_are_refused(
    kind: str, columns: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """Compiled loops do not check them."""
    add_log(tmp_path, None, DAY, {})
    cells = {"cells": np.array([0, 3], np.int32)} if kind == "entries" else {}
    rewritten(tmp_path, kind, **{**cells, **columns})
    assert refusal(load_tallies, tmp_path) == (
        f"the tallies in {tmp_path} are damaged ({reason}); make them again."
    )


def test_entries_of_a_user_that_are_not_in_order_are_refused(tmp_path: Path) -> None:
    one_user = Events.of(["ann"] * 2, ["home", "cart"], ["tea", "milk"], [1.0, 0.5])
    add_log(tmp_path, None, tally_events(one_user), {})
    rewritten(tmp_path, "entries", cells=np.array([3, 0], np.int32))
    assert refusal(load_tallies, tmp_path) == (
        f"the tallies in {tmp_path} are damaged (the entries of a user are not in order); make "
        "them again."
    )
