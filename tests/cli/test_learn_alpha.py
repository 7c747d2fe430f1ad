"""`unswayed learn --alpha auto`."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.shop import BEST, café_log, unswayed
from unswayed.errors import InputError
from unswayed.policy import Policy


def test_an_unknown_share_is_estimated_and_written_down(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.parquet", tmp_path / "policy.json"
    pq.write_table(café_log(rng, alpha=0.2), log)
    unswayed("learn", log, "--alpha", "auto", "--out", out)
    policy = Policy.load(out)
    assert {context: policy.decide(context).action for context in BEST} == BEST
    assert policy.alpha >= 0.2
    told = policy.source["adversarial_fraction"]
    assert told["chosen"] == policy.alpha
    assert told["statement"] in policy.source["notes"]
    assert "was chosen from the data" in " ".join(capsys.readouterr().out.split())


def test_a_share_that_is_not_a_number_is_rejected(rng: np.random.Generator, tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    pq.write_table(café_log(rng), log)
    with pytest.raises(InputError, match="give a number below"):
        unswayed("learn", log, "--out", tmp_path / "policy.json", "--alpha", "some")
