from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import Events
from unswayed.limits.hiding import smallest_coalition
from unswayed.limits.planner import log_traffic, plan_from_log, plan_traffic


def log_of(
    rng: np.random.Generator, *, n_users: int = 400, plays: int = 30, **columns: Any
) -> Events:
    """Return a log of two contexts and three actions; ``columns`` replace drawn ones."""
    n = n_users * plays
    drawn: dict[str, Any] = {
        "users": np.repeat(np.arange(n_users), plays),
        "contexts": np.where(rng.random(n) < 0.75, "home", "cart"),
        "actions": rng.integers(3, size=n),
        "rewards": rng.normal(10.0, 2.0, n),
    }
    return Events.of(**(drawn | columns))


def test_rewards_contexts_and_activity_are_read_off_a_log(rng: np.random.Generator) -> None:
    found = log_traffic(log_of(rng))
    assert (found.n_users, found.n_actions, found.interactions_per_user) == (400, 3, 30.0)
    # With 12,000 plays, shares have standard errors of .004, and deviations of 2 in cells of 1,000
    # of .05.
    np.testing.assert_allclose(sorted(found.context_probabilities), [0.25, 0.75], atol=0.02)
    assert found.traffic.base is None
    assert found.traffic.deviation == pytest.approx(2.0, abs=0.2)
    assert found.traffic.arrival_ratio == 2.0
    assert not found.traffic.is_heavy_tailed


def test_one_account_that_comes_a_thousand_times_moves_no_probability(
    rng: np.random.Generator,
) -> None:
    """The account has as many visits as all others together, but is one of 401 accounts."""
    log = log_of(rng)
    n = len(log.users)
    flooded = Events.of(
        np.concatenate([log.users, np.full(n, 400)]),
        np.concatenate([log.contexts, np.full(n, 0)]),
        np.tile(log.actions, 2),
        np.tile(log.rewards, 2),
    )
    before, after = log_traffic(log), log_traffic(flooded)
    moved = np.abs(before.context_probabilities - after.context_probabilities).max()
    assert moved <= 1 / 401
    assert after.traffic.is_heavy_tailed


def test_lies_in_a_few_cells_do_not_move_the_noise(rng: np.random.Generator) -> None:
    log = log_of(rng)
    is_lie = (log.actions == 0) & (log.contexts == 0) & (rng.random(len(log.users)) < 0.3)
    lied = Events.of(log.users, log.contexts, log.actions, np.where(is_lie, 1_000.0, log.rewards))
    assert log_traffic(lied).traffic.deviation == pytest.approx(2.0, abs=0.3)


def test_the_share_that_explores_is_read_off_the_propensities(rng: np.random.Generator) -> None:
    n = 12_000
    is_greedy = rng.random(n) < 0.9
    actions = np.where(is_greedy, 0, rng.integers(3, size=n))
    propensities = np.where(actions == 0, 0.9 + 0.1 / 3, 0.1 / 3)
    found = log_traffic(log_of(rng, actions=actions, propensities=propensities))
    assert found.traffic.exploration == pytest.approx(0.1)
    assert log_traffic(log_of(rng)).traffic.exploration == 1.0


def test_missing_traffic_and_tolerated_share_agree_with_the_plan(
    rng: np.random.Generator,
) -> None:
    log = log_traffic(log_of(rng, n_users=2_000))
    found = plan_from_log(log, 0.1, 0.09, 0.1)
    needed = found.plan.methods[0].interactions_per_user
    assert found.more_interactions == needed - 30 > 0
    assert found.hidden_by == pytest.approx(
        float(smallest_coalition(0.18 / 4.0, 30, base=0.5 - 0.09 / 4.0)), rel=0.1
    )


def test_a_log_that_is_large_enough_withstands_more_than_was_asked(
    rng: np.random.Generator,
) -> None:
    log = log_traffic(log_of(rng, n_users=2_000, rewards=rng.normal(0.0, 0.2, 60_000)))
    found = plan_from_log(log, 0.1, 0.09, 0.1)
    assert found.more_interactions == 0
    assert found.users_instead == 2_000
    assert found.withstands > 0.1

    def plays_at(fraction: float) -> int:
        plan = plan_traffic(
            log.context_probabilities, 3, fraction, 0.09, 0.1, n_users=2_000, traffic=log.traffic
        )
        return plan.methods[0].interactions_per_user

    assert plays_at(found.withstands) <= 30
    assert found.withstands > 0.33 or plays_at(found.withstands + 1e-3) > 30


def test_more_users_are_named_where_they_would_do(rng: np.random.Generator) -> None:
    """With few users, the cost exceeds that of the coalition alone; with many, it does not."""
    log = log_traffic(log_of(rng, n_users=60))

    def plays_with(n_users: int, target: float) -> int:
        plan = plan_traffic(
            log.context_probabilities, 3, 0.1, target, 0.1, n_users=n_users, traffic=log.traffic
        )
        return plan.methods[0].interactions_per_user

    # With this noise, 30 plays each are enough for a million users, but not for 60.
    scales = [replace(log.traffic, deviation=deviation) for deviation in np.geomspace(0.2, 2, 60)]
    for traffic in scales:
        log = replace(log, traffic=traffic)
        if plays_with(60, 0.09) > 30 >= plays_with(1_000_000, 0.09):
            break
    found = plan_from_log(log, 0.1, 0.09, 0.1)
    assert found.more_interactions > 0
    assert found.users_instead is not None
    assert plays_with(found.users_instead, 0.09) <= 30
    # The search is exact up to one part in a thousand, or one user.
    fewer = found.users_instead - max(1, found.users_instead // 500)
    assert plays_with(fewer, 0.09) > 30
    hard = plan_from_log(log, 0.1, 0.03, 0.1)
    assert hard.users_instead is None
    assert hard.withstands == 0.0


def test_constant_rewards_are_rejected(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="no noise to average"):
        log_traffic(log_of(rng, rewards=np.ones(12_000)))
