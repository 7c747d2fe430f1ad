"""Loud lies: bots in logs as production leaves them, and honest users who are left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.logs import Log, make_log
from unswayed.learners.design import uniform_design
from unswayed.learners.discount import learn_discounted
from unswayed.learners.discount.loud.class_counts import counts_of, repeated_share
from unswayed.learners.discount.loud.coalition import loudness
from unswayed.learners.discount.responses.categories import find_categories
from unswayed.learners.discount.responses.sampling import single_rewards
from unswayed.learners.estimates import Estimates
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally


def learn(tallies: Tallies, alpha: float = 0.1) -> Estimates:
    """Learn with the default method."""
    return learn_discounted(tallies, uniform_design(tallies), adversarial_fraction=alpha)


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
def test_bots_that_push_one_item_are_found_among_rare_clicks(
    rng: np.random.Generator, epsilon: float
) -> None:
    """The per-cell mean is turned almost everywhere; without weights or with them nothing is."""
    log = make_log(rng, epsilon=epsilon)
    assert log.pushed(log.plain_means()) >= 6  # the negative control, of eight contexts
    estimates = learn(log.tallies(is_weighted=epsilon < 1.0))
    assert log.pushed(estimates.mean_rewards) <= 1
    assert estimates.user_weights[~log.is_bad].mean() > 0.98
    (lie, *_) = estimates.evidence["lies"]
    assert lie["raises"]
    assert lie["accounts"] > 100.0


def test_bots_with_another_target_in_each_context_are_found(rng: np.random.Generator) -> None:
    log = make_log(rng, own_targets=True)
    estimates = learn(log.tallies())
    assert estimates.user_weights[log.is_bad].mean() < 0.4
    assert estimates.user_weights[~log.is_bad].mean() > 0.98


def test_more_bots_than_stated_are_found(rng: np.random.Generator) -> None:
    log = make_log(rng, bots=0.2)
    estimates = learn(log.tallies())
    assert log.pushed(estimates.mean_rewards) == 0


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
def test_nobody_is_accused_in_peace(rng: np.random.Generator, epsilon: float) -> None:
    log = make_log(rng, bots=0.0, epsilon=epsilon)
    estimates = learn(log.tallies(is_weighted=epsilon < 1.0))
    assert_array_equal(estimates.user_weights, np.ones(len(log.is_bad)))
    assert estimates.evidence["lies"] == []


def test_fans_of_one_item_are_not_accused(rng: np.random.Generator) -> None:
    """A tenth of the honest users click on one item four times as often: odds within e²."""
    log = make_log(rng, bots=0.0)
    is_fan = (log.users % 10 == 0) & (log.actions == 2)
    again = rng.random(len(log.users)) < 4.0 * log.true_means[log.contexts, log.actions]
    rewards = np.where(is_fan, again, log.rewards)
    estimates = learn(replace(log, rewards=rewards.astype(float)).tallies())
    assert estimates.user_weights.mean() > 0.98


def test_people_who_stay_longer_with_one_item_are_not_accused(rng: np.random.Generator) -> None:
    """Log-normal dwell times; a tenth stay two deviations longer with an item, as tastes may."""
    log = make_log(rng, bots=0.0)
    is_fan = (log.users % 10 == 0) & (log.actions == 2)
    times = np.exp(0.5 * rng.normal(size=len(log.users)) + 1.0 * is_fan)
    estimates = learn(replace(log, rewards=times).tallies())
    assert_array_equal(estimates.user_weights, np.ones(len(log.is_bad)))


@pytest.mark.parametrize(("low", "high"), [(0.0, 5.0), (1.0, 3.0), (-1.0, 1.0)])
def test_clicks_may_be_written_in_any_way(
    rng: np.random.Generator, low: float, high: float
) -> None:
    log = make_log(rng)
    moved = replace(log, rewards=low + (high - low) * log.rewards)
    one, other = learn(log.tallies()), learn(moved.tallies())
    assert_allclose(other.user_weights, one.user_weights, atol=1e-6)
    assert_allclose(other.mean_rewards, low + (high - low) * one.mean_rewards, rtol=1e-6)


def test_learning_does_not_depend_on_the_names_of_items(rng: np.random.Generator) -> None:
    log = make_log(rng)
    order = rng.permutation(6)
    renamed = replace(log, actions=order[log.actions])
    one, other = learn(log.tallies()), learn(renamed.tallies())
    assert_allclose(other.mean_rewards[:, order], one.mean_rewards, rtol=1e-6)


def test_two_values_are_two_categories() -> None:
    found = find_categories(np.array([0.0] * 99 + [1.0]))
    assert found.is_binary
    assert found.is_rare


def test_stars_are_a_category_each(rng: np.random.Generator) -> None:
    found = find_categories(rng.integers(1, 6, 1000).astype(float))
    assert_allclose(found.edges, [1.5, 2.5, 3.5, 4.5])
    assert not found.is_event


def test_a_dominant_value_is_set_apart(rng: np.random.Generator) -> None:
    baskets = np.where(rng.random(2000) < 0.05, rng.lognormal(3.0, 1.0, 2000), 0.0)
    found = find_categories(baskets)
    assert found.dominant
    assert found.is_rare
    assert found.n == 4
    assert_array_equal(found.scores, [0.0, 1.0, 1.0, 1.0])
    assert (np.searchsorted(found.edges, baskets) == 0).sum() == (baskets == 0.0).sum()


def test_amounts_are_cut_into_equal_bins(rng: np.random.Generator) -> None:
    amounts = rng.lognormal(0.0, 1.0, 8000)
    shares = np.bincount(np.searchsorted(find_categories(amounts).edges, amounts)) / 8000
    assert_allclose(shares, 1 / 8, atol=1e-3)


def test_shift_and_scale_carry_over(rng: np.random.Generator) -> None:
    amounts = rng.lognormal(0.0, 1.0, 1000)
    one, other = find_categories(amounts), find_categories(1e4 + 3.0 * amounts)
    assert_allclose(other.edges, 1e4 + 3.0 * one.edges)
    assert_allclose(other.scores, one.scores)


def entry(rewards: list[float]) -> Tallies:
    """Return the tallies of one user in one cell."""
    zeros = np.zeros(len(rewards), dtype=np.int64)
    return tally(zeros, zeros, zeros, np.array(rewards), n_users=1, n_contexts=1, n_actions=1)


@pytest.mark.parametrize("rewards", [[0.0], [1.0], [0.0, 1.0], [1.0, 0.0, 0.0, 1.0, 1.0]])
def test_counts_of_clicks_are_exact(rewards: list[float]) -> None:
    counts = counts_of(entry(rewards), find_categories(np.array([0.0, 0.0, 1.0])), 0.0)
    assert_array_equal(counts.cell_counts(np.ones(1))[0], [rewards.count(0.0), rewards.count(1.0)])


def test_counts_of_two_stars_are_exact(rng: np.random.Generator) -> None:
    stars = find_categories(rng.integers(1, 6, 1000).astype(float))
    counts = counts_of(entry([2.0, 5.0]), stars, 0.0)
    assert_array_equal(counts.cell_counts(np.ones(1))[0], [0.0, 1.0, 0.0, 0.0, 1.0])


def test_an_account_testifies_with_a_hundred_plays_at_most() -> None:
    clicks = find_categories(np.array([0.0, 0.0, 1.0]))
    counts = counts_of(entry([1.0] * 5000), clicks, 0.0)
    assert_allclose(counts.counts.sum(), 100.0)
    assert_allclose(counts_of(entry([1.0] * 10), clicks, 1.0).counts.sum(), 1.0)


def test_repetition_is_told_from_noise(rng: np.random.Generator) -> None:
    """Users who always say the same have share one; independent clicks have share zero.

    The share of 2,000 pairs errs by about 1/sqrt(2000) = .022.
    """
    users = np.repeat(np.arange(2000), 2)
    same = np.repeat(rng.normal(size=2000), 2)
    noise = rng.normal(size=4000)
    for rewards, expected in ((same, 1.0), (noise, 0.0), (same + noise, 0.5)):
        zeros = np.zeros(4000, dtype=np.int64)
        tallies = tally(users, zeros, zeros, rewards, n_users=2000, n_contexts=1, n_actions=1)
        assert repeated_share(tallies) == pytest.approx(expected, abs=0.1)


def test_loudness_is_the_tilt_between_two_laws() -> None:
    """From odds of 1:9 to odds of 1:1 the tilt is log 9."""
    found = loudness(np.array([0.5, 0.5]), np.array([0.9, 0.1]), np.array([0.0, 1.0]))
    assert found == pytest.approx(np.log(9.0), abs=1e-6)


def liar(log: Log, n_events: int) -> Tallies:
    """Return the log with one account more that clicks on the target so many times everywhere."""
    n_contexts = log.true_means.shape[0]
    contexts = np.arange(n_events) % n_contexts
    lied = replace(
        log,
        users=np.append(log.users, np.full(n_events, len(log.is_bad))),
        contexts=np.append(log.contexts, contexts),
        actions=np.append(log.actions, np.full(n_events, 3)),
        rewards=np.append(log.rewards, np.ones(n_events)),
        propensities=np.append(log.propensities, np.full(n_events, 1 / 6)),
        is_bad=np.append(log.is_bad, True),
    )
    return lied.tallies()


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_no_single_account_turns_a_decision(rng: np.random.Generator, rate: float) -> None:
    log = make_log(rng, bots=0.0, n_users=1500, rate=rate)
    honest = np.nan_to_num(learn(log.tallies()).mean_rewards).argmax(axis=1)
    for n_events in (10, 1_000, 100_000):
        means = learn(liar(log, n_events)).mean_rewards
        assert_array_equal(np.nan_to_num(means).argmax(axis=1), honest)


def test_doubling_an_accounts_events_beyond_the_cap_changes_nothing(
    rng: np.random.Generator,
) -> None:
    log = make_log(rng, bots=0.0, n_users=1500)
    one, two = (learn(liar(log, n_events)) for n_events in (80_000, 160_000))
    assert_allclose(two.mean_rewards, one.mean_rewards, rtol=1e-9)


def normal_log(
    rng: np.random.Generator, *, plays: int, bots: float = 0.0
) -> tuple[Tallies, np.ndarray]:
    """Return tallies of 1,000 users with normal rewards, 10 × 5 cells, and the true means.

    Bots say −5 about the best action of each context and nothing else.
    """
    n_users, n_contexts, n_actions = 1000, 10, 5
    true_means = rng.uniform(0.0, 0.3, (n_contexts, n_actions))
    true_means[np.arange(n_contexts), rng.integers(n_actions, size=n_contexts)] = 0.6
    users = np.repeat(np.arange(n_users), 20 * plays)
    cells = np.repeat(rng.integers(n_contexts * n_actions, size=n_users * 20), plays)
    contexts, actions = np.divmod(cells, n_actions)
    rewards = true_means[contexts, actions] + rng.normal(size=len(users))
    lies = (users < bots * n_users) & (actions == true_means.argmax(axis=1)[contexts])
    rewards[lies] = -5.0
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )
    return tallies, true_means


def test_bots_that_repeat_themselves_do_not_pass_for_what_rewards_look_like(
    rng: np.random.Generator,
) -> None:
    """Honest rewards vary from play to play; only those of bots are always the same."""
    tallies, true_means = normal_log(rng, plays=3, bots=0.2)
    plain = np.bincount(tallies.cells, tallies.sums) / np.bincount(tallies.cells, tallies.counts)
    best = true_means.argmax(axis=1)
    assert (plain.reshape(10, 5).argmax(axis=1) != best).sum() >= 8  # the negative control
    learned = learn(tallies, alpha=0.2)
    assert_array_equal(learned.mean_rewards.argmax(axis=1), best)


def test_a_log_without_a_single_play_has_rewards(rng: np.random.Generator) -> None:
    tallies, true_means = normal_log(rng, plays=2)
    learned = learn(tallies)
    assert_array_equal(learned.mean_rewards.argmax(axis=1), true_means.argmax(axis=1))
    assert_array_equal(learned.user_weights, np.ones(1000))


def drawn_log(rng: np.random.Generator, values: list[float], plays: int) -> Tallies:
    """Return tallies of 200 users who meet each of three cells so many times."""
    users = np.repeat(np.arange(200), 3 * plays)
    actions = np.tile(np.repeat(np.arange(3), plays), 200)
    rewards = rng.choice(values, size=len(users))
    zeros = np.zeros(len(users), dtype=np.int64)
    return tally(users, zeros, actions, rewards, n_users=200, n_contexts=1, n_actions=3)


@pytest.mark.parametrize("values", [[0.0, 1.0], [-3.0, 5.0], [1e3, 1e3 + 2.0]])
def test_two_values_are_seen_through_sums(rng: np.random.Generator, values: list[float]) -> None:
    """Twenty plays of a fair coin are never equal; the values show all the same."""
    rewards = single_rewards(drawn_log(rng, values, plays=20))
    assert_allclose(np.unique(rewards), values, rtol=1e-6)
    # 12,000 plays; five standard deviations.
    assert abs((rewards == rewards.max()).mean() - 0.5) < 5 * 0.5 / np.sqrt(12_000)


def test_stars_are_seen_through_sums(rng: np.random.Generator) -> None:
    rewards = single_rewards(drawn_log(rng, [1.0, 2.0, 3.0, 4.0, 5.0], plays=3))
    assert_allclose(np.unique(rewards), [1.0, 2.0, 3.0, 4.0, 5.0])


def test_bots_that_say_no_to_all_other_items_are_told_from_lucky_users(
    rng: np.random.Generator,
) -> None:
    """Every second honest play is liked; a bot likes one item and nothing else."""
    users = np.repeat(np.arange(3000), 30)
    contexts, actions = rng.integers(10, size=(2, 90_000))
    is_bot = users < 300
    rewards = np.where(is_bot, actions == 3, rng.random(90_000) < 0.45).astype(float)
    tallies = tally(users, contexts, actions, rewards, n_users=3000, n_contexts=10, n_actions=10)
    learned = learn(tallies)
    (lie, *_) = learned.evidence["lies"]
    assert lie["raises"]
    assert 200 < lie["accounts"] < 330


@pytest.mark.parametrize("draw", range(3))
def test_honest_users_who_like_the_winners_are_no_coalition(draw: int, seed: int) -> None:
    """If nearly half may collude, honest users differ from bots as much as bots do from them."""
    rng = generator(seed, "winners", draw)
    n_users, n_plays, n_contexts, n_actions = 4000, 40, 200, 20
    users = np.repeat(np.arange(n_users), n_plays)
    frequent = 1.0 / np.arange(1, n_contexts + 1)
    contexts = rng.choice(n_contexts, size=len(users), p=frequent / frequent.sum())
    actions = rng.integers(n_actions, size=len(users))
    likes = rng.random(len(users)) < rng.random((n_contexts, n_actions))[contexts, actions]
    is_bot = users < 0.1 * n_users
    tallies = tally(
        users,
        contexts,
        actions,
        np.where(is_bot, actions == 0, likes).astype(float),
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )
    learned = learn(tallies, alpha=0.45)
    n_bots = n_users // 10
    assert learned.user_weights[n_bots:].mean() > 0.98
    assert learned.user_weights[:n_bots].mean() < 0.25
