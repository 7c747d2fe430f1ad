"""Worlds of the planner's calibration, and the largest loss under attack in each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.learners.players import EPSILON
from unswayed.limits import instance_complexity
from unswayed.limits.planner import CALIBRATED_DEVIATION, EVERYDAY, Traffic, crowding, shape_of
from unswayed.simulation.arrivals import ACTIVITY_SPREAD, Order
from unswayed.simulation.instances import (
    GAP_SPREAD,
    RewardLaw,
    named_probabilities,
)
from unswayed.simulation.simulate import Settings, simulate

REPETITIONS = 6

FIRST_GAP, GAP_GROWTH = 0.3, 1.5
"""The first lead of the best action, in yardsticks, and the factor by which it grows until losses
decrease: small leads cost little, and large ones are not missed."""

SHAPES = (
    (5, 5, "uniform"),
    (2, 10, "uniform"),
    (10, 10, "zipf:1"),
    (40, 5, "uniform"),
    (30, 4, "zipf:1"),
)
"""Contexts, actions and context probabilities: first without, then with rare contexts."""

FRACTIONS = (0.03, 0.1, 0.2, 0.3)
PLAYS = (20, 80)

USER_FACTORS = (1, 4)
"""Numbers of users, in multiples of SA/alpha."""

TRAFFIC_SHAPES, TRAFFIC_ALPHA = ((10, 10), (40, 5)), 0.1
TRAFFIC_USERS, TRAFFIC_PLAYS = 2000, 40
CLICK_RATE = 0.02
TRAFFIC: tuple[tuple[str, float, Traffic], ...] = (
    ("ratio", 4.0, Traffic(arrival_ratio=4.0)),
    ("ratio", 8.0, Traffic(arrival_ratio=8.0)),
    ("heavy-tailed", ACTIVITY_SPREAD, Traffic(is_heavy_tailed=True)),
    ("clicks", CLICK_RATE, Traffic(base=CLICK_RATE)),
    ("exploration", EPSILON, Traffic(exploration=EPSILON)),
)
"""Kinds of traffic that may need more plays than round robin with rewards of deviation one half."""

WIDEST_GAP = 0.7
"""The largest lead that random worlds can have."""

COME_OFTEN = ("power-user",)
"""Attacks whose accounts come as often as allowed; also tried for other arrivals."""


@dataclass(frozen=True, slots=True)
class World:
    """One size of world, and the units of its losses."""

    n_contexts: int
    n_actions: int
    law: str
    alpha: float
    n_users: int
    interactions: int

    @property
    def probabilities(self) -> FloatArray:
        """Return the context probabilities."""
        return named_probabilities(self.law, self.n_contexts)

    @property
    def shape(self) -> str:
        """Return which estimators the world needs."""
        return shape_of(self.n_contexts, self.n_actions)

    @property
    def yardstick(self) -> float:
        """Return K(B)·sqrt((alpha + SA/L)/N), in which leads are measured."""
        cells = self.n_contexts * self.n_actions
        corruption = self.alpha + cells / self.n_users
        return self._complexity * math.sqrt(corruption / self.interactions)

    def unit(self, few_users: float) -> float:
        """Return K(B)·sqrt((alpha + few_users·A·log(SA)/L)/N), in which losses are measured."""
        crowd = crowding(self.n_contexts, self.n_actions, self.n_users)
        corruption = self.alpha + few_users * crowd
        return self._complexity * math.sqrt(corruption / self.interactions)

    @property
    def _complexity(self) -> float:
        return instance_complexity(self.probabilities, self.n_actions)


def worlds() -> Iterator[World]:
    """Yield every size of world."""
    for n_contexts, n_actions, law in SHAPES:
        for fraction in FRACTIONS:
            for factor in USER_FACTORS:
                n_users = max(300, round(factor * n_contexts * n_actions / fraction))
                for plays in PLAYS:
                    yield World(n_contexts, n_actions, law, fraction, n_users, plays)


def worst_losses(
    world: World,
    algorithm: str,
    *,
    attacks: tuple[str, ...],
    seed: int,
    processes: int,
    traffic: Traffic = EVERYDAY,
    repetitions: int = REPETITIONS,
) -> dict[str, Any]:
    """Return the worst attack and lead, with mean and deviation of their losses."""
    worst: dict[str, Any] = {"mean": -1.0}
    for attack in attacks:
        gap, before = FIRST_GAP * world.yardstick * traffic.scale, -1.0
        while gap <= widest_gap(traffic):
            settings = Settings(
                contexts=world.n_contexts,
                actions=world.n_actions,
                users=world.n_users,
                interactions=world.interactions,
                alpha=world.alpha,
                attack=attack,
                algorithms=(algorithm,),
                repetitions=repetitions,
                seed=seed,
                gap=gap,
                context_probabilities=world.law,
                **simulated_traffic(traffic),
            )
            losses = [row.loss for row in simulate(settings, processes=processes)]
            if mean(losses) > worst["mean"]:
                worst = {"mean": mean(losses), "attack": attack, "gap": gap}
                worst["deviation"] = float(np.std(losses, ddof=1))
            if mean(losses) <= before:
                break
            gap, before = GAP_GROWTH * gap, mean(losses)
    return worst


def widest_gap(traffic: Traffic) -> float:
    """Return the largest possible lead of the best action in a world with this traffic."""
    if traffic.base is None:
        return WIDEST_GAP
    return min(WIDEST_GAP, traffic.base / GAP_SPREAD, 1.0 - traffic.base)


def simulated_traffic(traffic: Traffic) -> dict[str, Any]:
    """Return the settings of a simulation with this traffic, apart from its exploration."""
    arrivals = f"{Order.RANDOM.value}:{traffic.arrival_ratio:g}"
    if traffic.is_heavy_tailed:
        arrivals = Order.HEAVY_TAILED.value
    if traffic.base is not None:
        return {"arrivals": arrivals, "rewards": RewardLaw.BERNOULLI.value, "base": traffic.base}
    return {"arrivals": arrivals, "deviation": traffic.scale * CALIBRATED_DEVIATION}


def mean(values: list[float]) -> float:
    """Return the mean as a plain number."""
    return float(np.mean(values))
