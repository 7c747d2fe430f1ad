"""An online learner in a file: it goes on as if it had never stopped."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unswayed import InputError, RobustMCB

SECRET = bytes(range(16))
CONTEXTS = ["home", "search", "cart"]


def shop(**options: Any) -> RobustMCB:
    options = {"actions": ["tea", "milk"], "contexts": CONTEXTS[:2], "secret": SECRET} | options
    return RobustMCB(0.1, **options)


def play(learner: RobustMCB, rng: np.random.Generator, n_plays: int) -> list[Any]:
    """Let users play, some of them new, and return the actions."""
    users = [f"u{user}" for user in rng.integers(80, size=n_plays)]
    contexts = rng.choice(CONTEXTS, size=n_plays).tolist()
    actions = learner.decide_many(users, contexts)
    rewards = [float(rng.random() < (0.7 if action == "milk" else 0.3)) for action in actions]
    learner.observe_many(users, contexts, actions, rewards)
    return actions


def learned(learner: RobustMCB) -> dict[str, Any]:
    result = learner.policy().to_json()
    result.pop("created")
    return result


@pytest.mark.parametrize(
    "options",
    [{}, {"warmup_interactions": 200}, {"warmup_interactions": 5000}],
    ids=["no warm-up", "after the warm-up", "during the warm-up"],
)
def test_a_loaded_learner_goes_on_where_the_saved_one_stopped(
    options: dict[str, Any], tmp_path: Path, rng: np.random.Generator
) -> None:
    """The same decisions, the same policy to the last bit, and the same open decisions."""
    path = tmp_path / "learner.zip"
    learner = shop(**options)
    play(learner, rng, 600)
    learner.add_action("soup")
    play(learner, rng, 300)
    waiting = learner.decide_once("ann", "home")
    learner.policy()
    learner.save(path)
    loaded = RobustMCB.load(path)
    assert repr(loaded) == repr(learner)
    assert loaded.get_params() == learner.get_params()
    assert loaded.predict(CONTEXTS) == learner.predict(CONTEXTS)
    with pytest.raises(InputError, match="call policy\\(\\) to learn again"):
        _ = loaded.user_weights_
    seeds = [np.random.default_rng(7) for _ in range(2)]
    assert play(loaded, seeds[0], 300) == play(learner, seeds[1], 300)
    for each in (loaded, learner):
        each.observe_once(waiting.id, 1.0)
    assert learned(loaded) == learned(learner)


def test_a_learner_that_met_nobody_is_saved_too(tmp_path: Path) -> None:
    shop().save(tmp_path / "learner.zip")
    loaded = RobustMCB.load(tmp_path / "learner.zip")
    assert loaded.decide("ann", "home") == shop().decide("ann", "home")


def test_a_file_of_a_learner_holds_no_pickle_and_is_the_owners(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """It holds the secret, so others may not read it."""
    path = tmp_path / "learner.zip"
    learner = shop()
    play(learner, rng, 50)
    learner.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        state = json.loads(archive.read("learner.json"))
    assert all(name.endswith((".json", ".parquet")) for name in names)
    assert (state["format"], state["version"]) == ("unswayed-learner", 1)


def test_damaged_learners_are_refused_in_one_sentence(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    path, broken = tmp_path / "learner.zip", tmp_path / "broken.zip"
    learner = shop()
    play(learner, rng, 50)
    learner.decide_once("ann", "home")
    learner.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    state = json.loads(parts["learner.json"])
    wrong: list[dict[str, Any]] = [
        {"format": "something"},
        {"version": 99},
        {"secret": "xyz"},
        {"epoch": None},
        {"parameters": {"adversarial_fraction": 0.9}},
        {"parameters": {"colour": "red"}},
        {"contexts": ["home"]},
        {"open_decisions": {"a": [0, 0, 99]}},
        {"exploration": {**state["exploration"], "sticky": [True]}},
        {"exploration": {}},
        {"pieces": {}},
    ]
    for change in wrong:
        with zipfile.ZipFile(broken, "w") as archive:
            for name, content in parts.items():
                text = json.dumps({**state, **change}).encode()
                archive.writestr(name, text if name == "learner.json" else content)
        with pytest.raises(InputError):
            RobustMCB.load(broken)
    for name in parts:
        with zipfile.ZipFile(broken, "w") as archive:
            for other, content in parts.items():
                archive.writestr(other, content[: len(content) // 2] if other == name else content)
        with pytest.raises(InputError):
            RobustMCB.load(broken)
    broken.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="holds no learner"):
        RobustMCB.load(broken)
    with pytest.raises(InputError, match="cannot read the learner"):
        RobustMCB.load(tmp_path / "nowhere.zip")
