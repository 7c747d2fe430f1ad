"""Small attacked worlds: the plain mean chooses what colluders promote, the learner does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.learners.bounded.worlds import Attack, Family, decided, learned, make_world, plain_means
from unswayed.arrays import IntArray
from unswayed.learners.bounded import learn_bounded
from unswayed.learners.bounded.method import find_coalitions
from unswayed.learners.design import sticky_design
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally

ALPHA = 0.2

COSTLY: list[tuple[Family, Attack]] = [
    *((family, attack) for family in ("clicks", "baskets") for attack in ("push", "half")),
    *((family, "per-context") for family in ("clicks", "stars", "baskets")),
    *((family, "swap") for family in ("clicks", "stars", "baskets")),
    ("stars", "push"),
    ("stars", "sink"),
]
"""Attacks that change decisions of the plain mean in these worlds; the others do not."""


@pytest.mark.parametrize(("family", "attack"), COSTLY)
def test_lies_that_mislead_the_plain_mean_do_not_mislead_the_learner(
    family: Family, attack: Attack, seed: int
) -> None:
    """Best actions lead by six standard errors, so the means of honest users identify them."""
    n_users = 2000 if attack == "half" else 1200  # half as many lies give half the evidence
    rng = generator(seed, "attacks", family, attack)
    world = make_world(rng, family, attack, n_users=n_users)
    estimates = learned(world.tallies, ALPHA, seed)
    honest = decided(world.plain_means(~world.is_bad))
    assert (decided(world.plain_means()) != honest).sum() >= 6  # the negative control
    assert (estimates.actions != honest).sum() <= 1
    kept = estimates.user_weights
    assert kept[world.is_bad].mean() < 0.5
    assert kept[~world.is_bad].mean() > 0.9
    assert estimates.evidence["coalitions"] >= 1


@pytest.mark.parametrize("family", ["clicks", "stars"])
def test_reports_name_the_pushed_cells_and_estimate_the_number_of_accounts(
    family: Family, seed: int
) -> None:
    world = make_world(generator(seed, "reported", family), family, "push")
    first = learned(world.tallies, ALPHA, seed).evidence["lies"][0]
    assert first["status"] == "flagged"
    assert first["raises"]
    assert {cell % world.tallies.n_actions for cell in first["cells"]} == {0}
    assert len(first["cells"]) >= 10
    assert first["accounts"] == pytest.approx(world.is_bad.sum(), rel=0.1)
    assert first["turned"] >= 6


def test_accounts_that_reward_one_action_only_are_said_to_raise_it(
    rng: np.random.Generator, seed: int
) -> None:
    """Honest users reward half of all plays, so the lies lower the other actions by as much."""
    users = np.repeat(np.arange(1000), 20)
    contexts, actions = rng.integers(6, size=len(users)), rng.integers(5, size=len(users))
    rewards = np.where(users < 150, actions == 2, rng.random(len(users)) < 0.5)
    tallies = tally(users, contexts, actions, rewards, n_users=1000, n_contexts=6, n_actions=5)
    first = learned(tallies, ALPHA, seed).evidence["lies"][0]
    assert first["raises"]
    assert {cell % 5 for cell in first["cells"]} == {2}


def ab_test(
    rng: np.random.Generator,
    rates: tuple[float, float] = (0.6, 0.4),
    lies: tuple[float, float] | None = None,
    alpha: float = ALPHA,
    likeness: float | None = None,
) -> Tallies:
    """Return a log of 3,000 users, each with 20 plays of one of two arms.

    If ``lies`` is given, a share ``alpha`` of the users, those with the smallest codes, has these
    rates. If ``likeness`` is given, the rates of honest users follow a beta distribution.
    """
    n_users, plays = 3000, 20
    users = np.repeat(np.arange(n_users), plays)
    arms = rng.integers(2, size=n_users)[users]
    of_users = np.asarray(rates)[arms]
    if likeness is not None:
        of_users = rng.beta(likeness * of_users[::plays], likeness * (1 - of_users[::plays]))[users]
    if lies is not None:
        of_users = np.where(users < alpha * n_users, np.asarray(lies)[arms], of_users)
    rewards = (rng.random(len(users)) < of_users).astype(float)
    where = np.zeros_like(users)
    return tally(users, where, arms, rewards, n_users=n_users, n_contexts=1, n_actions=2)


def test_an_ab_test_that_a_fifth_of_the_accounts_turns_round_is_decided_right(
    rng: np.random.Generator, seed: int
) -> None:
    """An honest user has 0 or 20 successes with probability 4e-5, so 600 such users stand out."""
    tallies = ab_test(rng, lies=(0.0, 1.0))
    assert plain_means(tallies)[0].argmax() == 1  # the negative control
    estimates = learn_bounded(tallies, sticky_design(tallies), alpha=ALPHA, seed=seed)
    assert estimates.actions.tolist() == [0]
    is_flagged = estimates.user_weights < 0.5
    assert is_flagged[:600].sum() > 570
    assert is_flagged[600:].sum() < 30
    np.testing.assert_allclose(estimates.mean_rewards[0], [0.6, 0.4], atol=0.02)


def test_honest_users_are_not_taken_for_the_mirror_of_liars(
    rng: np.random.Generator, seed: int
) -> None:
    tallies = ab_test(rng, (0.68, 0.32), (0.68, 1.0), alpha=0.3)
    estimates = learn_bounded(tallies, sticky_design(tallies), alpha=0.3, seed=seed)
    assert estimates.actions[0] == 0
    assert estimates.user_weights[900:].mean() > 0.8


def test_an_ab_test_without_an_attack_flags_nobody(rng: np.random.Generator, seed: int) -> None:
    found = find_coalitions(ab_test(rng), alpha=ALPHA, seed=seed)
    assert (found.weights == 1.0).all()
    np.testing.assert_allclose(found.means[0], [0.6, 0.4], atol=0.02)


def test_a_twentieth_that_answers_like_eager_and_silent_users_does_not_turn_a_small_gap(
    streams: Callable[..., np.random.Generator],
) -> None:
    """The gap is twice the largest one that 5% of the users can hide from every method."""
    logs = [ab_test(streams(n), (0.515, 0.485), (0.2, 0.8), alpha=0.05) for n in range(3)]
    assert any(plain_means(log)[0].argmax() == 1 for log in logs)  # the negative control
    assert [learned(log, 0.05).actions.tolist() for log in logs] == [[0]] * 3


def test_a_few_liars_about_one_arm_stand_out_among_users_who_differ(
    streams: Callable[..., np.random.Generator],
) -> None:
    """75 colluders report 20 successes in 20 plays, as do five honest users of that arm.

    Hundreds of honest users of that arm differ from the others in the opposite direction, and are
    not suspected.
    """
    logs = [
        ab_test(streams(n), (0.528, 0.472), (0.528, 1.0), alpha=0.05, likeness=10.0)
        for n in range(6)
    ]
    for found in [learned(log, 0.05) for log in logs]:
        assert found.actions.tolist() == [0]
        assert len(found.evidence["lies"]) == 1
        assert found.evidence["lies"][0]["accounts"] < 250


def test_users_who_differ_do_not_hide_a_fifth_that_turns_an_ab_test_round(
    streams: Callable[..., np.random.Generator],
) -> None:
    """By taste, one honest user in 5,000 has the rewards of colluders, who are one in five."""
    logs = [ab_test(streams(n), (0.6, 0.4), (0.0, 1.0), likeness=10.0) for n in range(3)]
    assert all(plain_means(log)[0].argmax() == 1 for log in logs)  # the negative control
    assert [learned(log, ALPHA).actions.tolist() for log in logs] == [[0]] * 3


def test_lies_that_change_no_decision_do_not_cost_the_honest_majority_its_weight(
    rng: np.random.Generator, seed: int
) -> None:
    """A third promotes the worse arm without success: they are flagged, not the others."""
    estimates = learned(ab_test(rng, (0.63, 0.37), (0.63, 1.0), alpha=0.35), 0.35, seed)
    assert estimates.actions.tolist() == [0]
    assert estimates.user_weights[1050:].mean() > 0.97


def busy_log(rng: np.random.Generator, n_joined: int) -> Tallies:
    """Return clicks of 6,000 honest accounts, and of colluders with a tenth of the traffic."""
    n_users, n_contexts, n_actions, plays = 6000, 10, 5, 10
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.integers(n_contexts, size=len(users))
    actions = rng.integers(n_actions, size=len(users))
    rates = np.where(np.arange(n_actions) == 1 + np.arange(n_contexts)[:, None] % 4, 0.09, 0.05)
    rewards = (rng.random(len(users)) < rates[contexts, actions]).astype(float)
    if n_joined:
        size = len(users) // 9
        users = np.concatenate([users, n_users + rng.integers(n_joined, size=size)])
        contexts = np.concatenate([contexts, rng.integers(n_contexts, size=size)])
        pushed = rng.integers(n_actions, size=size)
        actions = np.concatenate([actions, pushed])
        rewards = np.concatenate([rewards, (pushed == 0).astype(float)])
    return tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users + n_joined,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )


@pytest.mark.parametrize("n_joined", [1, 3, 10, 30])
def test_a_few_very_busy_accounts_hardly_change_a_decision(
    streams: Callable[..., np.random.Generator], seed: int, n_joined: int
) -> None:
    """They change nearly all decisions of the plain mean, and at most 2% of the learner's."""
    peace, joined = (busy_log(streams(), n) for n in (0, n_joined))
    before, after = (learned(tallies, 0.05, seed).actions for tallies in (peace, joined))
    assert (decided(plain_means(joined)) == 0).mean() > 0.8  # the negative control
    assert (before != after).mean() <= 0.02


