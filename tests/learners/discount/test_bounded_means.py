"""Means with bounded influence, shrinkage, and the test by dealing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.learners.discount.logs import make_log
from unswayed.learners.design import uniform_design
from unswayed.learners.discount import learn_discounted
from unswayed.learners.discount.means.bounded import cell_values, shrunken_means
from unswayed.learners.discount.responses.categories import _drawn_out
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.trial.aims import chance_of_aim
from unswayed.tallies import tally


def test_means_that_are_known_well_are_not_shrunk(rng: np.random.Generator) -> None:
    means = rng.normal(size=(12, 6))
    assert_allclose(shrunken_means(means, np.full(means.shape, 1e-9)).means, means, atol=1e-6)


def test_shrinkage_carries_shift_and_scale_over(rng: np.random.Generator) -> None:
    means, variances = rng.normal(size=(12, 6)), rng.random((12, 6)) + 0.1
    one = shrunken_means(means, variances).means
    other = shrunken_means(1e5 + 30.0 * means, 900.0 * variances).means
    assert_allclose(other, 1e5 + 30.0 * one, rtol=1e-9)


def test_cells_with_equal_support_in_one_context_keep_their_order(
    rng: np.random.Generator,
) -> None:
    means = rng.normal(size=(1, 8))
    shrunken = shrunken_means(means, np.full((1, 8), 100.0)).means
    assert_array_equal(np.argsort(shrunken), np.argsort(means))


def test_what_was_never_seen_stays_unknown(rng: np.random.Generator) -> None:
    means, variances = rng.normal(size=(5, 4)), np.ones((5, 4))
    means[2, 1], variances[2, 1] = np.nan, np.inf
    found = shrunken_means(means, variances).means
    assert_array_equal(np.isnan(found), np.isnan(means))


def test_shrinkage_errs_less_than_the_means_themselves(rng: np.random.Generator) -> None:
    """With as much noise as signal half of the squared error goes, were the variances known."""
    truth = rng.normal(size=(20, 1)) + rng.normal(size=(1, 10)) + rng.normal(size=(20, 10))
    means = truth + rng.normal(size=truth.shape)
    found = shrunken_means(means, np.ones(truth.shape)).means
    assert ((found - truth) ** 2).mean() < 0.8 * ((means - truth) ** 2).mean()


def test_a_few_lucky_plays_do_not_win(rng: np.random.Generator) -> None:
    """A new item with two clicks in three plays, beside items with hundreds at 5 %."""
    log = make_log(rng, bots=0.0, rate=0.05)
    is_other = log.actions != 5
    users = np.append(log.users[is_other], [0, 1, 2])
    lucky = replace(
        log,
        users=users,
        contexts=np.append(log.contexts[is_other], [0, 0, 0]),
        actions=np.append(log.actions[is_other], [5, 5, 5]),
        rewards=np.append(log.rewards[is_other], [1.0, 1.0, 0.0]),
        propensities=np.full(len(users), 1 / 6),
    )
    assert lucky.plain_means()[0].argmax() == 5  # the negative control
    tallies = lucky.tallies()
    learned = learn_discounted(tallies, uniform_design(tallies), adversarial_fraction=0.1)
    assert np.nan_to_num(learned.mean_rewards[0]).argmax() != 5


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_the_tail_of_log_normal_rewards_is_drawn_out_to_six_deviations(
    rng: np.random.Generator, sigma: float
) -> None:
    """Quantiles of 20,000 users err by about .01 deviations, and count fivefold: 5.8 ± .3."""
    reach = _drawn_out(rng.lognormal(0.0, sigma, 20_000))
    assert np.log(reach) / sigma == pytest.approx(5.8, abs=0.3)


def test_honest_means_are_hardly_touched_by_the_bounds(rng: np.random.Generator) -> None:
    log = make_log(rng, bots=0.0, rate=0.3)
    values = cell_values(clipped_responses(log.tallies()), np.ones(len(log.is_bad)))
    errors = np.sqrt(values.variances)
    assert np.abs(values.means - log.plain_means()).max() < 2.0 * errors.max()
    assert np.abs((values.means - log.true_means) / errors).max() < stats.norm.ppf(1 - 1e-4 / 48)


def test_revenue_keeps_its_order_without_any_attacker(rng: np.random.Generator) -> None:
    """Conversion 4 % against 5 % and log-normal baskets: 1.20 against 1.92 on average.

    25,000 plays: standard errors are about .1 and .15, so the order is wrong once in 10,000 logs.
    """
    n_users, plays = 5000, 5
    users = np.repeat(np.arange(n_users), plays)
    actions = rng.integers(2, size=len(users))
    baskets = rng.lognormal(np.log(np.where(actions == 1, 38.4, 30.0)) - 0.32, 0.8)
    rewards = np.where(rng.random(len(users)) < np.where(actions == 1, 0.05, 0.04), baskets, 0.0)
    tallies = tally(
        users,
        np.zeros(len(users), dtype=np.int64),
        actions,
        rewards,
        n_users=n_users,
        n_contexts=1,
        n_actions=2,
    )
    learned = learn_discounted(tallies, uniform_design(tallies), adversarial_fraction=0.1)
    assert learned.mean_rewards[0].argmax() == 1
    assert_allclose(learned.mean_rewards[0], [1.2, 1.92], rtol=0.25)


@pytest.mark.parametrize("n_actions", [3, 8])
def test_dealing_accuses_chance_as_often_as_it_says(
    rng: np.random.Generator, n_actions: int
) -> None:
    """Of 300 pulls without aim at most 5 % and three standard errors have p below .05."""
    below = 0
    for _ in range(300):
        means, pull = rng.normal(size=(6, n_actions)), rng.normal(size=(6, n_actions))
        errors = np.ones(means.shape)
        below += chance_of_aim(means, means - pull, errors, rng) <= 0.05
    assert below <= stats.binom.ppf(0.999, 300, 0.05)


def test_dealing_leaves_unknown_actions_alone(rng: np.random.Generator) -> None:
    means = rng.normal(size=(10, 4))
    means[:, 3] = np.nan
    pushed = means.copy()
    pushed[np.arange(10), means[:, :3].argmin(axis=1)] += 5.0
    assert chance_of_aim(pushed, means, np.ones(means.shape), rng) < 0.02


def test_people_at_home_in_one_context_are_not_taken_for_a_flood(
    rng: np.random.Generator,
) -> None:
    log = make_log(rng, bots=0.0)
    tallies = log.tallies()
    everybody = clipped_responses(tallies)
    (responses,) = everybody.blocks.map_blocks(lambda block: block)
    assert responses.plays.sum() > 0.99 * tallies.plays.sum()


def test_the_share_of_plays_that_do_not_count_is_said() -> None:
    """One account has 100 of 130 plays of a cell, the others ten each; it counts as one of them."""
    users = np.repeat(np.arange(4), [100, 10, 10, 10])
    zeros = np.zeros_like(users)
    rewards = (np.arange(len(users)) % 3).astype(np.float64)
    tallies = tally(users, zeros, zeros, rewards, n_users=4, n_contexts=1, n_actions=1)
    found = cell_values(clipped_responses(tallies), np.ones(4))
    assert found.bounded == pytest.approx(90.0 / 130.0)
    equal = tally(
        users[100:], zeros[100:], zeros[100:], rewards[100:], n_users=4, n_contexts=1, n_actions=1
    )
    assert cell_values(clipped_responses(equal), np.ones(4)).bounded == 0.0
