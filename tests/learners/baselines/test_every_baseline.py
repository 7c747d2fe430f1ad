"""Contract tests of every exported baseline."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tests.learners.baselines.scenes import Arrivals, bernoulli_arrivals, small_setting
from unswayed.errors import InputError
from unswayed.learners.baselines import BASELINES, Barbar, LiuStyle
from unswayed.learners.interface import LearnerSpec

Streams = Callable[..., np.random.Generator]

every_baseline = pytest.mark.parametrize("spec", BASELINES.values(), ids=BASELINES.keys())
LISTENS_TO_USERS = ("independent-ucb",)
pooled_baseline = pytest.mark.parametrize(
    "spec", [pytest.param(s, id=n) for n, s in BASELINES.items() if n not in LISTENS_TO_USERS]
)


@every_baseline
def test_one_batch_equals_the_same_batch_split(spec: LearnerSpec, streams: Streams) -> None:
    """The same seed gives the same plays for one batch, two batches and single arrivals."""
    whole = spec.make(small_setting(streams("play"), interactions_per_user=100))
    setting = small_setting(streams("play"), interactions_per_user=100)
    split = spec.make(setting)
    arrivals = bernoulli_arrivals(streams("arrivals"), setting, 2000)
    actions = whole.play(*arrivals)
    cuts = [0, 1, 2, 3, 700, 700, 2000]
    pieces = [split.play(*arrivals.part(start, end)) for start, end in pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(pieces), actions)
    everyone = np.arange(setting.n_users)
    np.testing.assert_array_equal(
        whole.action_probabilities(everyone), split.action_probabilities(everyone)
    )


@every_baseline
def test_without_data_play_is_uniform(spec: LearnerSpec, rng: np.random.Generator) -> None:
    setting = small_setting(rng)
    recommended = spec.make(setting).action_probabilities(np.arange(20))
    np.testing.assert_array_equal(recommended, np.full((3, 4), 0.25))


@every_baseline
def test_the_policy_in_an_unseen_context_is_uniform(
    spec: LearnerSpec, rng: np.random.Generator
) -> None:
    setting = small_setting(rng)
    arrivals = bernoulli_arrivals(rng, setting, 1000)
    learner = spec.make(setting)
    learner.play(arrivals.users, arrivals.contexts % 2, arrivals.outcomes)
    recommended = learner.action_probabilities(np.arange(20))
    np.testing.assert_array_equal(recommended[2], np.full(4, 0.25))
    assert (recommended[:2].max(axis=1) > 0.25).all()


@every_baseline
def test_the_best_action_is_found_without_an_attack(spec: LearnerSpec, streams: Streams) -> None:
    setting = small_setting(
        streams("play"), n_users=5, n_contexts=2, n_actions=3, interactions_per_user=2000
    )
    scene = streams("scene")
    best = np.array([1, 2])
    contexts = scene.integers(2, size=10_000)
    outcomes = scene.uniform(-0.1, 0.1, size=(10_000, 3))
    outcomes[np.arange(10_000), best[contexts]] += 1.0
    learner = spec.make(setting)
    learner.play(np.arange(10_000) % 5, contexts, outcomes)
    # Rewards are 1 ± 0.1 for the best and 0 ± 0.1 for the others, so every mean of the best action
    # is above every other mean: learners that recommend the best mean are always right once each
    # action was played. BARBAR and Liu divide by planned plays n. For the best action n is at least
    # 4·lambda = 275 after two epochs, so its estimate is below 1/2 with probability at most
    # exp(-n·(1/2)²/2.2) < 1e-13 (multiplicative Chernoff, rewards at most 1.1). The other
    # estimates, sums of noise within ±0.1 of variance 1/300, are above 1/2 with far smaller
    # probability.
    if isinstance(learner, Barbar | LiuStyle):
        assert learner.epochs.min() >= 3
    expected = np.eye(3)[best]
    np.testing.assert_array_equal(learner.action_probabilities(np.arange(5)), expected)


def attacked(rng: np.random.Generator, *, n: int, size: float) -> Arrivals:
    """Return a push attack: 2 of 10 users report ``size`` for action 0; action 2 is the best."""
    users = rng.integers(10, size=n)
    contexts = rng.integers(2, size=n)
    outcomes = np.tile([0.0, 0.5, 1.0], (n, 1))
    outcomes[users < 2] = [size, 0.0, -size]
    return Arrivals(users, contexts, outcomes)


@pooled_baseline
def test_a_fifth_of_the_users_misleads_pooled_learners(spec: LearnerSpec, streams: Streams) -> None:
    """Negative control: a learner that pools all users recommends the pushed action."""
    setting = small_setting(
        streams("play"), n_users=10, n_contexts=2, n_actions=3, interactions_per_user=2000
    )
    learner = spec.make(setting)
    learner.play(*attacked(streams("attack"), n=20_000, size=1e6))
    assert learner.action_probabilities(np.arange(2, 10)).tolist() == [[1, 0, 0], [1, 0, 0]]


def test_independent_ucb_serves_good_users_whatever_others_report(streams: Streams) -> None:
    setting = small_setting(
        streams("play"), n_users=10, n_contexts=2, n_actions=3, interactions_per_user=200
    )
    learner = BASELINES["independent-ucb"].make(setting)
    learner.play(*attacked(streams("attack"), n=2000, size=1e6))
    # Good rewards have no noise here, so three plays of a context are enough; a good user has
    # fewer than three with probability below 1e-35 (100 expected).
    assert learner.action_probabilities(np.arange(2, 10)).tolist() == [[0, 0, 1], [0, 0, 1]]


@every_baseline
def test_huge_rewards_do_not_cause_nan(spec: LearnerSpec, streams: Streams) -> None:
    setting = small_setting(streams("play"), interactions_per_user=500)
    scene = streams("scene")
    n = 10_000
    users, contexts = scene.integers(20, size=n), scene.integers(3, size=n)
    outcomes = 1e6 * scene.standard_cauchy((n, 4))
    outcomes[::3] = scene.choice([-1e6, 1e6, -1e100, 1e100], size=outcomes[::3].shape)
    learner = spec.make(setting)
    actions = learner.play(users, contexts, outcomes)
    assert 0 <= actions.min() <= actions.max() < 4
    recommended = learner.action_probabilities(np.arange(20))
    assert np.isfinite(recommended).all()
    np.testing.assert_allclose(recommended.sum(axis=1), 1.0)
    for name, state in vars(learner).items():
        if isinstance(state, np.ndarray):
            assert np.isfinite(state).all(), name


@every_baseline
def test_a_single_action_and_a_single_arrival_are_supported(
    spec: LearnerSpec, rng: np.random.Generator
) -> None:
    setting = small_setting(rng, n_users=1, n_contexts=1, n_actions=1, interactions_per_user=1)
    learner = spec.make(setting)
    zero = np.zeros(1, dtype=np.int64)
    assert learner.play(zero[:0], zero[:0], np.empty((0, 1))).tolist() == []
    assert learner.play(zero, zero, np.ones((1, 1))).tolist() == [0]
    assert learner.action_probabilities(zero).tolist() == [[1.0]]


@every_baseline
@pytest.mark.parametrize(
    ("user", "context", "width", "message"),
    [
        (20, 0, 4, r"^a user is not in 0..19: number the users from 0.$"),
        (-1, 0, 4, r"^a user is not in 0..19: number the users from 0.$"),
        (0, 3, 4, r"^a context is not in 0..2: number the contexts from 0.$"),
        (0, -1, 4, r"^a context is not in 0..2: number the contexts from 0.$"),
        (0, 0, 5, r"and \(2, 5\): give \(n,\), \(n,\) and \(n, 4\).$"),
    ],
)
def test_arrivals_that_do_not_fit_the_setting_are_rejected(
    spec: LearnerSpec, user: int, context: int, width: int, message: str, rng: np.random.Generator
) -> None:
    learner = spec.make(small_setting(rng))
    with pytest.raises(InputError, match=message):
        learner.play(np.array([0, user]), np.array([0, context]), np.zeros((2, width)))
