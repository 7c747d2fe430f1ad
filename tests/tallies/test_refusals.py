"""What cannot be tallied, added up, stored or learned from is refused in one whole sentence."""

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
from unswayed.events import Events, Labels
from unswayed.tallies import merged, merged_logs, tally_events
from unswayed.tallies.log_summary import check_learnable
from unswayed.tallies.store import (
    Index,
    add_log,
    has_piece,
    load_index,
    load_tallies,
    save_index,
    write_piece,
)

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
        (
            lambda: DAY.with_actions(Labels.of(["milk"])),
            "the log has action 'tea', which is not among `actions`.",
        ),
        (
            lambda: Index().with_log("7f", {}, {}).with_log("7f", {"source": "tue.csv"}, {}),
            "the log tue.csv was added to these tallies before, and would count twice; to learn "
            "from what is there, leave it out and give `tallies` alone, or start in a new folder.",
        ),
        (
            lambda: Index().with_log("7f", {}, {"price": (1.0,)}).with_log("7e", {}, {}),
            "these tallies were made with other bins of a context column; use the same, or a new "
            "folder.",
        ),
    ],
)
def test_what_cannot_be_tallied_is_refused_in_one_sentence(
    call: Callable[[], Any], sentence: str
) -> None:
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
            "actions. Use coarser contexts (`Columns(bins=…)`), a smaller alpha, or a longer log.",
        ),
        (
            {"unsupported": (("home", "tea"), ("cart", "milk"))},
            "action 'tea' was never played in context 'home', which chance does not explain: the "
            "actions were not explored uniformly there. Leave the action or the context out, log "
            "with exploration, or learn of the other actions only with `allow_unplayed`.",
        ),
        (
            {"unsupported": (("home", "tea"),), "is_weighted": True},
            "action 'tea' was never played in context 'home', so no weight can make up for it: "
            "the logging policy gave it no support there. Leave the action or the context out, "
            "log with exploration, or learn of the other actions only with `allow_unplayed`.",
        ),
    ],
)
def test_a_log_from_which_nothing_can_be_learned_says_what_would_help(
    changes: dict[str, Any], sentence: str
) -> None:
    assert refusal(check_learnable, replace(SOUND, **changes), alpha=0.2) == sentence


def test_a_log_at_the_limits_is_learned_from() -> None:
    check_learnable(replace(SOUND, n_users=2, n_actions=2), alpha=0.2)
    check_learnable(replace(SOUND, unsupported=(("home", "tea"),)), alpha=0.2, allow_unplayed=True)
    check_learnable(
        replace(SOUND, lowest_reward_mean=0.25, highest_reward_mean=0.25 + 1e-9), alpha=0.2
    )


def test_an_index_has_the_fields_of_its_format(tmp_path: Path) -> None:
    """A later version must read it: names and layout are a promise."""
    source = {"source": "täglich.csv"}
    _, written = add_log(tmp_path, None, DAY, source, {"price": (1.5, 2.5)})
    digest = written.logs[0]["digest"]
    assert json.loads((tmp_path / "tallies.json").read_text(encoding="utf-8")) == {
        "format": "unswayed-tallies",
        "version": 2,
        "keeps_events": False,
        "pieces": [f"000001-{digest[:8]}-000"],
        "contexts": ["home", "cart"],
        "actions": ["tea", "milk"],
        "events": 2,
        "bins": {"price": [1.5, 2.5]},
        "logs": [{**source, "digest": digest}],
    }
    assert "täglich" in (tmp_path / "tallies.json").read_text(encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {
        "tallies.json",
        f"entries-000001-{digest[:8]}-000.parquet",
        f"users-000001-{digest[:8]}-000.parquet",
    }
    index = load_index(tmp_path)
    assert index == Index(
        keeps_events=False,
        pieces=(f"000001-{digest[:8]}-000",),
        context_labels=DAY.context_labels,
        action_labels=DAY.action_labels,
        n_events=2,
        bins={"price": (1.5, 2.5)},
        logs=({**source, "digest": digest},),
    )
    assert Index().piece_names(2) == ("0-000", "0-001")


def test_pieces_of_users_come_back_together(tmp_path: Path) -> None:
    """As a cluster writes them: each piece has some of the users, and all labels of the index."""
    for kind in (LOG, DAY):
        folder = tmp_path / type(kind).__name__
        index = Index().with_log("7f", {}, {})
        pieces = index.piece_names(2)
        other = replace(
            kind,
            user_labels=Labels.of(sorted(f"{user} II" for user in kind.user_labels)),
        )
        for piece, data in zip(pieces, (kind, other), strict=True):
            assert not has_piece(folder, piece)
            write_piece(folder, piece, data)
            assert has_piece(folder, piece)
        save_index(
            folder,
            replace(
                index,
                keeps_events=isinstance(kind, Events),
                pieces=pieces,
                context_labels=kind.context_labels,
                action_labels=kind.action_labels,
                n_events=4,
            ),
        )
        found, _ = load_tallies(folder) or (None, None)
        assert isinstance(found, type(kind))
        assert sorted(found.user_labels) == ["ann", "ann II", "bob", "bob II"]
        assert found.action_labels == kind.action_labels
        (folder / f"users-{pieces[1]}.parquet").unlink()
        assert not has_piece(folder, pieces[1])


def test_a_folder_that_another_run_changed_is_not_overwritten(tmp_path: Path) -> None:
    add_log(tmp_path, None, DAY, {}, {})
    before = (tmp_path / "tallies.json").read_bytes()
    assert refusal(add_log, tmp_path, None, tally_events(WEIGHTED), {}, {}) == (
        f"another run changed the tallies in {tmp_path} meanwhile, and nothing was written; run "
        "this again."
    )
    assert (tmp_path / "tallies.json").read_bytes() == before


def test_tallies_of_another_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tallies.json").write_text('{"format": "others", "version": 2}')
    assert refusal(load_tallies, tmp_path) == (
        f"{tmp_path} holds others of version 2, and this program reads unswayed-tallies of "
        "version 2; make the tallies again."
    )


def rewritten(folder: Path, kind: str, **columns: Any) -> None:
    """Write other columns to the entries or the users of a folder."""
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
        ("users", {"entries": [1, 2]}, "users and entries do not fit together"),
        ("users", {"entries": [3, -1]}, "users and entries do not fit together"),
        (
            "entries",
            {"sums": [np.nan, 1.0], "cells": np.array([0, 3], np.int32)},
            "column sums holds something else than finite numbers",
        ),
        (
            "entries",
            {"counts": [1, 1], "cells": np.array([0, 3], np.int32)},
            "column counts holds something else than finite numbers",
        ),
    ],
)
def test_pieces_with_invalid_indices_are_refused(
    kind: str, columns: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """Loops follow them blindly."""
    add_log(tmp_path, None, DAY, {}, {})
    cells = {"cells": np.array([0, 3], np.int32)} if kind == "entries" else {}
    rewritten(tmp_path, kind, **{**cells, **columns})
    assert refusal(load_tallies, tmp_path) == (
        f"the tallies in {tmp_path} are damaged ({reason}); make them again."
    )
