"""The baselines that were added for regret: what sets each apart from its neighbours."""

import numpy as np
import pytest

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
    epoch = int(learner.epochs[0])
    assert epoch > 2
    assert learner.planned[0].sum() == pytest.approx(3 * learner.unit_plays * 4.0 ** (epoch - 1))
    assert learner.planned[0].argmax() == 1
    barbar = Barbar(a_setting(rng), constant=0.5)
    played(barbar, rng)
    assert barbar.planned[0].sum() < 3 * barbar.unit_plays * 4.0 ** (barbar.epochs[0] - 1)


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