@pytest.mark.parametrize("lie", ["±100", "Cauchy"])
def test_rewards_out_of_any_range_do_not_decide_where_each_account_meets_few_cells(
    lie: str, rng: np.random.Generator
) -> None:
    """Only colluders repeat the same reward exactly; their rewards must not define the scale."""
    n_users, n_plays, n_contexts, n_actions = 500, 60, 2, 5
    best = np.array([1, 3])
    true_means = np.full((n_contexts, n_actions), 0.3)
    true_means[np.arange(n_contexts), best] = 0.65
    users = np.repeat(np.arange(n_users), n_plays)
    contexts = rng.integers(n_contexts, size=len(users))
    actions = rng.integers(n_actions, size=(n_users, n_contexts))[users, contexts]
    rewards = (rng.random(len(users)) < true_means[contexts, actions]).astype(float)
    size = 100.0 if lie == "±100" else np.abs(rng.standard_cauchy(len(users)))
    aim = (actions == (best + 1)[contexts] % n_actions) * 1.0 - (actions == best[contexts])
    rewards = np.where((users < ALPHA * n_users) & (aim != 0.0), aim * size, rewards)
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )
    assert (decided(plain_means(tallies)) != best).all()  # the negative control
    np.testing.assert_array_equal(learned(tallies, ALPHA).actions, best)


