"""Large rewards are accepted up to a limit; beyond it they are refused with their row."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unswayed import Events, InputError, RobustMCB
from unswayed.events import read_events
from unswayed.events.events import LARGEST_REWARD


def columns(rng: np.random.Generator, n: int = 2_000) -> list[np.ndarray]:
    users, contexts, actions = rng.integers([100, 2, 2], size=(n, 3)).T
    rewards = (rng.random(n) < np.where(actions == contexts, 0.8, 0.2)).astype(float)
    return [users, contexts, actions, rewards]


@pytest.mark.parametrize("reward", [1e31, -1e200, 1e300, np.finfo(float).max])
def test_a_reward_beyond_the_limit_is_refused_with_its_row(
    reward: float, rng: np.random.Generator, tmp_path: Path
) -> None:
    rows = columns(rng)
    rows[3][7] = reward
    with pytest.raises(InputError, match=r"row 7: reward .* beyond ±1e\+30"):
        Events.of(*rows)
    table = pa.table(dict(zip(("user", "context", "action", "reward"), rows, strict=True)))
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"beyond ±1e\+30\); the first is row 8"):
        read_events(tmp_path / "log.parquet")
    reading = read_events(tmp_path / "log.parquet", on_bad_rows="drop")
    assert reading.provenance.bad_rows == {"reward is beyond ±1e+30": 1}


@pytest.mark.parametrize("method", ["paper", "bounded"])
@pytest.mark.parametrize("size", [1e-30, 1e9, LARGEST_REWARD])
def test_rewards_up_to_the_limit_are_learned_from(
    method: str, size: float, rng: np.random.Generator
) -> None:
    users, contexts, actions, rewards = columns(rng)
    log = Events.of(users, contexts, actions, rewards * size)
    policy = RobustMCB(0.1, method=method).fit(log).policy_
    assert [policy.decide(s).action for s in (0, 1)] == [0, 1]
    assert np.isfinite(policy.mean_rewards).all()


@pytest.mark.parametrize("method", ["paper", "bounded"])
def test_one_account_at_the_limit_changes_no_decision(
    method: str, rng: np.random.Generator
) -> None:
    users, contexts, actions, rewards = columns(rng)
    rewards[users == 0] = LARGEST_REWARD
    policy = RobustMCB(0.1, method=method).fit(Events.of(users, contexts, actions, rewards)).policy_
    assert [policy.decide(s).action for s in (0, 1)] == [0, 1]
    assert np.isfinite(policy.mean_rewards).all()
