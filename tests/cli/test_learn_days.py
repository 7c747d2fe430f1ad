"""Folders of tallies written by an earlier version."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.shop import unswayed
from unswayed.errors import InputError
from unswayed.policy import Policy


def test_a_folder_of_the_previous_version_is_read_unless_it_contains_events(
    log: Path, tmp_path: Path
) -> None:
    """Version 2 listed its files by name, and recorded whether they contained events or sums."""
    folder, policy = tmp_path / "t", tmp_path / "p.json"
    unswayed("learn", log, "--tallies", folder, "--out", policy)
    learned, index = Policy.load(policy), json.loads((folder / "tallies.json").read_text())
    former = index | {"version": 2, "keeps_events": False, "pieces": [index.pop("piece")]}
    (folder / "tallies.json").write_text(json.dumps(former | {"bins": {}}))
    unswayed("learn", "--tallies", folder, "--out", policy)
    np.testing.assert_array_equal(Policy.load(policy).mean_rewards, learned.mean_rewards)
    with pytest.raises(InputError, match="count twice"):
        unswayed("learn", log, "--tallies", folder, "--out", policy)
    (folder / "tallies.json").write_text(json.dumps(former | {"keeps_events": True}))
    with pytest.raises(InputError, match=r"with single events.*learn from the logs of all days"):
        unswayed("learn", "--tallies", folder, "--out", policy)
