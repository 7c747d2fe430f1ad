"""Random kinds of logs with attributes for each part."""

from __future__ import annotations

import numpy as np

from unswayed.randomness import generator
from unswayed.simulation.attributes import ATTACKS, TRUTHS, Attack, Kind, Rewards, Truth
from worlds.world import Part

MOST_EVENTS = 250_000
"""Largest number of events of a log, so that a table takes minutes."""


def kinds(part: Part, seed: int) -> list[Kind]:
    """Return kinds of logs whose numbers are drawn anew for each part and seed.

    Every attack is combined with every truth; users, attributes, actions and rates are log-uniform.
    """
    rng = generator(seed, "kinds with attributes", part)

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    def drawn(truth: Truth, attack: Attack) -> Kind:
        n_users = int(between(1_000, 50_000))
        families: tuple[Rewards, ...] = ("clicks", "clicks", "stars", "baskets")
        return Kind(
            truth=truth,
            attack=attack,
            rewards=families[int(rng.integers(len(families)))],
            rate=round(between(0.01, 0.1), 3),
            is_greedy=bool(rng.random() < 0.5),
            is_uneven=bool(rng.random() < 0.5),
            n_users=n_users,
            events_per_user=int(min(between(4, 40), MOST_EVENTS / n_users)),
            n_attributes=int(between(2, 21)),
            n_actions=int(between(2, 31)),
            bots=round(between(0.03, 0.1), 3),
        )

    return [drawn(truth, attack) for attack in ATTACKS for truth in TRUTHS] + [
        drawn("none", "peace"),
        drawn("none", "push"),
    ]
