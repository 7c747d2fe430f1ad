"""Epoch learners in the arena: epochs, recommendations, forgetting, and tastes."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from unswayed.learners.epochs import Schedule, planned_schedule
from unswayed.learners.interface import Setting
from unswayed.learners.players import (
    EpochPlayer,
    ForgettingEpochPlayer,
    PersonalEpochPlayer,
    explore_then_commit,
)

Streams = Callable[..., np.random.Generator]


class Arrivals(NamedTuple):
    """What ``play`` takes."""

    users: np.ndarray
    contexts: np.ndarray
    outcomes: np.ndarray

    def rows(self, rows: slice) -> "Arrivals":
        """Return some of them."""
        return Arrivals(self.users[rows], self.contexts[rows], self.outcomes[rows])


def a_setting(rng: np.random.Generator, **changes: Any) -> Setting:
    settings: dict[str, Any] = {
        "n_users": 20,
        "n_contexts": 3,
        "n_actions": 2,
        "interactions_per_user": 12,
        "alpha": 0.1,
    }
    return Setting(rng=rng, **(settings | changes))


def arrivals(
    rng: np.random.Generator,
    setting: Setting,
    n: int,
    *,
    taste: float = 0.0,
    deviation: float = 0.2,
) -> Arrivals:
    """Return noisy rewards; the best action of context s is s modulo A, by 0.4."""
    users, contexts = (rng.integers(most, size=n) for most in (setting.n_users, setting.n_contexts))
    shape = (setting.n_users, setting.n_contexts, setting.n_actions)
    best = np.arange(setting.n_contexts)[:, None] % setting.n_actions
    means = 0.3 + 0.4 * (np.arange(setting.n_actions) == best) + taste * rng.standard_normal(shape)
    noise = deviation * rng.standard_normal((n, setting.n_actions))
    return Arrivals(users, contexts, means[users, contexts] + noise)


@pytest.mark.parametrize("make", [EpochPlayer, explore_then_commit])
def test_where_batches_end_does_not_matter(make: Any, streams: Streams) -> None:
    """The arrivals of three epochs at once, and cut into pieces of uneven sizes.

    Not so for personal decisions: those of a batch do not know that batch's rewards.
    """
    setting = a_setting(streams("play"), n_users=16)
    given = arrivals(streams("arrivals"), setting, 16 * 24 * 7, taste=0.3)
    together, pieces = make(setting), make(a_setting(streams("play"), n_users=16))
    played = together.play(*given)
    cuts = [0, 1, 50, 16 * 24 - 1, 16 * 24 + 3, 1_500, len(given.users)]
    parts = [pieces.play(*given.rows(slice(*cut))) for cut in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), played)
    assert pieces.plan == together.plan
    assert together.plan.epoch >= 1


def test_epochs_are_planned_by_the_settings_size(streams: Streams) -> None:
    setting = a_setting(streams("play"), n_users=16)
    planned = planned_schedule(n_users=16, n_contexts=3, n_actions=2)
    player = EpochPlayer(setting)
    assert player.schedule == planned == Schedule(first=24)
    given = arrivals(streams("arrivals"), setting, 16 * 24)
    player.play(*given.rows(slice(16 * 24 - 1)))
    assert player.plan.epoch == 0
    player.play(*given.rows(slice(16 * 24 - 1, 16 * 24)))
    assert player.plan.epoch == 1


def test_recommended_is_what_was_learned_in_epoch_0_and_what_is_served_later(
    streams: Streams,
) -> None:
    """Nobody meets the last context: every action may be its best."""
    setting = a_setting(streams("play"), n_contexts=5)
    player = EpochPlayer(setting, method="paper", schedule=Schedule(first=10))
    given = arrivals(streams("arrivals"), setting, 200)
    given = given._replace(contexts=given.contexts % 4)
    everybody = np.arange(20)
    player.play(*given.rows(slice(199)))
    assert player.action_probabilities(everybody).tolist() == [
        [1.0, 0.0],
        [0.0, 1.0],
        [1.0, 0.0],
        [0.0, 1.0],
        [0.5, 0.5],
    ]
    player.play(*given.rows(slice(199, 200)))
    assert player.plan.epoch == 1
    served = player.action_probabilities(everybody)
    assert served[:4].tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    assert served[4, int(player.plan.rules[4].action)] == 1.0
    assert served[4].sum() == 1.0


def test_who_explores_and_commits_explores_four_first_epochs_and_never_again(
    streams: Streams,
) -> None:
    setting = a_setting(streams("play"), n_users=64)
    player = explore_then_commit(setting)
    assert player.schedule == Schedule(first=24, growth=np.inf)  # 4 · 64 · 3 · 2 / 64
    given = arrivals(streams("arrivals"), setting, 64 * 24 + 200)
    player.play(*given.rows(slice(64 * 24 - 1)))
    assert player.plan.epoch == 0
    player.play(*given.rows(slice(64 * 24 - 1, 64 * 24)))
    plan = player.plan
    assert plan.epoch == 1
    served = player.play(*given.rows(slice(64 * 24, None)))
    assert player.plan is plan
    np.testing.assert_array_equal(
        served, [plan.rules[context].action for context in given.contexts[64 * 24 :]]
    )


def test_arrivals_of_one_batch_are_of_one_age(streams: Streams) -> None:
    """A batch that is as old as the last one is remembered as a whole."""
    setting = a_setting(streams("play"), n_users=48)
    player = ForgettingEpochPlayer(setting, half_life=0.5)
    given = arrivals(streams("arrivals"), setting, 200)
    player.play(*given.rows(slice(100)))
    assert player.learn()[1].plays.sum() == 100
    player.play(*given.rows(slice(100, 200)))
    remembered = player.learn()[1].plays.sum()
    # The first batch is 100 / 48 interactions old: 2^(-4.17) of it stays, give or take one a user.
    assert 100 <= remembered <= 100 + 100 * 2 ** (-200 / 48) + 48


def test_without_repeated_plays_tastes_are_not_estimated(streams: Streams) -> None:
    """Each of 128 users meets each of 4 contexts once in epoch 0."""
    setting = a_setting(streams("play"), n_users=128, n_contexts=4)
    player = PersonalEpochPlayer(setting)
    users, contexts = np.tile(np.arange(128), 4), np.repeat(np.arange(4), 128)
    outcomes = 3.0 * streams("outcomes").standard_normal((512, 2))
    player.play(users, contexts, outcomes)
    assert player.plan.epoch == 1
    assert (player.taste, player.noise) == (0.0, 1.0)
