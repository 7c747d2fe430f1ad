"""A small world for tests, large enough that pooled means are right without lies."""

from __future__ import annotations

from unswayed.learners.interface import LearnerMaker
from unswayed.randomness import generator
from unswayed.simulation.arena import Crowd, Match
from unswayed.simulation.arrivals import Arrivals
from unswayed.simulation.attacks.base import Attack
from unswayed.simulation.instances import Instance, RewardLaw, random_instance

GAP = 0.1
N_CONTEXTS, N_ACTIONS = 4, 5

CROWD = Crowd(n_users=400, interactions_per_user=60, alpha=0.3)


def small_instance(seed: int, *path: int | str, law: RewardLaw = RewardLaw.BERNOULLI) -> Instance:
    """Return a random instance of four contexts and five actions."""
    return random_instance(
        n_contexts=N_CONTEXTS,
        n_actions=N_ACTIONS,
        gap=GAP,
        rng=generator(seed, *path, "instance"),
        law=law,
    )


def loss(
    attack: Attack,
    make: LearnerMaker,
    *,
    seed: int,
    law: RewardLaw = RewardLaw.BERNOULLI,
    crowd: Crowd = CROWD,
) -> float:
    """Return the suboptimality of a learner under an attack in the small world."""
    instance = small_instance(seed, law=law)
    return Match(instance, attack, make, crowd, algorithm="tested", seed=seed).loss()


def crowd_with(*, arrivals: Arrivals | None = None, perturbation: float = 0.0) -> Crowd:
    """Return a small, short crowd."""
    return Crowd(
        n_users=60,
        interactions_per_user=8,
        alpha=0.2,
        arrivals=arrivals or Arrivals(),
        perturbation=perturbation,
    )
