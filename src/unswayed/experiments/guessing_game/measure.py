"""The guessing game of the proof, and learners who play it against a coalition that hides."""

from __future__ import annotations

import numpy as np

from unswayed.experiments.theorem_lower.measure import BASE, HideContested
from unswayed.limits import two_sided_adversaries
from unswayed.randomness import generator
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Crowd, run
from unswayed.simulation.instances import Instance, uniform_probabilities
from unswayed.simulation.rewards import RewardLaw
from unswayed.simulation.settings import Settings

RIGHT_PLAYS = 100
"""Ours: n of the game. The proof takes n of the order alpha²/epsilon²."""

HIDDEN_PLAYS = 9
"""What two-sided hiding covers at a gap of 0.1 and 20 % colluders."""


def wins(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:  # noqa: ARG001 - no coalition
    """Return 1 if some user has played right actions n times, who cannot know them; else 0.

    ``algorithm`` is "sticky", one action of each context for each user for good, or "uniform", a
    new action each time. Right actions are drawn after the plays, as the proof has it.
    """
    rng = generator(settings.seed, repetition, "guessing")
    n_users, n_contexts, n_actions = settings.users, settings.contexts, settings.actions
    visits = rng.multinomial(settings.interactions, uniform_probabilities(n_contexts), size=n_users)
    if algorithm == "sticky":
        actions = rng.integers(n_actions, size=(n_users, n_contexts))
        right = rng.integers(n_actions, size=n_contexts)
        hits = (visits * (actions == right)).sum(axis=1)
    else:
        hits = rng.binomial(visits, 1.0 / n_actions).sum(axis=1)
    return float(hits.max() >= RIGHT_PLAYS)


def right_decisions(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:  # noqa: ARG001 - one coalition
    """Return the share of contexts for which the right action is recommended.

    One action of each context, drawn at random, pays BASE + gap, all others BASE. Colluders answer
    for right actions from urns that hide the difference for ``HIDDEN_PLAYS`` right plays of a user.
    """
    gap, n_users = settings.gap, settings.users
    rng = generator(settings.seed, repetition, "right actions")
    right = rng.integers(settings.actions, size=settings.contexts)
    means = np.full((settings.contexts, settings.actions), BASE)
    means[np.arange(settings.contexts), right] += gap
    adversary = two_sided_adversaries(gap, HIDDEN_PLAYS, settings.alpha, base=BASE).better
    size = generator(settings.seed, repetition, "coalition size").binomial(n_users, settings.alpha)
    loss = run(
        Instance(
            context_probabilities=uniform_probabilities(settings.contexts),
            mean_rewards=means,
            law=RewardLaw.BERNOULLI,
        ),
        HideContested(adversary=adversary, contested=right),
        find_algorithm(algorithm).make,
        Crowd(
            n_users=n_users,
            interactions_per_user=settings.interactions,
            adversarial_fraction=size / n_users,
            assumed_fraction=settings.alpha,
        ),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    return round(1.0 - loss / gap, 12)
