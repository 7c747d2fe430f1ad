from dataclasses import replace

import numpy as np
import pytest

from tests.learners.paper.literal_twin import Event, algorithm_1, algorithm_2
from tests.learners.tiny_logs import shape
from unswayed.errors import InputError
from unswayed.estimators import spectral_filter
from unswayed.learners.design import RewardBound, design_of_log, sticky_design, uniform_design
from unswayed.learners.exploration import Exploration
from unswayed.learners.paper import estimate_context_probabilities, learn_paper
from unswayed.policy import Assignment
from unswayed.tallies import Tallies, tally

ALPHA = 0.2


def play(
    rng: np.random.Generator,
    *,
    n_users: int,
    n_contexts: int,
    n_actions: int,
    n_rounds: int,
    warmup_interactions: int,
) -> tuple[Exploration, list[Event]]:
    """Simulate a small world in which a fifth of the users lie; return exploration and events."""
    exploration = Exploration(
        n_actions=n_actions,
        contexts=range(n_contexts),
        assignment=Assignment(secret=rng.bytes(16)),
        warmup_interactions=warmup_interactions,
        alpha=ALPHA,
    )
    exploration.add_users(range(n_users))
    nu = np.arange(n_contexts, 0, -1) / (n_contexts * (n_contexts + 1) / 2)
    mu = rng.uniform(-1, 1, size=(n_contexts, n_actions))
    log: list[Event] = []
    for _ in range(n_rounds):
        for user in range(n_users):
            codes = np.array([user]), rng.choice(n_contexts, p=nu, size=1)
            action = exploration.decide(*codes)
            mean = mu[codes[1], action]
            reward = -3 * mean if user < ALPHA * n_users else mean + rng.normal(size=1)
            exploration.observe(*codes, action, reward)
            log.append(Event(user, int(codes[1][0]), int(action[0]), float(reward[0])))
    return exploration, log


@pytest.mark.parametrize(
    ("n_contexts", "n_actions", "warmup_interactions"),
    [(3, 4, 0), (6, 3, 150), (1, 3, 0), (5, 2, 60)],
)
def test_algorithm_2_equals_its_literal_twin(
    rng: np.random.Generator, n_contexts: int, n_actions: int, warmup_interactions: int
) -> None:
    exploration, log = play(
        rng,
        n_users=60,
        n_contexts=n_contexts,
        n_actions=n_actions,
        n_rounds=12,
        warmup_interactions=warmup_interactions,
    )
    tallies, design, warmup = exploration.observed()
    learned = learn_paper(tallies, design, alpha=ALPHA, warmup=warmup)

    def assigned(user: int, context: int) -> int:
        draw = exploration.assignment
        pair = draw.digests("user", [user]), draw.digests("context", [context])
        return int(draw.actions(*pair, n_actions=n_actions)[0])

    mu, policy = algorithm_2(
        log[warmup_interactions:], log[:warmup_interactions], assigned, n_contexts, n_actions, ALPHA
    )
    np.testing.assert_allclose(learned.mean_rewards, mu, rtol=1e-8, atol=1e-10)
    assert np.nanargmax(learned.mean_rewards, axis=1).tolist() == policy


def context_log(
    rng: np.random.Generator,
    nu: np.ndarray,
    *,
    n_users: int,
    n_plays: int,
    flooded: int,
    share: float = 1.0,
) -> Tallies:
    """Return a log in which a fifth of the users send a share of their visits to one context."""
    users = np.repeat(np.arange(n_users), n_plays)
    contexts = rng.choice(len(nu), p=nu, size=len(users))
    is_flood = (users < ALPHA * n_users) & (rng.random(len(users)) < share)
    contexts[is_flood] = flooded
    return tally(
        users, contexts, np.zeros_like(users), np.zeros(len(users)), **shape(n_users, len(nu), 2)
    )


