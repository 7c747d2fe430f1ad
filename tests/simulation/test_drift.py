import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.experiments.sweeps import described, regret_in_arena, world
from unswayed.simulation.instances import changed_means


def test_every_context_gets_another_best_action_and_keeps_its_gaps(
    rng: np.random.Generator,
) -> None:
    means = rng.random((40, 5))
    later = changed_means(means, rng)
    assert (later.argmax(axis=1) != means.argmax(axis=1)).all()
    np.testing.assert_array_equal(np.sort(later, axis=1), np.sort(means, axis=1))


def test_forgetting_follows_a_change_that_keeping_everything_does_not(seed: int) -> None:
    """And it costs little where nothing changes; differences are many times the noise of a run."""
    small = {"contexts": 2, "actions": 3, "users": 150, "interactions": 240, "alpha": 0.0}

    def lost(algorithm: str, drift: str) -> float:
        settings = world(**small, drift=drift, seed=seed)
        return regret_in_arena(settings, algorithm, "honest", 0)

    assert lost("epochs-forget", "abrupt") < 0.75 * lost("epochs", "abrupt")
    # Negative control: without a change there is nothing to follow.
    assert lost("epochs-forget", "none") > lost("epochs", "none")


def test_a_world_that_stays_is_described_as_before() -> None:
    """So that results of before there was drift can be continued."""
    assert "drift" not in described(world())
    assert described(world(drift="slow"))["drift"] == "slow"
    with pytest.raises(InputError, match="abrupt"):
        world(drift="abrup")
