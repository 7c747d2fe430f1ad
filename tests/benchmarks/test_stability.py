"""Each change of ``benchmarks/stability.py`` is the change that it says."""

from dataclasses import replace

import numpy as np
import pytest

from stability import CHANGES, dropped, measure, renamed, rescaled, shuffled
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import learn_paper
from unswayed.tallies import Tallies, UserTallies
from worlds import World
from worlds.production import build_production, production_specs


def a_world() -> World:
    return build_production(production_specs("development")[0], 0)


def test_changes_keep_what_they_say(rng: np.random.Generator) -> None:
    world = a_world()
    n = len(world.users)
    assert abs(len(dropped(world, rng).users) - 0.99 * n) < 5 * np.sqrt(n * 0.01)
    assert np.sort(shuffled(world, rng).rewards).tolist() == np.sort(world.rewards).tolist()
    other = renamed(world, rng)
    assert (other.is_bad[other.users] == world.is_bad[world.users]).all()
    assert (rescaled(world, rng).naive() == world.naive()).all()


def by_name(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float,
    warmup: Tallies | None = None,
) -> Estimates:
    """Decide by the codes of the first users: what no learner may do."""
    assert isinstance(tallies, Tallies)
    estimates = learn_paper(tallies, design, alpha=alpha, warmup=warmup)
    drawn = np.random.default_rng(tallies.cells[:5]).random(estimates.mean_rewards.shape)
    return replace(estimates, mean_rewards=drawn)


def test_a_learner_that_reads_names_is_found_out(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: what depends on names changes when they do."""
    monkeypatch.setitem(METHODS, "by name", by_name)
    row = measure("a log", a_world(), seed, "by name")
    assert row.renamed > 0.5
    assert set(CHANGES) < set(row.__slots__)
