"""Account names chosen so that the accounts fall into one group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.interface import IntArray
from unswayed.policy import Assignment
from unswayed.policy.assignment import SECRET_BYTES
from unswayed.simulation.attacks.base import Offer
from unswayed.simulation.attacks.briefing import Knowledge
from unswayed.simulation.attacks.loud import Push


@dataclass(kw_only=True)
class IdGrinding(Push):
    """Push, from accounts whose names fall into the target's group of one context.

    The coalition hashes candidate names as the algorithm does, with the secret it believes in. Of
    the group's names it takes the share that freely chosen names would give it,
    alpha A / (1 - alpha + alpha A) instead of alpha; the other accounts have random names. Against
    a secret that it does not hold, its names fall at random.

    Parameters
    ----------
    context
        The context whose group is ground.
    secret
        What the coalition takes for the secret, in hexadecimal; the default is all zeros, as if
        the hash were not keyed.
    """

    name = "id-grinding"
    summary = "push from account names chosen to fall into one group of a guessable assignment"
    knows = Knowledge.ALGORITHM
    context: int = 0
    secret: str = "00" * SECRET_BYTES

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            bytes.fromhex(self.secret)
        except ValueError:
            raise InputError(f"secret is '{self.secret}': it must be hexadecimal.") from None

    def enrol(self, offer: Offer, rng: np.random.Generator) -> IntArray:
        """Return names, as many of the target's group as wanted and the rest at random."""
        if not 0 <= self.context < offer.n_contexts:
            raise InputError(
                f"context {self.context} does not exist: there are {offer.n_contexts}."
            )
        guess = Assignment(secret=bytes.fromhex(self.secret))
        users = guess.digests("user", range(offer.n_users))
        contexts = np.repeat(guess.digests("context", [self.context]), offer.n_users)
        actions = guess.actions(users, contexts, n_actions=offer.n_actions)
        names = rng.permutation(offer.n_users)
        in_group = names[actions[names] == offer.aim.target[self.context]]
        share = offer.n_accounts / offer.n_users
        freely = share * offer.n_actions / (1.0 - share + share * offer.n_actions)
        ground = in_group[: min(round(freely * in_group.size), offer.n_accounts)]
        others = names[~np.isin(names, in_group)][: offer.n_accounts - ground.size]
        return np.concatenate([ground, others])
