"""After the warm-up nothing is left to compile at first use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.learners.recording import RECORDED, Recording
from unswayed.learners.warm_up import KINDS, warm_up

LEARN = """
import sys, numpy as np, pyarrow as pa, pyarrow.csv
from unswayed import learn_log
rng, kind = np.random.default_rng(int(sys.argv[1])), sys.argv[2]
n, n_users = {"few": (600, 70), "text": (100_000, 20_000), "integers": (100_000, 20_000)}[kind]
users = rng.zipf(1.5, size=n) % n_users
log = pa.table({
    "user": users if kind == "integers" else [f"user-{code}@example.org" for code in users],
    "context": [f"c{code}" for code in rng.integers(5, size=n)],
    "action": [f"a{code}" for code in rng.integers(4, size=n)],
    "reward": (rng.random(n) < 0.3).astype(float),
})
learn_log(log, alpha=0.1)
pyarrow.csv.write_csv(log, sys.argv[3])
learn_log(sys.argv[3], alpha=0.1)
"""


def test_each_kind_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    warm_up(heard.append)
    assert tuple(heard) == KINDS
    assert capsys.readouterr().err == ""


def test_warm_up_learns_from_a_log_of_each_kind(recorded: Recording) -> None:
    """Each log has two thousand plays; rewards are clicks, weighted clicks, and ratings."""
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
    assert len(kept) > 20
    for seed, kind in enumerate(("few", "text", "integers")):
        log = str(tmp_path / f"{kind}.csv")
        assert run(sys.executable, "-c", LEARN, str(seed), kind, log) == kept, kind
