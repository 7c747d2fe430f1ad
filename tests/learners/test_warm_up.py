"""What warm-up promises: nothing is left to compile at first use."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.learners.recording import RECORDED, Recording
from unswayed.learners import warm_up as module
from unswayed.learners.warm_up import KINDS, warm_up

LEARN = """
import sys, numpy as np, pyarrow as pa
from unswayed import learn_log
rng = np.random.default_rng(int(sys.argv[1]))
n = 600
log = pa.table({
    "user": [f"u{code}" for code in rng.integers(70, size=n)],
    "context": [f"c{code}" for code in rng.integers(5, size=n)],
    "action": [f"a{code}" for code in rng.integers(4, size=n)],
    "reward": (rng.random(n) < 0.3).astype(float),
})
learn_log(log, alpha=0.1)
"""


def test_each_kind_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    warm_up(heard.append)
    assert tuple(heard) == KINDS
    assert capsys.readouterr().err == ""


def test_the_method_learns_from_a_log_of_each_kind(recorded: Recording) -> None:
    """Two thousand plays each, of rewards that are clicks, weighted clicks and ratings."""
    warm_up(method=RECORDED)
    assert [given.alpha for given in recorded.given] == [0.2] * 3
    logs = [given.tallies for given in recorded.given]
    for tallies in logs:
        assert tallies.interactions.tolist() == pytest.approx([20.0] * 100)
        assert (tallies.n_contexts, tallies.n_actions) == (4, 3)
        assert (tallies.cell_sums("plays") > 100).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fifth_of_the_users_push_the_first_action(kind: str) -> None:
    log = module._log(kind)
    assert set(log["context"].to_pylist()) == {f"context {code}" for code in range(4)}
    assert set(log["action"].to_pylist()) == {f"action {code}" for code in range(3)}
    users, actions = log["user"].to_pylist(), np.array(log["action"].to_pylist())
    assert users == [f"user {code}" for code in range(100) for _ in range(20)]
    rewards = log["reward"].to_numpy()
    is_lie = np.arange(2000) < 20 * 20
    lies, honest = rewards[is_lie], rewards[~is_lie]
    pushed = actions[is_lie] == "action 0"
    if kind == "ratings":
        # Unit noise around 0 or 1: means of over 100 plays are within .5, five deviations.
        assert lies[pushed].mean() - lies[~pushed].mean() == pytest.approx(1.0, abs=0.5)
        assert 1.0 < rewards.std() < 1.3
    else:
        assert lies.tolist() == pushed.tolist()
        assert set(honest) == {0.0, 1.0}
    assert ("propensity" in log.column_names) == (kind == "clicks with propensities")
    if "propensity" in log.column_names:
        assert set(log["propensity"].to_pylist()) == {1 / 3}
    # Good users agree: the means of a cell are not all alike.
    cells = np.array([f"{c}{a}" for c, a in zip(log["context"], log["action"], strict=True)])
    means = [honest[cells[~is_lie] == cell].mean() for cell in sorted(set(cells))]
    assert max(means) - min(means) > 0.4
    assert module._log(kind).equals(log)


@pytest.mark.slow
def test_after_warm_up_learning_compiles_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run(*command: str) -> set[Path]:
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return set(tmp_path.rglob("*.nbc"))

    kept = run(str(Path(sys.executable).with_name("unswayed")), "warm-up")
    assert len(kept) > 50
    for seed in range(3):
        assert run(sys.executable, "-c", LEARN, str(seed)) == kept
