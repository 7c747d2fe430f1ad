"""Learning from a log whose world changes, day by day or at once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.learners.same_bits import assert_same_bits
from unswayed.errors import InputError
from unswayed.learners.explaining import NO_WINDOW
from unswayed.learners.from_log import LearnedLog, learn_log

DAYS, USERS = 20, 200
BEGIN = datetime(2024, 3, 1, tzinfo=UTC)


def days(rng: np.random.Generator, *, n: int = 20_000) -> list[pa.Table]:
    """Return a log for each day; after 14 days soup and cola change places for good."""
    when = np.sort(rng.uniform(0.0, DAYS, size=n))
    users, actions = rng.integers(USERS, size=n), rng.integers(2, size=n)
    best = (when >= 14.0).astype(int)
    rewards = rng.standard_normal(n) * 0.5 + (actions == best)
    table = pa.table(
        {
            "user": [f"u{code}" for code in users],
            "context": ["lunch"] * n,
            "action": np.array(["soup", "cola"])[actions],
            "reward": rewards,
            "time": [BEGIN + timedelta(days=day) for day in when],
        }
    )
    return [table.filter(pa.array(when.astype(int) == day)) for day in range(DAYS)]


def decided(learned: LearnedLog) -> object:
    return learned.policy.decide("lunch").action


def test_a_policy_follows_a_world_that_changed(rng: np.random.Generator) -> None:
    log = pa.concat_tables(days(rng))
    assert decided(learn_log(log)) == "soup"  # negative control: 14 days against 6
    learned = learn_log(log, half_life="2d")
    assert decided(learned) == "cola"
    assert "with a half-life of 2d" in learned.notes[0]
    assert "2 of 2 mean rewards changed (error rate 1%" in learned.notes[-1]
    found = learned.policy.source["changes"]["changes"]
    assert {change["action"] for change in found} == {"soup", "cola"}


def test_a_world_that_does_not_change_is_not_reported_as_changed(rng: np.random.Generator) -> None:
    log = pa.concat_tables(days(rng)[:14])
    learned = learn_log(log, half_life="2d")
    assert decided(learned) == "soup"
    assert "none of 2 mean rewards changed" in learned.notes[-1]
    assert learned.policy.source["changes"]["changes"] == []
    assert NO_WINDOW in learn_log(log, half_life="30d").notes


def test_days_in_any_order_give_the_same_policy_as_all_at_once(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    parts = days(rng, n=6_000)[:3]
    at_once = learn_log(pa.concat_tables(parts), half_life="1d", method="paper")
    for name, order in (("forwards", range(3)), ("backwards", reversed(range(3)))):
        for day in order:
            learned = learn_log(parts[day], half_life="1d", method="paper", tallies=tmp_path / name)
        assert_same_bits(learned, at_once)
    # The half-life may change, and learning without one uses all events.
    alone = learn_log(None, half_life="3d", method="paper", tallies=tmp_path / "forwards")
    assert_same_bits(alone, learn_log(pa.concat_tables(parts), half_life="3d", method="paper"))
    every = learn_log(None, method="paper", tallies=tmp_path / "forwards")
    assert_same_bits(every, learn_log(pa.concat_tables(parts), method="paper"))
    # A log that is added without a half-life keeps its times all the same.
    learn_log(days(rng, n=6_000)[7], tallies=tmp_path / "forwards")
    assert decided(learn_log(None, half_life="1d", tallies=tmp_path / "forwards")) == "soup"


def test_a_folder_without_times_gets_a_sentence_and_is_left_alone(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    first, second = days(rng, n=6_000)[:2]
    learn_log(first, tallies=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for source in (second, None):
        with pytest.raises(InputError, match="begun without `half_life` and hold no times"):
            learn_log(source, half_life="7d", tallies=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_cap_and_a_half_life_can_be_combined(rng: np.random.Generator) -> None:
    learned = learn_log(pa.concat_tables(days(rng)), half_life="2d", max_interactions_per_user=10)
    assert decided(learned) == "cola"
    assert learned.interactions.max() == 10
