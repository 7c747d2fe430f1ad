from dataclasses import replace

import numpy as np
import pytest

from worlds import PARTS
from worlds.production import ProductionSpec, build_production, production_specs
from worlds.production.rewards import make_rewards
from worlds.production.specs import LOGGINGS, REWARD_KINDS, Logging, RewardKind
from worlds.production.traffic import make_platform

FAILURE = 1e-9


def _spec(**settings: object) -> ProductionSpec:
    """Return the first development log with these tags."""
    return next(
        spec
        for spec in production_specs("development")
        if all(getattr(spec, k) == v for k, v in settings.items())
    )


def test_parts_share_no_log() -> None:
    names = [spec.name for part in PARTS for spec in production_specs(part)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("logging", LOGGINGS)
def test_propensities_are_right(logging: Logging, rng: np.random.Generator) -> None:
    """By Bernstein's inequality, errors of counts are below sqrt(2 v x) + 2 x / 3.

    Here v is the variance of a count and exp(-x) = FAILURE / (2 counts), for probability 1 -
    FAILURE.
    """
    spec = replace(_spec(logging=logging), n_new=2, n_withdrawn=1)
    means = np.exp(0.3 * rng.standard_normal((spec.n_contexts, spec.n_actions)))
    platform = make_platform(spec, rng, means)
    table = platform.probabilities
    np.testing.assert_allclose(table.sum(axis=2), 1.0)
    assert (table[0] == 0).sum() == 2 * spec.n_contexts  # new items
    assert (table[-1] == 0).sum() == spec.n_contexts  # the withdrawn action
    times, contexts = rng.random(100_000), rng.integers(spec.n_contexts, size=100_000)
    actions, propensities = platform.play(rng, times, contexts)
    periods = np.searchsorted(platform.starts, times, side="right") - 1
    np.testing.assert_array_equal(propensities, table[periods, contexts, actions])
    assert (propensities > 0).all()
    counts = np.zeros_like(table)
    np.add.at(counts, (periods, contexts, actions), 1)
    sizes = counts.sum(axis=2, keepdims=True)
    x = np.log(2 * table.size / FAILURE)
    bound = np.sqrt(2 * sizes * table * (1 - table) * x) + 2 * x / 3
    assert (np.abs(counts - sizes * table) <= bound).all()


@pytest.mark.parametrize("rewards", REWARD_KINDS)
def test_true_means_are_those_of_the_rewards(rewards: RewardKind, rng: np.random.Generator) -> None:
    """The mean of 400,000 rewards is off by six standard errors with probability 2e-9."""
    model = make_rewards(replace(_spec(rewards=rewards), tastes="rank 2", taste_size=0.4), rng)
    n = 400_000
    user, context, action = (np.full(n, code) for code in (7, 0, 1))
    visits = np.ones((1, model.spec.n_contexts))
    truth = model.true_means(visits, np.array([7]))[0, 1]
    drawn = model.draw(rng, user, context, action)
    assert abs(drawn.mean() - truth) <= 6 * drawn.std() / np.sqrt(n)


def test_bots_mislead_the_per_cell_mean() -> None:
    """Negative control: 20% bots with 20 to 80 events click on another item in every context.

    Their share of the events is at least .2 * 50 / (.2 * 50 + .8 * 22) = .36, and so is the click
    rate of the items they push; honest rates are a few percent.
    """
    log = build_production(_spec(attack="targets", bot_share=0.2, rewards="clicks"), 0)
    is_pushed = log.naive() == log.targets
    assert log.context_probabilities @ is_pushed > 0.9
    assert log.score(log.naive()) > log.score(log.oracle())
