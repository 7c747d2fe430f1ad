"""The epoch learner in the arena, compared with the oracle and pooled UCB."""

import pytest

from unswayed.arrays import FloatArray
from unswayed.simulation.simulate import Settings

USERS, ROUNDS = 400, 64


def regrets(
    algorithm: str, attack: str, seed: int, *, contexts: int = 4, actions: int = 4
) -> FloatArray:
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
    return settings.match(algorithm, 0).regrets()


@pytest.mark.parametrize(("attack", "contexts", "actions"), [("push", 4, 4), ("sleeper", 8, 3)])
def test_a_coalition_causes_small_losses_of_good_users(
    attack: str, contexts: int, actions: int, seed: int
) -> None:
    """Uniform play costs about 0.3 (1 - 1/A) per round; a permanently wrong action costs 0.3."""
    ours = regrets("epochs", attack, seed, contexts=contexts, actions=actions)
    assert ours.mean() < 0.5 * 0.3 * ROUNDS * (1 - 1 / actions)
    if attack == "push":  # negative control
        naive = regrets("naive-ucb", attack, seed, contexts=contexts, actions=actions)
        assert naive.mean() > 2.0 * ours.mean()


def test_every_good_user_has_a_regret(seed: int) -> None:
    found = regrets("oracle-ucb", "push", seed)
    assert (found >= 0).all()
    assert len(found) == 0.8 * USERS
