"""Epoch learners in the arena go like their literal twins, however arrivals are cut."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.learners.epochs.twins import LiteralEpochs, LiteralForgetting, LiteralPersonal
from unswayed.learners.design import Design
from unswayed.learners.epochs import (
    EpochPlayer,
    ForgettingEpochPlayer,
    PersonalEpochPlayer,
    Schedule,
    explore_then_commit,
    planned_schedule,
)
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import Setting
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import learn_paper
from unswayed.policy import Policy
from unswayed.tallies import Tallies

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


def stepped(twin: LiteralEpochs, given: Arrivals) -> list[int]:
    return [
        twin.step(int(user), int(context), outcome)
        for user, context, outcome in zip(*given, strict=True)
    ]


@pytest.mark.parametrize("is_spread", [True, False])
@pytest.mark.parametrize(("n_contexts", "is_sticky"), [(1, True), (2, True), (3, False)])
def test_epochs_go_like_their_literal_twin(
    n_contexts: int, is_sticky: bool, is_spread: bool, streams: Streams
) -> None:
    """Epochs end after 60, 120 and 240 arrivals: within the second batch and with the third."""
    schedule = Schedule(first=3, plays_per_cell=6.0)
    setting = a_setting(streams("play"), n_contexts=n_contexts)
    given = arrivals(streams("arrivals"), setting, 300)
    player = EpochPlayer(setting, method="paper", schedule=schedule, is_spread=is_spread)
    twin = LiteralEpochs(
        a_setting(streams("play"), n_contexts=n_contexts),
        schedule,
        method="paper",
        is_sticky=is_sticky,
        is_spread=is_spread,
    )
    epochs = []
    for start, end in ((0, 59), (59, 130), (130, 240), (240, 300)):
        batch = given.rows(slice(start, end))
        assert player.play(*batch).tolist() == stepped(twin, batch)
        assert player.plan == twin.plan
        epochs.append(player.plan.epoch)
    assert epochs == [0, 2, 3, 3]
    found, expected = player.learn()[1], twin.tallies()
    for name in ("indptr", "cells", "counts", "sums", "squares"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_a_coalition_that_is_found_while_serving_alarms_the_next_plan(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a hook sees the policy of each epoch, with the share and the method it was made for."""

    def wary(tallies: Tallies, design: Design, **options: Any) -> Estimates:
        learned = learn_paper(tallies, design, **options)
        return replace(learned, user_weights=np.full(tallies.n_users, 0.5))

    monkeypatch.setitem(METHODS, "paper", wary)  # type: ignore[arg-type]
    seen: list[tuple[str, float, int]] = []

    class Seeing(EpochPlayer):
        def _learned(self, policy: Policy, tallies: Tallies) -> None:
            seen.append((policy.method, policy.alpha, int(tallies.plays.sum())))

    setting = a_setting(streams("play"))
    player = Seeing(setting, method="paper", schedule=Schedule(first=3))
    player.play(*arrivals(streams("arrivals"), setting, 60))
    assert player.plan.is_alarmed
    assert seen == [("paper", 0.1, 60)]


def test_epochs_are_planned_by_the_settings_size_and_learned_with_the_default_method(
    streams: Streams,
) -> None:
    setting = a_setting(streams("play"), n_users=16)
    planned = planned_schedule(n_users=16, n_contexts=3, n_actions=2)
    assert planned == Schedule(first=24)
    player = EpochPlayer(setting)
    twin = LiteralEpochs(a_setting(streams("play"), n_users=16), planned)
    given = arrivals(streams("arrivals"), setting, 16 * 24 + 5)
    assert player.schedule == planned
    assert player.play(*given).tolist() == stepped(twin, given)
    assert player.plan == twin.plan
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