@pytest.mark.parametrize("amount", [1.0, 20.0, 60.0])
def test_constant_baskets_stand_out_where_purchases_are_rare(
    rng: np.random.Generator, seed: int, amount: float
) -> None:
    """Colluders (5%) buy b in every play; honest users buy in 2% of their plays, mostly a."""
    n_users, plays = 2500, 8
    users = np.repeat(np.arange(n_users), plays)
    actions = rng.integers(2, size=len(users))
    buys = rng.random(len(users)) < np.where(actions == 0, 0.03, 0.01)
    rewards = np.round(buys * rng.lognormal(3.0, 0.8, len(users)), 2)
    is_bad = users < 125
    rewards[is_bad] = amount * actions[is_bad]
    contexts = np.zeros(len(users), np.int64)
    tallies = tally(users, contexts, actions, rewards, n_users=n_users, n_contexts=1, n_actions=2)
    estimates = learned(tallies, 0.12, seed)
    kept = estimates.user_weights
    assert estimates.actions.tolist() == [0]
    assert kept[:125].mean() < 0.1
    assert kept[125:].mean() > 0.98


def clicks_world(
    rng: np.random.Generator, plays: IntArray, n_bad: int, n_contexts: int, *, n_attacked: int
) -> tuple[Tallies, IntArray, IntArray]:
    """Return a log of clicks, and the best and the pushed action of each context.

    The click rate is 9% for the best of five actions and 4% for the others. The ``n_bad`` accounts
    with the smallest codes always click the pushed action in the first ``n_attacked`` contexts.
    """
    users = np.repeat(np.arange(len(plays)), plays)
    contexts, actions = rng.integers(n_contexts, size=len(users)), rng.integers(5, size=len(users))
    best = rng.integers(5, size=n_contexts)
    pushed = (best + rng.integers(1, 5, n_contexts)) % 5
    clicks = rng.random(len(users)) < np.where(actions == best[contexts], 0.09, 0.04)
    is_lie = (users < n_bad) & (contexts < n_attacked) & (actions == pushed[contexts])
    tallies = tally(
        users,
        contexts,
        actions,
        (clicks | is_lie).astype(float),
        n_users=len(plays),
        n_contexts=n_contexts,
        n_actions=5,
    )
    return tallies, best, pushed


