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
    """The same decisions and the same policy to the last bit."""
    path = tmp_path / "learner.zip"
    learner = shop(**options)
    play(learner, rng, 600)
    learner.add_action("soup")
    play(learner, rng, 300)
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
    assert learned(loaded) == learned(learner)


def test_damaged_learners_are_refused_in_one_sentence(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    path, broken = tmp_path / "learner.zip", tmp_path / "broken.zip"
    learner = shop()
    play(learner, rng, 50)
    learner.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for change in ({"secret": "xyz"}, {"parameters": {"colour": "red"}}, {"contexts": ["home"]}):
        text = json.dumps({**json.loads(parts["learner.json"]), **change})
        with zipfile.ZipFile(broken, "w") as archive:
            for name, content in (parts | {"learner.json": text.encode()}).items():
                archive.writestr(name, content)
        with pytest.raises(InputError):
            RobustMCB.load(broken)
    for name in parts:
        with zipfile.ZipFile(broken, "w") as archive:
            for other, content in parts.items():
                archive.writestr(other, content[: len(content) // 2] if other == name else content)
        with pytest.raises(InputError):
            RobustMCB.load(broken)
