"""Baselines in the style of published ones: what sets each apart from its neighbours."""

import numpy as np
import pytest

from tests.learners.baselines.scenes import Arrivals, small_setting
from unswayed.learners.baselines import (
    Barbar,
    BarbatStyle,
    FedMomUCB,
    NaiveUCB,
    PhasedElimination,
    RclubStyle,
)
from unswayed.learners.interface import Learner, Setting

MEANS = np.array([0.2, 0.8, 0.4])
USERS = 200


def a_setting(rng: np.random.Generator, *, alpha: float = 0.2, rounds: int = 60) -> Setting:
    return Setting(
        n_users=USERS,
        n_contexts=1,
        n_actions=3,
        interactions_per_user=rounds,
        alpha=alpha,
        rng=rng,
    )


def played(
    learner: Learner, rng: np.random.Generator, *, rounds: int = 60, liars: int = 0
) -> np.ndarray:
    """Play rounds with everybody; liars praise action 0. Return actions, (rounds, users).

    Liars are spread over the order of arrival: who comes first speaks first.
    """
    is_liar = np.arange(USERS) * liars % USERS < liars
    actions = []
    users = np.arange(USERS)
    for _ in range(rounds):
        outcomes = MEANS + 0.3 * rng.standard_normal((USERS, 3))
        outcomes[is_liar] = [10.0, -10.0, -10.0]
        actions.append(learner.play(users, np.zeros(USERS, np.int64), outcomes))
    return np.array(actions)


def test_epochs_of_barbat_have_a_fixed_length_and_the_best_action_gets_the_rest(
    rng: np.random.Generator,
) -> None:
    learner = BarbatStyle(a_setting(rng), constant=0.5)
    played(learner, rng)
    epoch = int(learner.phases[0])
    assert epoch > 2
    assert learner.planned[0].sum() == pytest.approx(3 * learner.unit_plays * 4.0 ** (epoch - 1))
    assert learner.planned[0].argmax() == 1
    barbar = Barbar(a_setting(rng), constant=0.5)
    played(barbar, rng)
    assert barbar.planned[0].sum() < 3 * barbar.unit_plays * 4.0 ** (barbar.phases[0] - 1)


@pytest.mark.parametrize("kind", [FedMomUCB, RclubStyle])
def test_medians_and_clusters_withstand_a_loud_fifth_that_sways_the_pooled_mean(
    kind: type[FedMomUCB] | type[RclubStyle], rng: np.random.Generator
) -> None:
    good = np.flatnonzero(np.arange(USERS) % 5)
    late = played(kind(a_setting(rng)), rng, liars=40)[-10:, good]
    assert (late == 1).mean() > 0.9
    naive = played(NaiveUCB(a_setting(rng)), rng, liars=40)[-10:, good]
    assert (naive == 0).mean() > 0.9  # the negative control


def test_without_colluders_one_group_holds_everybody(rng: np.random.Generator) -> None:
    learner = FedMomUCB(a_setting(rng, alpha=0.0))
    played(learner, rng)
    learner.action_probabilities(np.arange(USERS))
    assert learner.medians[0, 1] == pytest.approx(0.8, abs=0.05)


def test_phased_elimination_keeps_the_best_action_and_drops_the_others(
    rng: np.random.Generator,
) -> None:
    learner = PhasedElimination(a_setting(rng, alpha=0.05, rounds=400))
    actions = played(learner, rng, rounds=400, liars=10)
    assert learner.is_active.tolist() == [[False, True, False]]
    assert (actions[-1] == 1).all()


def test_clusters_separate_users_of_opposite_taste(rng: np.random.Generator) -> None:
    learner = RclubStyle(a_setting(rng))
    users, contexts = np.arange(USERS), np.zeros(USERS, np.int64)
    for _ in range(520):  # edges are cut whenever the plays have doubled
        outcomes = MEANS + 0.3 * rng.standard_normal((USERS, 3))
        outcomes[:50] = 1.0 - outcomes[:50]
        learner.play(users, contexts, outcomes)
    first, second = set(learner.cluster_of[:50].tolist()), set(learner.cluster_of[50:].tolist())
    assert not first & second
    assert learner.action_probabilities(np.arange(50))[0].argmax() == 0
    assert learner.action_probabilities(np.arange(50, USERS))[0].argmax() == 1


@pytest.mark.parametrize(("n_plays", "is_cut"), [(13, False), (14, True)])
def test_an_edge_goes_when_the_difference_is_four_deviations_above_chance(
    n_plays: int, is_cut: bool, rng: np.random.Generator
) -> None:
    # One cell, n plays of each of two users, means 1/2 apart, noise of variance 1/4: the squared
    # difference n²/4 has mean n/2 and deviation n/√2 by chance. n/4 > 1/2 + 4/√2 from n = 14 on.
    setting = small_setting(rng, n_users=2, n_contexts=1, n_actions=1)
    learner = RclubStyle(setting)
    users = np.array([0, 1] * n_plays)
    rewards = np.where(users == 0, 0.25, 0.75)[:, None]
    learner.play(users, np.zeros(2 * n_plays, np.int64), rewards)
    assert len(set(learner.cluster_of.tolist())) == (2 if is_cut else 1)


def test_the_best_means_of_the_clusters_of_the_given_users_are_averaged(
    rng: np.random.Generator,
) -> None:
    setting = small_setting(rng, n_users=3, n_contexts=2, n_actions=2)
    learner = RclubStyle(setting)
    users = np.arange(60) % 3
    outcomes = np.where((users == 2)[:, None], [0.0, 100.0], [100.0, 0.0])
    for _ in range(2):  # cut, and each cluster tries what it has not played
        learner.play(users, np.zeros(60, np.int64), outcomes)
    first, second, third = learner.cluster_of
    assert first == second != third
    even = [0.5, 0.5]
    assert learner.action_probabilities(np.array([0])).tolist() == [[1.0, 0.0], even]
    assert learner.action_probabilities(np.array([2])).tolist() == [[0.0, 1.0], even]
    assert learner.action_probabilities(np.array([0, 0, 1, 2])).tolist() == [[0.75, 0.25], even]


def test_the_best_median_of_all_plays_so_far_is_recommended(rng: np.random.Generator) -> None:
    setting = small_setting(
        rng, n_users=5, n_contexts=2, n_actions=2, alpha=0.2
    )  # five groups of one user each
    learner = FedMomUCB(setting)
    assert np.isnan(learner.medians).all()
    assert learner.medians.shape == (2, 2)
    # Action 1 brings most users more, and its mean is far below; everybody comes ten times.
    users = np.tile(np.arange(5), 10)
    outcomes = np.where(users[:, None] == 4, [0.0, -1e6], [0.4, 0.6])
    learner.play(*Arrivals(users, np.zeros(50, np.int64), outcomes))
    recommended = learner.action_probabilities(np.arange(5))
    assert recommended.tolist() == [[0.0, 1.0], [0.5, 0.5]]
    assert np.isnan(learner.medians).tolist() == [[False, False], [True, True]]
