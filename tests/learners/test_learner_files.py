"""Saved learners: contents of the file, learning on after loading, and errors."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.learners.recording import RECORDED
from tests.refusals import refusal
from unswayed import InputError, Policy, RobustMCB

pytestmark = pytest.mark.usefixtures("recorded")

SECRET = bytes(range(16))
CONTEXTS = ["home", "search", "cart"]


def shop(**options: Any) -> RobustMCB:
    given = {"actions": ["tea", "milk"], "contexts": ["café"], "method": RECORDED} | options
    return RobustMCB(0.2, secret=SECRET, **given)


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, files: dict[str, bytes], **changes: Any) -> Path:
    """Rewrite the file of a learner with some entries of its state changed."""
    state = {**json.loads(files["learner.json"]), **changes}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, json.dumps(state) if name == "learner.json" else content)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "learner.zip"


def test_a_file_contains_the_whole_state_of_a_learner(path: Path) -> None:
    learner = shop(warmup_interactions=2)
    learner.observe_many(["ann", "bob"], ["café"] * 2, ["tea", "milk"], [0.25, 0.75])
    learner.add_action("soup")
    learner.decide_many(["bob", "bob", "cid"], ["café", "cart", "cart"])
    learner.observe("cid", "cart", "soup", 1.0)
    learner.policy()
    learner.save(path)
    files = contents(path)
    labels = {"contexts": ["café", "cart"], "actions": ["tea", "milk", "soup"]}
    parameters = learner.get_params()
    parameters.pop("alpha")
    assert json.loads(files["learner.json"]) == {
        "format": "unswayed-learner",
        "version": 1,
        "parameters": {"adversarial_fraction": 0.2, **parameters},
        "secret": SECRET.hex(),
        "epoch": 1,
        "contexts": ["café", "cart"],
        "exploration": {
            "warmup_interactions": 0,
            "adversarial_fraction": 0.2,
            "sticky": [False, False],
        },
        "pieces": {
            "warmup": labels,
            "main": labels,
            "phase-0": {"contexts": ["café"], "actions": ["tea", "milk"]},
        },
    }
    assert "café".encode() in files["learner.json"]  # labels are not escaped
    users = pq.read_table(BytesIO(files["users.parquet"])).to_pydict()
    assert users == {"user": ["ann", "bob", "cid"], "plays": [0, 2, 1]}
    assert Policy.from_json(json.loads(files["policy.json"])).to_json() == learner.policy_.to_json()
    assert list(files) == sorted(files)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_of_an_unused_learner_has_no_tallies_and_no_policy(path: Path) -> None:
    shop().save(path)
    files = contents(path)
    state = json.loads(files["learner.json"])
    assert state["exploration"] is None
    assert (state["epoch"], state["pieces"]) == (0, {})
    assert set(files) == {"learner.json", "users.parquet"}
    loaded = RobustMCB.load(path)
    assert loaded.decide("ann", "café") == shop().decide("ann", "café")
    assert "nothing was learned yet" in refusal(loaded.predict, ["café"])


def test_a_file_without_a_learner_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    learner = shop()
    learner.observe("ann", "cart", "tea", 1.0)
    learner.save(path)
    files, broken = contents(path), tmp_path / "broken.zip"

    def said(**changes: Any) -> str:
        return refusal(RobustMCB.load, written(broken, files, **changes))

    damaged = f"{broken} holds no learner, or is damaged ({{}}); save the learner again."
    assert said(format="else") == damaged.format("its format is 'else'")
    assert said(version=2) == (
        f"{broken} has version 2, and this program reads version 1; use the program that wrote it."
    )
    state = json.loads(files["learner.json"])["exploration"]
    assert said(exploration={**state, "sticky": [True]}) == damaged.format(
        "the flags of frequent contexts do not have one entry per context"
    )
    assert said(exploration={}) == damaged.format("'warmup_interactions'")
    assert said(pieces={}) == damaged.format("'warmup'")
    assert said(epoch=None).startswith(f"{broken} holds no learner, or is damaged (")
    assert RobustMCB.load(written(broken, files)).decide("ann", "cart") in ("tea", "milk")
    missing = tmp_path / "missing.zip"
    assert refusal(RobustMCB.load, missing) == (
        f"cannot read the learner {missing}: No such file or directory."
    )
    broken.write_bytes(b"no zip")
    assert refusal(RobustMCB.load, broken) == damaged.format("File is not a zip file")
    for change in ({"secret": "xyz"}, {"parameters": {"colour": "red"}}, {"contexts": ["home"]}):
        assert said(**change)
    for name, content in files.items():
        with zipfile.ZipFile(broken, "w") as archive:
            for other, whole in files.items():
                archive.writestr(other, content[: len(content) // 2] if other == name else whole)
        assert refusal(RobustMCB.load, broken)


def play(learner: RobustMCB, rng: np.random.Generator, n_plays: int) -> list[Any]:
    """Let users play, some of them new, and return the actions."""
    users = [f"u{user}" for user in rng.integers(80, size=n_plays)]
    contexts = rng.choice(CONTEXTS, size=n_plays).tolist()
    actions = learner.decide_many(users, contexts)
    rewards = [float(rng.random() < (0.7 if action == "milk" else 0.3)) for action in actions]
    learner.observe_many(users, contexts, actions, rewards)
    return actions


@pytest.mark.parametrize(
    "options",
    [{}, {"warmup_interactions": 200}, {"warmup_interactions": 5000}],
    ids=["no warm-up", "after the warm-up", "during the warm-up"],
)
def test_a_loaded_learner_continues_where_the_saved_one_stopped(
    options: dict[str, Any], tmp_path: Path, rng: np.random.Generator
) -> None:
    """Decisions and policy are the same, bit for bit."""
    path = tmp_path / "learner.zip"
    learner = shop(method="bounded", contexts=CONTEXTS[:2], **options)
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
    one, other = (each.policy().to_json() | {"created": ""} for each in (loaded, learner))
    assert one == other
