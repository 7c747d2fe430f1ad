from __future__ import annotations

import numpy as np
import pytest

from tests.simulation.learners import Believer
from tests.simulation.worlds import crowd_with, small_instance
from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.learners.interface import Setting
from unswayed.simulation.arena import Crowd, Match
from unswayed.simulation.arrivals import Arrivals, Order
from unswayed.simulation.attacks.base import Attack, Turn
from unswayed.simulation.attacks.registry import make_attack


class Recorder(Believer):
    """A ``Believer`` that records its rounds."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.shown: list[tuple[IntArray, IntArray, FloatArray]] = []

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Record the round, then play."""
        self.shown.append((users.copy(), contexts.copy(), outcomes.copy()))
        return super().play(users, contexts, outcomes)


class LazyRecorder(Recorder):
    """Another algorithm: always plays the first action."""

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Record the round, then play action 0."""
        self.shown.append((users.copy(), contexts.copy(), outcomes.copy()))
        return np.zeros(users.size, dtype=np.int64)


def recorded(
    kind: type[Recorder], attack: Attack, *, seed: int, crowd: Crowd
) -> tuple[Recorder, IntArray]:
    """Run one recorder and return it with the coalition's user codes."""
    match = Match(small_instance(seed), attack, kind, crowd, algorithm=kind.__name__, seed=seed)
    match.loss()
    assert isinstance(match.learner, Recorder)
    return match.learner, attack.briefing.accounts


@pytest.mark.parametrize("order", Order)
def test_good_users_do_not_depend_on_learner_or_attack(order: Order, seed: int) -> None:
    crowd = crowd_with(arrivals=Arrivals(order=order), perturbation=0.1)
    first, accounts = recorded(Recorder, make_attack("push"), seed=seed, crowd=crowd)
    other, same_accounts = recorded(
        LazyRecorder, make_attack("runner-up-swap"), seed=seed, crowd=crowd
    )
    np.testing.assert_array_equal(accounts, same_accounts)
    assert accounts.size == 12
    (users, contexts, outcomes), (users_, contexts_, outcomes_) = (
        [np.concatenate(parts) for parts in zip(*learner.shown, strict=True)]
        for learner in (first, other)
    )
    np.testing.assert_array_equal(users, users_)
    is_good = ~np.isin(users, accounts)
    np.testing.assert_array_equal(contexts[is_good], contexts_[is_good])
    np.testing.assert_array_equal(outcomes[is_good], outcomes_[is_good])
    assert not np.array_equal(outcomes[~is_good], outcomes_[~is_good])


def test_contexts_and_good_outcomes_follow_the_instance(seed: int) -> None:
    crowd = Crowd(n_users=500, interactions_per_user=40, alpha=0.2)
    learner, accounts = recorded(Recorder, make_attack("push"), seed=seed, crowd=crowd)
    instance = small_instance(seed)
    users, contexts, outcomes = (
        np.concatenate(parts) for parts in zip(*learner.shown, strict=True)
    )
    is_good = ~np.isin(users, accounts)
    contexts, outcomes = contexts[is_good], outcomes[is_good]
    n = contexts.size
    shares = np.bincount(contexts, minlength=4) / n
    # Binomial shares of 1/4 over n = 16,000 draws; five standard errors.
    assert np.abs(shares - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / n)
    for context in range(4):
        means = outcomes[contexts == context].mean(axis=0)
        bound = 5 * np.sqrt(0.25 / (contexts == context).sum())
        assert np.abs(means - instance.mean_rewards[context]).max() < bound


def test_runs_are_reproducible_and_depend_on_seed_and_path(seed: int) -> None:
    def answers_of(seed: int, path: tuple[int, ...]) -> FloatArray:
        match = Match(
            small_instance(0),
            make_attack("runner-up-swap"),
            Believer,
            crowd_with(),
            algorithm="recorder",
            seed=seed,
            path=path,
        )
        return np.concatenate([played.rewards for played in match.rounds()])

    first = answers_of(seed, (0,))
    np.testing.assert_array_equal(first, answers_of(seed, (0,)))
    assert not np.array_equal(first, answers_of(seed, (1,)))
    assert not np.array_equal(first, answers_of(seed + 1, (0,)))


def test_learners_get_the_assumed_share_instead_of_the_true_one(seed: int) -> None:
    told: list[float] = []

    def make(setting: Setting) -> Believer:
        told.append(setting.alpha)
        return Believer(setting)

    for assumed in (None, 0.05):
        crowd = Crowd(n_users=50, interactions_per_user=2, alpha=0.3, assumed_fraction=assumed)
        attack = make_attack("push")
        Match(small_instance(seed), attack, make, crowd, algorithm="x", seed=seed)
        assert attack.briefing.n_accounts == 15
    assert told == [0.3, 0.05]


@pytest.mark.parametrize(
    ("share", "n_users", "expected"), [(0.29, 100, 29), (0.3, 5, 1), (0, 9, 0)]
)
def test_the_coalition_is_never_larger_than_its_share(
    share: float, n_users: int, expected: int
) -> None:
    crowd = Crowd(n_users=n_users, interactions_per_user=1, alpha=share)
    assert crowd.n_accounts == expected


class Misfit(Attack):
    """Returns invalid rewards or contexts."""

    name = "misfit"
    summary = "wrong"

    def __init__(self, reward: float, context: int) -> None:
        self.reward, self.context = reward, context

    def contexts(self, turn: Turn) -> IntArray:
        """Return the same context for all arrivals."""
        return np.full(turn.contexts.size, self.context)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return the same reward for all actions."""
        return np.full((turn.contexts.size, self.briefing.n_actions), self.reward)


@pytest.mark.parametrize(
    ("reward", "context", "named"),
    [
        (np.nan, 0, "not finite numbers"),
        (np.inf, 0, "not finite numbers"),
        (0.0, 4, "do not exist"),
    ],
)
def test_invalid_output_of_attacks_is_rejected(
    reward: float, context: int, named: str, seed: int
) -> None:
    with pytest.raises(InputError, match=named):
        Match(
            small_instance(seed),
            Misfit(reward, context),
            Believer,
            crowd_with(),
            algorithm="x",
            seed=seed,
        ).loss()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"n_users": 0}, "users"),
        ({"interactions_per_user": 0}, "interactions"),
        ({"alpha": 0.5}, "alpha"),
        ({"assumed_fraction": -0.1}, "assumed_fraction"),
        ({"perturbation": float("nan")}, "perturbation"),
    ],
)
def test_invalid_crowds_are_rejected(wrong: dict[str, float], named: str) -> None:
    right = {"n_users": 10, "interactions_per_user": 2, "alpha": 0.2}
    with pytest.raises(InputError, match=named):
        Crowd(**(right | wrong))  # type: ignore[arg-type]  # wrong on purpose
