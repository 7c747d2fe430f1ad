import numpy as np
import pytest

from unswayed.arrays import BoolArray, FloatArray
from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.learners.tastes import LEVEL, Personal, personal_decisions, residuals_of
from unswayed.policy import Policy
from unswayed.tallies import Tallies, tally

USERS, CONTEXTS, ACTIONS, NOISE = 300, 4, 3, 0.3
COMMON = np.array([[0.2, 0.6, 0.3], [0.7, 0.3, 0.2], [0.1, 0.2, 0.5], [0.5, 0.2, 0.1]])


def a_log(
    rng: np.random.Generator, tastes: FloatArray, *, rounds: int, liars: BoolArray | None = None
) -> Tallies:
    """Everybody plays uniformly; liars give rewards of 5 for the last action."""
    users = np.repeat(np.arange(USERS), rounds)
    contexts = rng.integers(CONTEXTS, size=len(users))
    actions = rng.integers(ACTIONS, size=len(users))
    rewards = (COMMON + tastes)[users, contexts, actions] + NOISE * rng.standard_normal(len(users))
    if liars is not None:
        rewards = np.where(liars[users] & (actions == ACTIONS - 1), 5.0, rewards)
    return tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=USERS,
        n_contexts=CONTEXTS,
        n_actions=ACTIONS,
    )


def the_policy() -> Policy:
    return Policy(
        context_labels=Labels.of(["a", "b", "c", "d"]),
        action_labels=Labels.of(["tea", "milk", "water"]),
        mean_rewards=COMMON,
        low=COMMON - 0.1,
        high=COMMON + 0.1,
        counts=np.full(COMMON.shape, 9),
        context_probabilities=np.full(4, 0.25),
        alpha=0.1,
        method="paper",
    )


def learned(tallies: Tallies) -> Personal:
    names = Labels.of([f"user-{i}" for i in range(USERS)])
    return personal_decisions(tallies, the_policy(), names, alpha=0.1)


def losses(found: Personal, tastes: FloatArray) -> FloatArray:
    """Return what each user loses against their own best actions; shape (n_users,)."""
    actions = np.tile(COMMON.argmax(axis=1), (USERS, 1))
    owners = np.array([int(str(name)[5:]) for name in found.decisions.user_labels], dtype=np.int64)
    actions[owners[found.decisions.users], found.decisions.contexts] = found.decisions.actions
    means = COMMON + tastes
    chosen = np.take_along_axis(means, actions[:, :, None], axis=2)[:, :, 0]
    lost: FloatArray = (means.max(axis=2) - chosen).mean(axis=1)
    return lost


NONE = np.zeros((USERS, CONTEXTS, ACTIONS))


def test_who_fits_the_common_taste_pays_nothing(rng: np.random.Generator) -> None:
    found = learned(a_log(rng, NONE, rounds=60))
    # Each user passes the test with probability LEVEL; Hoeffding for 300 users at 1 in 10^6.
    assert found.n_different <= USERS * LEVEL + np.sqrt(USERS * np.log(1e6) / 2)
    assert losses(found, NONE).mean() < 0.001
    assert found.noise == pytest.approx(NOISE, rel=0.05)


def test_who_differs_gets_their_own_policy(rng: np.random.Generator) -> None:
    """A tenth of the users like another action in context "a"; the common policy costs them 0.4."""
    tastes = NONE.copy()
    tastes[:30, 0, 0] = 0.8
    found = learned(a_log(rng, tastes, rounds=120))
    lost = losses(found, tastes)
    common = (COMMON + tastes).max(axis=2) - (COMMON + tastes)[:, range(4), COMMON.argmax(axis=1)]
    assert common.mean(axis=1)[:30].mean() == pytest.approx(0.1)  # the negative control
    assert lost[:30].mean() < 0.03
    assert lost[30:].mean() < 0.002


def test_dense_differences_are_worth_learning_when_they_are_large(
    rng: np.random.Generator,
) -> None:
    tastes = rng.uniform(-0.6, 0.6, NONE.shape)
    lost = losses(learned(a_log(rng, tastes, rounds=200)), tastes).mean()
    common = losses(learned(a_log(rng, NONE, rounds=20)), tastes).mean()
    assert lost < common / 4


def test_a_coalition_distorts_only_its_own_decisions(
    streams: object,
) -> None:
    is_liar = np.arange(USERS) < 30
    honest = learned(a_log(streams("x"), NONE, rounds=60))  # type: ignore[operator]
    attacked = learned(a_log(streams("x"), NONE, rounds=60, liars=is_liar))  # type: ignore[operator]
    good = {f"user-{i}" for i in range(30, USERS)}
    assert good & set(attacked.decisions.user_labels) <= good & set(honest.decisions.user_labels)
    assert len(set(attacked.decisions.user_labels) - good) == 30


def test_p_values_are_uniform_or_larger_without_tastes(rng: np.random.Generator) -> None:
    found = residuals_of(a_log(rng, NONE, rounds=100), COMMON, alpha=0.1)
    for level in (0.05, 0.2, 0.5):
        share = (found.p_values < level).mean()
        assert share < level + np.sqrt(np.log(1e6) / (2 * USERS))


def test_tastes_without_repeated_plays_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="twice"):
        learned(a_log(rng, NONE, rounds=1))
    frozen = tally(
        np.repeat(np.arange(USERS), 4),
        np.zeros(4 * USERS, np.int64),
        np.zeros(4 * USERS, np.int64),
        np.ones(4 * USERS),
        n_users=USERS,
        n_contexts=CONTEXTS,
        n_actions=ACTIONS,
    )
    with pytest.raises(InputError, match="never vary"):
        learned(frozen)
