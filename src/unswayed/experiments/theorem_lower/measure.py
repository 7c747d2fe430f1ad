"""Two worlds that differ in one action, and a coalition that hides the difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.limits import HidingAdversary, one_sided_adversary, two_sided_adversaries
from unswayed.randomness import generator
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Crowd, run
from unswayed.simulation.attacks.base import Attack, Turn
from unswayed.simulation.attacks.briefing import Briefing
from unswayed.simulation.attacks.knowledge import Knowledge
from unswayed.simulation.instances import Instance
from unswayed.simulation.rewards import RewardLaw
from unswayed.simulation.settings import Settings

BASE = 0.5
"""The paper's: ordinary actions pay B(1/2)."""

ONE_SIDED, TWO_SIDED = "hidden-one-sided", "hidden-two-sided"


@dataclass(kw_only=True)
class HideContested(Attack):
    """Honest, except that one action of each context is answered from urns that hide its worth.

    The zoo's hiding attacks contest best and runner-up together, so that a learner who plays both
    with the same user sees more than one action tells. Here one action is contested and the other
    is the same in both worlds, which makes the bound exact for every learner.
    """

    name = "hide-contested"
    summary = "one action of each context answered from urns that hide how good it is"
    knows = Knowledge.BANDIT
    adversary: HidingAdversary
    contested: IntArray

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Fill the urns."""
        super().begin(briefing, rng)
        self._urns = self.adversary.start(briefing.n_accounts, rng)

    def answers(self, turn: Turn) -> FloatArray:
        """Return honest draws, with the contested actions from the account's one urn.

        Urns are in random order, so what is shown of one is hidden as well as its beginning.
        """
        means = self.briefing.mean_rewards[turn.contexts]
        answers = self.briefing.honest_answers(means, self.rng)
        contested = self.contested[turn.contexts]
        answers[np.arange(len(contested)), contested] = self._urns.draw(turn.accounts, self.rng)
        return answers


def success(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return the probability that the learner recommends the better action.

    Action 0 always pays BASE + gap/2. Action 1 pays BASE in even repetitions, the ordinary world,
    and BASE + gap in odd ones, the better world. Every user colludes independently with
    probability alpha, so that the users are independent draws, as Le Cam's bound needs; against
    the one-sided coalition the ordinary world is clean.
    """
    is_better = repetition % 2 == 1
    gap, alpha, n_users = settings.gap, settings.alpha, settings.users
    if attack == ONE_SIDED:
        adversary = one_sided_adversary(gap, settings.interactions, alpha, base=BASE)
    elif attack == TWO_SIDED:
        pair = two_sided_adversaries(gap, settings.interactions, alpha, base=BASE)
        adversary = pair.better if is_better else pair.ordinary
    else:
        raise InputError(f"attack {attack} does not hide: use {ONE_SIDED} or {TWO_SIDED}.")
    is_clean = attack == ONE_SIDED and not is_better
    size = generator(settings.seed, repetition, "coalition size").binomial(n_users, alpha)
    loss = run(
        Instance(
            context_probabilities=np.ones(1),
            mean_rewards=np.array([[BASE + gap / 2, BASE + gap * is_better]]),
            law=RewardLaw.BERNOULLI,
        ),
        HideContested(adversary=adversary, contested=np.array([1])),
        find_algorithm(algorithm).make,
        Crowd(
            n_users=n_users,
            interactions_per_user=settings.interactions,
            adversarial_fraction=0.0 if is_clean else size / n_users,
            assumed_fraction=alpha,
        ),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    # Whichever action is wrong loses half of the gap; rounding must not leave [0, 1].
    return round(1.0 - loss / (gap / 2), 12)
