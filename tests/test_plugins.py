"""Registered names can be used everywhere, and broken plugins are named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unswayed.errors import InputError
from unswayed.learners.methods import METHODS, method_named
from unswayed.learners.paper import learn_paper
from unswayed.learners.players import learner_specs
from unswayed.plugins import VARIABLE, load_plugins
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.attacks.loud import Extreme
from unswayed.simulation.attacks.registry import ATTACKS, make_attack
from unswayed.simulation.simulate import Settings, simulate


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a method and an attack like a user's program."""
    monkeypatch.setitem(METHODS, "mine", learn_paper)
    monkeypatch.setitem(ATTACKS, "mine", type("Mine", (Extreme,), {"name": "mine"}))


@pytest.mark.usefixtures("_registered")
def test_a_registered_method_can_be_learned_with_and_simulated() -> None:
    assert method_named("mine") is learn_paper
    assert {"mine", "mine-on-log"} <= set(learner_specs())
    assert find_algorithm("mine").name == "mine"
    settings = Settings(
        contexts=2,
        actions=3,
        users=60,
        interactions=5,
        alpha=0.1,
        attack="mine",
        algorithms=("mine", "oracle"),
        repetitions=1,
    )
    assert len(simulate(settings)) == 2


@pytest.mark.usefixtures("_registered")
def test_a_registered_attack_can_be_created_by_name() -> None:
    assert make_attack("mine", {"magnitude": "2"}).name == "mine"


def test_plugins_are_loaded_once_from_files_and_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.py").write_text("import sys\nsys.seen_plugins = ['one']\n")
    (tmp_path / "two.py").write_text("import sys\nsys.seen_plugins.append('two')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'one.py'}, two,")
    load_plugins.cache_clear()
    try:
        load_plugins()
        load_plugins()
        assert sys.seen_plugins == ["one", "two"]  # type: ignore[attr-defined]
    finally:
        for name in ("one", "two"):
            sys.modules.pop(name, None)
        monkeypatch.delattr(sys, "seen_plugins", raising=False)
        load_plugins.cache_clear()


@pytest.mark.parametrize("name", ["nowhere_to_be_found", "missing.py", "broken.py"])
def test_an_error_names_the_plugin_that_cannot_be_imported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, name)
    load_plugins.cache_clear()
    try:
        with pytest.raises(InputError, match=f"the plugin {name} in {VARIABLE}"):
            method_named("paper")
    finally:
        sys.modules.pop("broken", None)
        load_plugins.cache_clear()
