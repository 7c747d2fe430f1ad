"""`learn --features` and `predict --file` with the policy that it wrote."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import unswayed
from tests.learners.features.logs import shop_log, visits

START = "from unswayed.cli import start; start()"


def test_a_file_of_visits_gets_the_actions_of_its_leaves(
    rng: np.random.Generator, tmp_path: Path, capsys: Any
) -> None:
    log, policy, asked, out = (
        tmp_path / name for name in ("l.parquet", "p.json", "a.parquet", "o.parquet")
    )
    pq.write_table(shop_log(rng, is_pushed=True), log)
    unswayed("learn", log, "--features", "country,age,hour", "--alpha", 0.12, "--out", policy)
    assert "contexts were learned from country, age, hour" in " ".join(
        capsys.readouterr().out.split()
    )
    table, best = visits(rng, 500)
    pq.write_table(table, asked)
    unswayed("predict", policy, "--file", asked, "--out", out)
    assert np.mean(np.array(pq.read_table(out)["action"].to_pylist()) == best) > 0.85


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--features", "country,agee"), "no column 'agee'"),
        (("--features", "age", "--context-column", "country,hour"), "--context-column"),
        (("--features", "age", "--advice", "oracle"), "no column 'oracle'"),
        (("--features", "age", "--trusted", "hour"), "--trusted names 'hour'"),
        (("--honest",), "--honest needs --features"),
        (("--features", "age", "--max-leaves", "0"), "--max-leaves is 0"),
    ],
)
def test_bad_features_end_with_one_sentence_and_code_2(
    options: tuple[str, ...], said: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    log = tmp_path / "log.parquet"
    pq.write_table(shop_log(rng), log)
    command = [sys.executable, "-c", START, "learn", str(log), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
