"""What a repetition of most experiments yields: what one algorithm loses in the arena."""

from __future__ import annotations

from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import run, run_regret
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.settings import Settings


def suboptimality_in_arena(
    settings: Settings, algorithm: str, attack: str, repetition: int
) -> float:
    """Return what good users lose when the algorithm learns against the attack.

    The same number as `unswayed simulate` gives for these settings, seed and repetition.
    """
    return run(
        settings.instance(repetition),
        make_attack(attack),
        find_algorithm(algorithm).make,
        settings.crowd(),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )


def regret_in_arena(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return a good user's mean regret while the algorithm learns against the attack.

    The same number as `unswayed simulate --goal regret` gives.
    """
    regrets = run_regret(
        settings.instance(repetition),
        make_attack(attack),
        find_algorithm(algorithm).make,
        settings.crowd(),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    return float(regrets.by_user.mean())