def test_algorithm_1_equals_its_literal_twin(rng: np.random.Generator) -> None:
    """The log has a mild flood of a rare context; both passes of erratum 5 are compared."""
    nu = np.append(np.full(19, 0.998 / 19), 0.002)
    tallies = context_log(rng, nu, n_users=400, n_plays=10, flooded=19, share=0.3)
    log = [
        Event(user, int(cell) // 2, 0, 0.0)
        for user in range(400)
        for entry in range(tallies.indptr[user], tallies.indptr[user + 1])
        for cell in [tallies.cells[entry]]
        for _ in range(int(tallies.counts[entry]))
    ]
    result = estimate_context_probabilities(tallies, alpha=ALPHA)
    twin, sigma = algorithm_1(log, 20, ALPHA)
    np.testing.assert_allclose(result.context_probabilities, twin, rtol=1e-9)
    np.testing.assert_allclose(result.scales, sigma, rtol=1e-9)


def test_the_second_pass_of_algorithm_1_detects_the_flood(
    rng: np.random.Generator,
) -> None:
    """Visits of the flood inflate the scale, so the first pass misses it (erratum 5)."""
    nu = np.append(np.full(19, 0.998 / 19), 0.002)
    tallies = context_log(rng, nu, n_users=2000, n_plays=10, flooded=19, share=0.5)
    contexts, total = tallies.cells // 2, tallies.counts.sum()
    visits = np.bincount(contexts, tallies.counts, minlength=20)
    sigma = np.sqrt(np.maximum(visits, 20 * np.log(20)) / total)
    rows = np.zeros((2000, 20))
    users = np.repeat(np.arange(2000), np.diff(tallies.indptr))
    np.add.at(rows, (users, contexts), tallies.counts / 10 / sigma[contexts])
    first = spectral_filter(rows, alpha=ALPHA)
    result = estimate_context_probabilities(tallies, alpha=ALPHA)
    is_bad = np.arange(2000) < ALPHA * 2000
    assert first.weights[is_bad].mean() > 2 * result.filtered.weights[is_bad].mean() + 1e-3


def test_context_probabilities_survive_a_flood_of_a_rare_context(rng: np.random.Generator) -> None:
    """Negative control: the plain share of visits. Erratum 5 explains why one pass fails."""
    nu = np.append(np.full(49, 0.999 / 49), 0.001)
    n_users, n_plays = 4000, 20
    tallies = context_log(rng, nu, n_users=n_users, n_plays=n_plays, flooded=49)
    result = estimate_context_probabilities(tallies, alpha=ALPHA)
    estimated = result.context_probabilities
    contexts = tallies.cells // 2
    naive = np.bincount(contexts, tallies.counts, minlength=50) / tallies.counts.sum()
    # The oracle's l1 error over good users is at most sqrt(S / (n good plays)) in expectation;
    # three times that allows for deviations (each play changes it by 2/n: McDiarmid).
    bound = 3 * np.sqrt(50 / (0.8 * n_users * n_plays))
    assert np.abs(naive - nu).sum() > 0.3
    assert np.abs(estimated - nu).sum() < bound


def test_good_users_of_a_flooded_context_are_not_removed(rng: np.random.Generator) -> None:
    """A second pass from equal weights would remove a fifth of the good users.

    The error of counting n good plays is at most sqrt(S/n) in expectation, plus 5/sqrt(n)
    (McDiarmid).
    """
    nu = 1 / np.arange(1, 21)
    nu /= nu.sum()
    tallies = context_log(rng, nu, n_users=1000, n_plays=16, flooded=19)
    result = estimate_context_probabilities(tallies, alpha=ALPHA)
    is_good = np.arange(1000) >= ALPHA * 1000
    assert result.filtered.weights[is_good].mean() > 0.95
    assert result.filtered.weights[~is_good].mean() < 0.05
    n = is_good.sum() * 16
    assert np.abs(result.context_probabilities - nu).sum() < (np.sqrt(20) + 5) / np.sqrt(n)


def test_a_log_without_interactions_is_rejected() -> None:
    nothing = np.empty(0, np.int64)
    empty = tally(nothing, nothing, nothing, np.empty(0), n_users=3, n_contexts=2, n_actions=2)
    with pytest.raises(InputError, match="no interactions"):
        learn_paper(empty, uniform_design(empty), alpha=0.1)


def logged(
    rng: np.random.Generator, *, is_sticky: bool, n_users: int = 3000, n_plays: int = 20
) -> tuple[Tallies, np.ndarray]:
    """Return a log of 2 contexts and 4 actions in which a fifth of the users push action 0."""
    mu = np.array([[0.2, 0.7, 0.3, 0.4], [0.3, 0.2, 0.4, 0.8]])
    users = np.repeat(np.arange(n_users), n_plays)
    contexts = rng.integers(2, size=len(users))
    if is_sticky:
        actions = rng.integers(4, size=(n_users, 2))[users, contexts]
    else:
        actions = rng.integers(4, size=len(users))
    rewards = (rng.random(len(users)) < mu[contexts, actions]).astype(float)
    is_bad = users < ALPHA * n_users
    rewards[is_bad] = np.where(actions[is_bad] == 0, 5.0, -5.0)
    order = rng.permutation(len(users))
    tallies = tally(
        users[order], contexts[order], actions[order], rewards[order], **shape(n_users, 2, 4)
    )
    return tallies, mu


def test_sticky_groups_include_users_who_never_came(rng: np.random.Generator) -> None:
    tallies, _ = logged(rng, is_sticky=True, n_users=400, n_plays=1)
    design = sticky_design(tallies)
    # Every user is in one group of every context; rounding changes a group by at most half a user.
    assert np.abs(design.group_sizes.sum(axis=1) - 400).max() <= 2


@pytest.mark.parametrize("is_sticky", [True, False])
def test_the_best_actions_of_the_good_users_are_found_under_a_push(
    rng: np.random.Generator, is_sticky: bool
) -> None:
    """Negative control: the same push must mislead the pooled mean."""
    tallies, mu = logged(rng, is_sticky=is_sticky)
    totals = np.bincount(tallies.cells, tallies.sums, minlength=8)
    pooled = totals / np.bincount(tallies.cells, tallies.counts, minlength=8)
    assert (pooled.reshape(2, 4).argmax(axis=1) == 0).all()
    learned = learn_paper(tallies, design_of_log(tallies, "auto"), alpha=ALPHA)
    np.testing.assert_array_equal(learned.mean_rewards.argmax(axis=1), mu.argmax(axis=1))


@pytest.mark.parametrize("attack", [5.0, -5.0, 1e9, 0.0])
def test_intervals_cover_the_good_users_means_under_both_signs_of_attack(
    rng: np.random.Generator, attack: float
) -> None:
    """One mean is so small that trimming leaves only zeros; its interval must still be valid."""
    n_users, n_plays, mu = 3000, 10, np.array([[0.4, 0.6, 0.02]])
    users = np.repeat(np.arange(n_users), n_plays)
    actions = rng.integers(3, size=n_users)[users]
    rewards = (rng.random(len(users)) < mu[0, actions]).astype(float)
    rewards[users < ALPHA * n_users] = attack
    tallies = tally(
        users, np.zeros_like(users), actions, rewards, n_users=n_users, n_contexts=1, n_actions=3
    )
    design = replace(sticky_design(tallies), rewards=RewardBound(low=0.0, high=1.0))
    learned = learn_paper(tallies, design, alpha=ALPHA)
    half_width = learned.sampling_errors + learned.bias_bounds
    assert (np.abs(learned.mean_rewards - mu) <= half_width).all()
    # At most 246 of 1000 users collude (binomial, failure 0.1/3), with rewards in [0, 1]: the mean
    # of the others changes by at most 246/754, and chance adds less than 0.1.
    assert (half_width < 246 / 754 + 0.1).all()


def test_cells_without_plays_have_no_estimate(rng: np.random.Generator) -> None:
    users = np.arange(100)
    tallies = tally(
        users, np.zeros(100, np.int64), rng.integers(2, size=100), -np.ones(100), **shape(100, 2, 3)
    )
    learned = learn_paper(tallies, uniform_design(tallies), alpha=0.1)
    assert np.isnan(learned.mean_rewards[0, 2])
    assert np.isnan(learned.mean_rewards[1]).all()
    assert (learned.mean_rewards[0, :2] < 0).all()
