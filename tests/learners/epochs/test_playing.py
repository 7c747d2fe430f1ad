"""The epoch learner in the arena; the oracle and pooled UCB are the yardsticks."""

import numpy as np
import pytest

from unswayed.learners.interface import Setting
from unswayed.learners.players import EpochPlayer
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Regrets, run_regret
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Goal, run_repetition

USERS, ROUNDS = 400, 64


def regrets(
    algorithm: str, attack: str, seed: int, *, contexts: int = 4, actions: int = 4
) -> Regrets:
    settings = Settings(
        contexts=contexts,
        actions=actions,
        users=USERS,
        interactions=ROUNDS,
        alpha=0.2,
        attack=attack,
        algorithms=(algorithm,),
        seed=seed,
    )
    return run_regret(
        settings.instance(0),
        make_attack(attack),
        find_algorithm(algorithm).make,
        settings.crowd(),
        algorithm=algorithm,
        seed=seed,
        path=(0,),
    )


@pytest.mark.parametrize(
    ("attack", "contexts", "actions"),
    [
        ("push", 4, 4),
        ("epoch-strike", 8, 3),
        pytest.param("epoch-sleeper", 4, 4, marks=pytest.mark.slow),
    ],
)
def test_a_coalition_costs_good_users_little(
    attack: str, contexts: int, actions: int, seed: int
) -> None:
    """Uniform play costs about 0.3 (1 - 1/A) a round; a lasting lie 0.3 a round."""
    ours = regrets("epochs", attack, seed, contexts=contexts, actions=actions)
    assert ours.by_user.mean() < 0.5 * 0.3 * ROUNDS * (1 - 1 / actions)
    if attack == "push":  # the negative control
        naive = regrets("naive-ucb", attack, seed, contexts=contexts, actions=actions)
        assert naive.by_user.mean() > 2.0 * ours.by_user.mean()


def test_a_ladder_climbs_into_the_cluster_of_good_users_and_not_into_epochs(seed: int) -> None:
    """The same accounts without rungs are the negative control: clusters leave them alone."""

    def lost(algorithm: str, rungs: float) -> float:
        settings = Settings(
            contexts=4,
            actions=4,
            users=USERS,
            interactions=ROUNDS,
            alpha=0.2,
            attack="ladder",
            knobs={"rungs": rungs},
            algorithms=(algorithm,),
            seed=seed,
        )
        return run_repetition(settings, algorithm, 0, Goal.REGRET).loss

    ladder = lost("rclub", 0.5)
    assert ladder > 0.5 * 0.3 * ROUNDS
    assert lost("rclub", 0.0) < 0.5 * ladder
    assert lost("epochs", 0.5) < 0.5 * ladder


def test_nobody_explores_much_more_than_others(seed: int) -> None:
    """A share that explores whole epochs is the negative control."""
    spread, share = (
        regrets(algorithm, "honest", seed).by_user for algorithm in ("epochs", "epochs-share")
    )
    assert spread.max() < 3.0 * np.median(spread)
    assert share.max() / np.median(share) > spread.max() / np.median(spread)


def test_regret_over_time_ends_at_the_mean_over_users(seed: int) -> None:
    found = regrets("oracle-ucb", "push", seed)
    assert len(found.over_time) == ROUNDS
    assert (np.diff(found.over_time) >= 0).all()
    assert found.over_time[-1] == pytest.approx(found.by_user.mean())
    assert len(found.by_user) == 0.8 * USERS


def test_the_papers_estimates_keep_sticky_groups_and_others_draw_per_play(
    rng: np.random.Generator,
) -> None:
    setting = Setting(
        n_users=20,
        n_contexts=2,
        n_actions=3,
        interactions_per_user=5,
        alpha=0.1,
        rng=rng,
    )
    assert EpochPlayer(setting, method="paper").plan.rules[0].is_sticky
    assert not EpochPlayer(setting).plan.rules[0].is_sticky
