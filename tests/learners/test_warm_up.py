"""What warm-up promises: nothing is left to compile at first use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.learners.recording import RECORDED, Recording
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
