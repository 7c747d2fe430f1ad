"""Contexts learned from attributes on a cluster, and in a folder of tallies that grows by days."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.learners.features.logs import FEATURES, linear_log, shop_log
from tests.learners.same_bits import assert_same_bits
from tests.refusals import refusal
from unswayed import learn_log, learn_on_cluster


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["tree", "advice"])
def test_a_cluster_learns_the_same_leaves_bit_for_bit(
    client: Any, kind: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """From several files, each with events of every user."""
    log = shop_log(rng, is_pushed=True) if kind == "tree" else linear_log(rng)
    log = log.take(pa.array(rng.permutation(len(log))))
    source = tmp_path / "log"
    source.mkdir()
    half = len(log) // 2
    for name, rows in (("a", log.slice(0, half)), ("b", log.slice(half))):
        pq.write_table(rows, source / f"{name}.parquet", row_group_size=5_000)
    options: dict[str, Any] = {"alpha": 0.12, "features": FEATURES}
    here = learn_log(str(source), **options)
    there = learn_on_cluster(str(source), client=client, with_users=True, **options)
    assert here.policy.partition is not None
    assert there.policy.partition is not None
    assert (here.policy.partition.advice is not None) == (kind == "advice")
    assert len(here.policy.context_labels) > 2
    assert there.policy.partition.hash == here.policy.partition.hash
    assert_same_bits(here, there)
    assert here.notes == there.notes


def test_a_folder_keeps_the_leaves_of_its_first_log_and_refuses_others(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """Rows with values unknown to all leaves are dropped, and counted in a note."""
    monday, tuesday = shop_log(rng), shop_log(rng)
    users = [f"new-{user}" for user in tuesday["user"].to_pylist()]
    country = np.array(tuesday["country"].to_pylist(), dtype=object)
    country[:30] = None
    tuesday = tuesday.set_column(0, "user", pa.array(users))
    tuesday = tuesday.set_column(1, "country", pa.array(country))
    folder = tmp_path / "tallies"
    options: dict[str, Any] = {"features": FEATURES, "alpha": 0.1, "tallies": folder}
    first = learn_log(monday, **options).policy
    both = learn_log(tuesday, **options)
    assert first.partition is not None
    assert both.policy.partition is not None
    assert both.policy.partition.hash == first.partition.hash
    assert both.policy.counts.sum() == len(monday) + len(tuesday) - 30
    assert any("30: an attribute has a value that no leaf knows" in note for note in both.notes)
    again = learn_log(None, alpha=0.1, tallies=folder).policy
    decision = again.decide({"country": "SE", "age": 30.0, "hour": 3})
    assert (decision.action, decision.leaf in again.context_labels) == ("tea", True)
    message = refusal(learn_log, tuesday, features=["country", "age"], alpha=0.1, tallies=folder)
    assert "were made with `features` country,age,hour; use the same, or a new folder" in message
    assert "country,age,hour" in refusal(learn_log, tuesday, context="country", tallies=folder)
    other = learn_log(tuesday, features=FEATURES, alpha=0.1).policy.partition
    message = refusal(learn_log, tuesday, partition=other, alpha=0.1, tallies=folder)
    assert "were made with another partition of the features" in message
    labels = tmp_path / "labels"
    learn_log(monday, context="country", tallies=labels)
    message = refusal(learn_log, tuesday, features=FEATURES, tallies=labels)
    assert "were made with context columns" in message
    message = refusal(learn_log, monday, features=FEATURES, honest=True, tallies=folder)
    assert "record which users shaped" in message


def test_an_attribute_must_be_of_one_kind_in_all_files(
    client: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    log = shop_log(rng)
    words = log.set_column(3, "hour", pa.array(["late"] * len(log)))
    pq.write_table(log, tmp_path / "a.parquet")
    pq.write_table(words, tmp_path / "b.parquet")
    source = str(tmp_path / "*.parquet")
    message = refusal(learn_on_cluster, source, client=client, features=FEATURES)
    assert "'hour' contains numbers, and the policy was learned from text" in message
