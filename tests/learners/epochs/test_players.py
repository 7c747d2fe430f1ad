"""The epoch learner in the arena: epochs and recommendations."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.learners.baselines.scenes import Arrivals, small_setting
from unswayed.learners.epochs import Schedule, planned_schedule
from unswayed.learners.interface import Setting
from unswayed.learners.players import EpochPlayer

Streams = Callable[..., np.random.Generator]


def a_setting(rng: np.random.Generator, **changes: Any) -> Setting:
    return small_setting(rng, **({"n_actions": 2, "alpha": 0.1} | changes))


def arrivals(rng: np.random.Generator, setting: Setting, n: int, *, taste: float = 0.0) -> Arrivals:
    """Return noisy rewards; the best action of context s is s modulo A, with a lead of 0.4."""
    users, contexts = (rng.integers(most, size=n) for most in (setting.n_users, setting.n_contexts))
    shape = (setting.n_users, setting.n_contexts, setting.n_actions)
    best = np.arange(setting.n_contexts)[:, None] % setting.n_actions
    means = 0.3 + 0.4 * (np.arange(setting.n_actions) == best) + taste * rng.standard_normal(shape)
    noise = 0.2 * rng.standard_normal((n, setting.n_actions))
    return Arrivals(users, contexts, means[users, contexts] + noise)


def test_results_do_not_depend_on_batches(streams: Streams) -> None:
    """The arrivals of three epochs are played at once and in batches of different sizes."""
    setting = a_setting(streams("play"), n_users=16)
    given = arrivals(streams("arrivals"), setting, 16 * 24 * 7, taste=0.3)
    together, pieces = EpochPlayer(setting), EpochPlayer(a_setting(streams("play"), n_users=16))
    played = together.play(*given)
    cuts = [0, 1, 50, 16 * 24 - 1, 16 * 24 + 3, 1_500, len(given.users)]
    parts = [pieces.play(*given.part(*cut)) for cut in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), played)
    assert pieces.plan == together.plan
    assert together.plan.epoch >= 1


def test_the_schedule_depends_on_the_size_of_the_setting(streams: Streams) -> None:
    setting = a_setting(streams("play"), n_users=16)
    planned = planned_schedule(n_users=16, n_contexts=3, n_actions=2)
    player = EpochPlayer(setting)
    assert player.schedule == planned == Schedule(first=24)
    given = arrivals(streams("arrivals"), setting, 16 * 24)
    player.play(*given.part(0, 16 * 24 - 1))
    assert player.plan.epoch == 0
    player.play(*given.part(16 * 24 - 1, 16 * 24))
    assert player.plan.epoch == 1


def test_epoch_0_recommends_the_learned_policy_and_later_epochs_the_served_one(
    streams: Streams,
) -> None:
    """Nobody visits the last context, so any action may be the best."""
    setting = a_setting(streams("play"), n_contexts=5)
    player = EpochPlayer(setting)
    n = int(player.schedule.first * 20)
    given = arrivals(streams("arrivals"), setting, n)
    given = given._replace(contexts=given.contexts % 4)
    everybody = np.arange(20)
    player.play(*given.part(0, n - 1))
    assert player.action_probabilities(everybody).tolist() == [
        [1.0, 0.0],
        [0.0, 1.0],
        [1.0, 0.0],
        [0.0, 1.0],
        [0.5, 0.5],
    ]
    player.play(*given.part(n - 1, n))
    assert player.plan.epoch == 1
    served = player.action_probabilities(everybody)
    assert served[:4].tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    assert served[4, int(player.plan.rules[4].action)] == 1.0
    assert served[4].sum() == 1.0
