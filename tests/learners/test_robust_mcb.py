from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unswayed import Events, InputError, RobustMCB

MEANS = {"home": {"tea": 0.3, "milk": 0.7}, "search": {"tea": 0.8, "milk": 0.4}}
SECRET = bytes(range(16))


def reward_of(rng: np.random.Generator, user: int, context: str, action: str) -> float:
    """Return a reward; every fifth user is in a coalition that reverses all rewards."""
    mean = MEANS[context][action]
    return -20 * mean if user % 5 == 0 else float(rng.random() < mean)


def run_online(rng: np.random.Generator, learner: RobustMCB, n_users: int, n_plays: int) -> Any:
    rows = []
    for play in range(n_plays * n_users):
        user, context = play % n_users, str(rng.choice(["home", "search"]))
        action = str(learner.decide(user, context))
        reward = reward_of(rng, user, context, action)
        learner.observe(user, context, action, reward)
        rows.append((user, context, action, reward))
    return rows


def shop(**options: Any) -> RobustMCB:
    return RobustMCB(
        0.2, actions=["tea", "milk"], contexts=["home", "search"], secret=SECRET, **options
    )


def test_learning_online_finds_the_good_users_best_actions(rng: np.random.Generator) -> None:
    """The pooled means are the negative control: the coalition reverses them."""
    learner = shop()
    rows = run_online(rng, learner, n_users=400, n_plays=15)
    policy = learner.policy()
    assert [policy.decide("home").action, policy.decide("search").action] == ["milk", "tea"]
    for context, best, worst in (("home", "milk", "tea"), ("search", "tea", "milk")):
        pooled = {
            action: np.mean([row[3] for row in rows if row[1:3] == (context, action)])
            for action in (best, worst)
        }
        assert pooled[best] < pooled[worst]


def test_fitting_the_log_gives_the_policy_that_was_learned_online(rng: np.random.Generator) -> None:
    """A fit divides groups of inactive users evenly; online they are known exactly."""
    learner = shop()
    rows = run_online(rng, learner, n_users=200, n_plays=20)
    online = learner.policy()
    log = Events.of(*zip(*rows, strict=True), action_labels=["tea", "milk"])
    fitted = RobustMCB(0.2).fit(log)
    assert fitted.predict(["home", "search"]) == [
        online.decide("home").action,
        online.decide("search").action,
    ]
    expected = np.array([online.mean_rewards[online.context_labels.code(s)] for s in MEANS])
    np.testing.assert_allclose(fitted.predict_expectations(list(MEANS)), expected, rtol=0.05)


def test_deciding_in_batches_equals_deciding_one_by_one() -> None:
    one, many = shop(), shop()
    users = [0, 1, 0, 2, 1, 0]
    contexts = ["home", "search", "home", "new", "new", "new"]
    singly = [one.decide(user, context) for user, context in zip(users, contexts, strict=True)]
    assert many.decide_many(users, contexts) == singly


def test_users_keep_their_action_in_frequent_contexts_only() -> None:
    learner = shop()
    assert len({learner.decide("ann", "home") for _ in range(20)}) == 1
    assert {learner.decide("ann", "surprise") for _ in range(40)} == {"tea", "milk"}


def test_decisions_can_be_checked_later_with_the_secret_alone() -> None:
    other = RobustMCB(actions=["tea", "milk"], contexts=["home", "search"])
    first, second, third = (
        learner.decide_many(list(range(50)), ["home"] * 50) for learner in (shop(), shop(), other)
    )
    assert first == second != third


Call = Callable[[], object]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RobustMCB(0.5), "below 0.5"),
        (lambda: RobustMCB(-0.1), "at least 0"),
        (lambda: RobustMCB(float("nan")), "below 0.5"),
        (lambda: RobustMCB(method="magic"), "Choices: .*paper"),
        (lambda: RobustMCB(actions=["only"]), "at least two"),
        (lambda: RobustMCB(actions=["a", "a"]), "given twice"),
        (lambda: RobustMCB(secret=b"short"), "needs 16"),
        (lambda: shop().observe("u", "home", "beer", 1.0), "row 0: action 'beer'"),
        (lambda: shop().observe("u", "home", "tea", float("nan")), "row 0: reward is nan"),
        (lambda: shop().decide_many(["u", 1], ["home", "home"]), "labels must be all of one type"),
        (lambda: RobustMCB().fit(Events.of(["u"], ["s"], ["a"], [1.0])), "at least two"),
        (lambda: RobustMCB().fit(Events.of([], [], [], [], action_labels=["a", "b"])), "no inter"),
    ],
)
def test_invalid_input_is_named_in_one_sentence(call: Call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_a_batch_with_a_bad_row_is_refused_completely() -> None:
    learner = shop()
    with pytest.raises(InputError):
        learner.observe_many([1, 2], ["home", "home"], ["tea", "tea"], [1.0, float("inf")])
    with pytest.raises(InputError, match="nothing to learn from yet"):
        learner.policy()


def test_a_forged_play_is_refused_and_has_no_effect(rng: np.random.Generator) -> None:
    """If it counted as a warm-up, this single play would determine the frequent contexts."""
    learner = shop()
    run_online(rng, learner, n_users=100, n_plays=5)
    before = learner.policy()
    other = {"tea": "milk", "milk": "tea"}[str(learner.decide(1, "home"))]
    with pytest.raises(InputError, match="row 1: this user is never asked to play"):
        learner.observe_many([1, 1], ["home", "home"], [learner.decide(1, "home"), other], [1, 1])
    np.testing.assert_array_equal(learner.policy().mean_rewards, before.mean_rewards)


@pytest.mark.parametrize("alpha", [0.1, "auto"])
def test_rewards_may_be_free_of_noise(alpha: Any, rng: np.random.Generator) -> None:
    """Means of equal rewards differ by rounding errors, which must not count as variance."""
    users, actions = np.repeat(np.arange(150), 12), rng.integers(2, size=1800)
    contexts = rng.integers(2, size=1800)
    log = Events.of(users, contexts, actions, 0.4 * (actions == 1))
    learner = RobustMCB(alpha).fit(log)
    assert learner.predict([0, 1]) == [1, 1]
    np.testing.assert_allclose(learner.predict_expectations([0, 1]), [[0.0, 0.4]] * 2, atol=1e-9)
