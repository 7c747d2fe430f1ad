"""Settings of a simulation, as typed and as stored with the results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from unswayed.errors import InputError, check_adversarial_fraction, option
from unswayed.names import find
from unswayed.randomness import generator
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Crowd
from unswayed.simulation.arrivals import SMALLEST_LIMIT, Arrivals, Order
from unswayed.simulation.attacks.registry import Knob, make_attack
from unswayed.simulation.instances import (
    DEFAULT_DEVIATION,
    Instance,
    RewardLaw,
    named_probabilities,
    random_instance,
)

MOST_CELLS, MOST_REWARDS = 10**7, 10**9
"""Ours: a world holds a mean for each cell; a round holds a reward for each user and action,
and a billion of them are 8 GB."""

PAPER_GAP = 0.3
"""The paper's: "we set the sub-optimality gap in all contexts approximately 0.3"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOptions:
    """The simulated worlds and their users.

    contexts: Number of contexts S.
    actions: Number of actions A.
    users: Number of users L, colluders included.
    interactions: Interactions per user T/L.
    alpha: True share of colluders, below 0.5.
    assumed_alpha: Share of colluders that learners assume [the true share].
    gap: Gap between the best action and the runner-up in each context.
    base: Mean reward of every runner-up, such as a click rate [drawn at random].
    context_probabilities: uniform, zipf:EXPONENT, or a file with one number for each context.
    rewards: bernoulli, gaussian or heavy.
    deviation: Standard deviation of rewards that are not Bernoulli.
    arrivals: round-robin, random[:LIMIT], bursty[:LIMIT] or heavy-tailed; the limit is c_L.
    perturbation: Size eps_0 of the good users' individual tastes.
    seed: Random seed; the same seed gives the same results.
    """

    panel: ClassVar[str] = "The world"

    contexts: int = 10
    actions: int = 10
    users: int = 1000
    interactions: int = 30
    alpha: float = 0.2
    assumed_alpha: float | None = None
    gap: float = PAPER_GAP
    base: float | None = None
    context_probabilities: str = "uniform"
    rewards: str = RewardLaw.GAUSSIAN.value
    deviation: float = DEFAULT_DEVIATION
    arrivals: str = Order.ROUND_ROBIN.value
    perturbation: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WorldOptions):
    """A simulation: worlds, attack with its knobs, algorithms and repetitions."""

    attack: str
    algorithms: tuple[str, ...]
    repetitions: int = 1
    knobs: dict[str, Knob] = field(default_factory=dict)
    context_probabilities: str | tuple[float, ...] = "uniform"  # type: ignore[assignment]  # numbers

    def __post_init__(self) -> None:
        for name, size, most in (
            ("contexts times actions", self.contexts * self.actions, MOST_CELLS),
            ("users times actions", self.users * self.actions, MOST_REWARDS),
        ):
            if size > most:
                raise InputError(
                    f"{name} is {size:,}: worlds of up to {most:,} are simulated; give fewer."
                )
        check_adversarial_fraction(self.alpha, name=option("--alpha"))
        if self.assumed_alpha is not None:
            check_adversarial_fraction(self.assumed_alpha, name=option("--assumed-alpha"))
        if self.repetitions < 1:
            raise InputError(
                f"{option('--repetitions')} is {self.repetitions}: at least 1 is needed."
            )
        if not self.algorithms:
            raise InputError("no algorithm is named: give at least one.")
        names = tuple(dict.fromkeys(find_algorithm(name).name for name in self.algorithms))
        object.__setattr__(self, "algorithms", names)
        # Made once here, so that invalid settings are rejected before anything runs.
        make_attack(self.attack, self.knobs)
        self.crowd()
        self.instance(0)

    def crowd(self) -> Crowd:
        """Return the crowd."""
        return Crowd(
            n_users=self.users,
            interactions_per_user=self.interactions,
            alpha=self.alpha,
            assumed_fraction=self.assumed_alpha,
            arrivals=parsed_arrivals(self.arrivals),
            perturbation=self.perturbation,
        )

    def instance(self, repetition: int) -> Instance:
        """Return the instance of one repetition, the same for all algorithms and attacks."""
        probabilities = None  # without contexts random_instance refuses, as without actions
        if self.contexts >= 1:
            probabilities = named_probabilities(self.context_probabilities, self.contexts)
        return random_instance(
            n_contexts=self.contexts,
            n_actions=self.actions,
            gap=self.gap,
            rng=generator(self.seed, repetition, "instance"),
            context_probabilities=probabilities,
            law=find(self.rewards, {law.value: law for law in RewardLaw}, kind="rewards"),
            deviation=self.deviation,
            base=self.base,
        )


def parsed_arrivals(text: str) -> Arrivals:
    """Return the arrivals that a text like "bursty:3" names.

    >>> parsed_arrivals("bursty:3")
    Arrivals(order=<Order.BURSTY: 'bursty'>, limit=3.0)
    """
    name, colon, limit = text.partition(":")
    order = find(name, {order.value: order for order in Order}, kind="arrivals")
    try:
        return Arrivals(order=order, limit=float(limit) if colon else SMALLEST_LIMIT)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{option('--arrivals')} is '{text}': what follows the colon must be a number."
        ) from None