def test_lies_about_few_of_many_contexts_are_found(rng: np.random.Generator, seed: int) -> None:
    """Colluders lie about once each, so only the covariance of a few cells reveals them."""
    tallies, best, pushed = clicks_world(rng, np.full(3500, 30), 600, 33, n_attacked=4)
    assert (decided(plain_means(tallies))[:4] == pushed[:4]).all()  # the negative control
    estimates = learned(tallies, ALPHA, seed)
    assert (estimates.actions[:4] == best[:4]).sum() >= 3
    assert estimates.evidence["coalitions"] >= 1


def test_busy_colluders_are_known_by_all_their_plays_among_visitors_who_come_once(
    rng: np.random.Generator, seed: int
) -> None:
    """Plays are capped at a few times the average in means, but not as evidence."""
    plays = np.where(np.arange(9000) < 450, 40, 1)
    plays[-500:] = 40
    tallies, best, pushed = clicks_world(rng, plays, 450, 40, n_attacked=40)
    assert (decided(plain_means(tallies)) == pushed).mean() > 0.9  # the negative control
    estimates = learned(tallies, 0.05, seed)
    assert estimates.user_weights[:450].mean() < 0.03
    assert (estimates.actions == pushed).mean() < 0.2
    assert (estimates.actions == best).mean() > 0.5


def test_colluders_who_come_once_are_found_in_a_single_context(
    rng: np.random.Generator, seed: int
) -> None:
    plays = np.where(np.arange(1600) < 600, 1, 8)
    tallies, best, pushed = clicks_world(rng, plays, 600, 1, n_attacked=1)
    assert (decided(plain_means(tallies)) == pushed).all()  # the negative control
    estimates = learned(tallies, 0.4, seed)
    assert (estimates.actions == best).all()
    assert estimates.user_weights[600:].mean() > 0.9


def test_colluders_who_come_once_are_found_in_several_contexts(
    rng: np.random.Generator, seed: int
) -> None:
    """No account has two of these plays: colluders have only their activity in common."""
    users = np.repeat(np.arange(4600), np.where(np.arange(4600) < 1100, 1, 8))
    contexts, actions = rng.integers(5, size=len(users)), rng.integers(9, size=len(users))
    best = np.arange(1, 6)
    clicks = rng.random(len(users)) < np.where(actions == best[contexts], 0.13, 0.08)
    clicks |= (users < 1100) & (actions == 0)
    tallies = tally(
        users, contexts, actions, clicks.astype(float), n_users=4600, n_contexts=5, n_actions=9
    )
    assert (decided(plain_means(tallies)) == 0).any()  # the negative control
    estimates = learned(tallies, 0.4, seed)
    assert (estimates.actions == best).all()
    assert estimates.user_weights[:1100].mean() < 0.3
    assert estimates.user_weights[1100:].mean() > 0.95


def test_loud_colluders_are_found_among_thousands_of_cells(
    rng: np.random.Generator, seed: int
) -> None:
    """Most cells have few colluders, so a tilt for each cell would gain less than its penalty."""
    users, size = np.repeat(np.arange(7000), 30), 210_000
    contexts, actions = rng.integers(4000, size=size), rng.integers(5, size=size)
    ones = np.where(users < 700, actions == 0, rng.random(size) < 0.5).astype(float)
    tallies = tally(users, contexts, actions, ones, n_users=7000, n_contexts=4000, n_actions=5)
    weights = learned(tallies, ALPHA, seed).user_weights
    assert weights[:700].mean() < 0.05
    assert weights[700:].mean() > 0.99
