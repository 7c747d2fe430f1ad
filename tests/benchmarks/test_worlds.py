"""Benchmark worlds: one registry of attacks, and pinned logs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.simulation.attacks.registry import ATTACKS
from worlds import PARTS, Spec, World, build, specs
from worlds.play_attacks import PLAY_ATTACKS

SMALL = Spec(
    name="small",
    family="test",
    n_users=300,
    n_contexts=4,
    n_actions=3,
    plays=20,
    alpha=0.3,
    attack="none",
    rewards="binary",
)
# Sums of rewards, recorded when the numbers in benchmarks and documentation were measured.
MEASURED = {"loud": 85051.0, "hard": 27290.0, "hidden": 141570.0, "rated": 87880.5}


def _built(attack: str, **settings: object) -> World:
    return build(replace(SMALL, attack=attack, **settings), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted({*ATTACKS, *PLAY_ATTACKS}))
@pytest.mark.parametrize("rewards", ["binary", "normal", "stars"])
def test_every_attack_runs_in_a_logged_world(name: str, rewards: str) -> None:
    if name.startswith("hiding") and rewards != "binary":
        with pytest.raises(InputError, match="Bernoulli"):
            _built(name, rewards=rewards)
        return
    world = _built(name, rewards=rewards)
    peace = _built("none", rewards=rewards)
    assert world.is_bad.sum() == 90
    assert np.isfinite(world.rewards).all()
    if rewards == "stars":
        assert world.rewards.min() >= 0.0
        assert world.rewards.max() <= 1.0
    np.testing.assert_array_equal(world.users, peace.users)
    assert (world.contexts < 4).all()


def test_an_unknown_attack_is_named_in_the_error() -> None:
    with pytest.raises(InputError, match="did you mean push"):
        _built("psuh")


def test_honest_rewards_do_not_depend_on_the_attack() -> None:
    """Attacks are drawn after honest rewards, so only colluders' rows change."""
    pushed, honest = _built("runner-up-swap"), _built("mimicry")
    good = ~pushed.is_bad[pushed.users]
    np.testing.assert_array_equal(pushed.rewards[good], honest.rewards[good])


def test_an_arena_attack_misleads_the_plain_mean_and_honest_accounts_do_not() -> None:
    """At rates near .4 and a coalition of 30%, the target rises to .58, the best falls to .4."""
    swayed, honest = _built("runner-up-swap", n_users=3000), _built("honest", n_users=3000)
    np.testing.assert_array_equal(swayed.naive(), swayed.targets)
    np.testing.assert_array_equal(swayed.oracle(), swayed.optimal())
    np.testing.assert_array_equal(honest.naive(), honest.optimal())


def test_names_of_worlds_are_unique() -> None:
    names = [spec.name for part in PARTS for spec in specs(part)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("family", MEASURED)
def test_worlds_have_not_changed_since_they_were_measured(family: str) -> None:
    """Regression test: other random draws would invalidate the numbers in the documentation."""
    spec = next(s for s in specs("development") if s.family == family)
    assert build(spec, 5).rewards.sum() == pytest.approx(MEASURED[family], rel=1e-9)
