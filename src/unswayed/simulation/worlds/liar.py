"""Small logs with one liar, who is as active as you like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.randomness import generator
from unswayed.simulation.worlds.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class LiarSpec:
    """A log of equally active honest users who click at rates in a range, played uniformly."""

    name: str
    n_users: int
    events_per_user: int
    n_contexts: int
    n_actions: int
    rates: tuple[float, float]


LIAR_SPECS = (
    LiarSpec(
        name="400 users x 8 events, clicks 30-50%",
        n_users=400,
        events_per_user=8,
        n_contexts=3,
        n_actions=4,
        rates=(0.3, 0.5),
    ),
    LiarSpec(
        name="2,000 users x 20 events, clicks 1-3%",
        n_users=2_000,
        events_per_user=20,
        n_contexts=3,
        n_actions=4,
        rates=(0.01, 0.03),
    ),
)


def build_liar(spec: LiarSpec, n_lies: int, seed: int) -> World:
    """Simulate a log whose last user, if any, lies ``n_lies`` times: clicks on the worst item only.

    Honest events depend on the spec and the seed alone. Rates of the items of a context are evenly
    spaced over the range.
    """
    rng = generator(seed, "one liar", spec.name)
    S, A = spec.n_contexts, spec.n_actions
    rates = rng.permuted(np.tile(np.linspace(*spec.rates, A), (S, 1)), axis=1)
    targets = rates.argmin(axis=1)

    def play(rng: np.random.Generator, n: int) -> tuple[IntArray, IntArray]:
        return rng.integers(S, size=n), rng.integers(A, size=n)

    users = np.repeat(np.arange(spec.n_users), spec.events_per_user)
    contexts, actions = play(rng, len(users))
    rewards: FloatArray = (rng.random(len(users)) < rates[contexts, actions]).astype(np.float64)
    false_contexts, false_actions = play(generator(seed, "lies", spec.name, n_lies), n_lies)
    n_liars = int(n_lies > 0)
    return World(
        users=np.concatenate([users, np.full(n_lies, spec.n_users)]),
        contexts=np.concatenate([contexts, false_contexts]),
        actions=np.concatenate([actions, false_actions]),
        rewards=np.concatenate([rewards, false_actions == targets[false_contexts]]),
        propensities=None,
        true_means=rates,
        context_probabilities=np.full(S, 1 / S),
        is_bad=np.arange(spec.n_users + n_liars) >= spec.n_users,
        targets=targets,
        adversarial_fraction=0.1,
    )