@pytest.mark.parametrize("half_life", [None, 3.0])
def test_forgetting_goes_like_its_literal_twin(half_life: float | None, streams: Streams) -> None:
    setting = a_setting(streams("play"), n_users=48)
    schedule = Schedule(first=8, longest=32.0)
    options = {} if half_life is None else {"half_life": half_life}
    player = ForgettingEpochPlayer(setting, **options)
    assert player.schedule == schedule
    twin = LiteralForgetting(a_setting(streams("play"), n_users=48), schedule)
    twin.half_life = half_life or 64.0
    given = arrivals(streams("arrivals"), setting, 48 * 16 + 3)
    played = [
        int(player.play(*given.rows(slice(row, row + 1)))[0]) for row in range(len(given.users))
    ]
    assert played == stepped(twin, given)
    assert player.plan == twin.plan
    found, expected = player.learn()[1], twin.tallies()
    assert (found.n_users, found.n_contexts, found.n_actions) == (48, 3, 2)
    for name in ("indptr", "cells", "counts", "sums", "squares"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert 0 < found.plays.sum() < len(twin.explored)


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


@pytest.mark.parametrize("taste", [0.0, 0.8])
def test_tastes_go_like_their_literal_twin(taste: float, streams: Streams) -> None:
    """One user comes once and one never; for others chance and taste are of about one size."""
    setting = a_setting(streams("play"), n_users=30, n_contexts=2)
    schedule = Schedule(first=9)
    player = PersonalEpochPlayer(setting)
    assert player.schedule == schedule
    assert (player.taste, player.noise) == (0.0, 1.0)
    twin = LiteralPersonal(a_setting(streams("play"), n_users=30, n_contexts=2), schedule)
    given = arrivals(streams("arrivals"), setting, 30 * 40, taste=taste, deviation=0.6)
    given.users[given.users >= 28] = 7
    given.users[5] = 29
    for row in range(len(given.users)):
        one = given.rows(slice(row, row + 1))
        assert player.play(*one).tolist() == stepped(twin, one)
        if twin.plan.epoch:
            assert player.taste == pytest.approx(twin.taste, rel=1e-9)
            assert player.noise == pytest.approx(twin.noise, rel=1e-9)
    assert player.plan == twin.plan
    assert player.plan.epoch == 3
    assert (twin.taste > 0.3) == (taste > 0.0)


def test_a_draw_is_a_quarter_as_wide_as_the_posterior_around_its_mean(streams: Streams) -> None:
    """Users with few plays, so that what is common, one's own plays and the draw all matter."""
    rng = streams("world")
    shape = (200, 3, 2)
    player = PersonalEpochPlayer(a_setting(streams("play"), n_users=200))
    player.taste, player.noise = 1.5, 0.8
    player._common = 0.3 * rng.standard_normal(shape[1:])
    player._own_counts = rng.integers(3, size=shape).astype(np.float64)
    player._own_sums = player._own_counts * rng.normal(size=shape)
    users, contexts = rng.integers(200, size=900), rng.integers(3, size=900)
    stream = streams("play")
    stream.bytes(16)  # the secret
    expected = []
    for (user, context), normals in zip(
        zip(users, contexts, strict=True), stream.standard_normal((900, 2)), strict=True
    ):
        draws = []
        for action, normal in enumerate(normals):
            precision = 1 / 1.5**2 + player._own_counts[user, context, action] / 0.8**2
            mean = (
                player._common[context, action] / 1.5**2
                + player._own_sums[user, context, action] / 0.8**2
            ) / precision
            draws.append(mean + 0.25 * np.sqrt(1 / precision) * normal)
        expected.append(int(np.argmax(draws)))
    assert player._sampled(users, contexts).tolist() == expected


def test_without_repeated_plays_tastes_are_not_estimated(streams: Streams) -> None:
    """Each of 128 users meets each of 4 contexts once in epoch 0."""
    setting = a_setting(streams("play"), n_users=128, n_contexts=4)
    player = PersonalEpochPlayer(setting)
    users, contexts = np.tile(np.arange(128), 4), np.repeat(np.arange(4), 128)
    outcomes = 3.0 * streams("outcomes").standard_normal((512, 2))
    player.play(users, contexts, outcomes)
    assert player.plan.epoch == 1
    assert (player.taste, player.noise) == (0.0, 1.0)
