"""Learning from logs in which mean rewards change, day by day or all at once."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from unswayed.learners.from_log import NO_WINDOW, LearnedLog, learn_log

DAYS, USERS = 20, 200
BEGIN = datetime(2024, 3, 1, tzinfo=UTC)


def days(rng: np.random.Generator, *, n: int = 20_000) -> list[pa.Table]:
    """Return one log per day; after 14 days soup and cola swap their means for good."""
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
    assert decided(learn_log(log)) == "soup"  # negative control: 14 old days outweigh 6 new ones
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
