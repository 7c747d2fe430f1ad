"""Settings of simulations, and parallel repetitions for several algorithms."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from unswayed.errors import InputError, check_adversarial_fraction, option
from unswayed.learners.interface import LearnerMaker
from unswayed.names import find
from unswayed.processes import Workers
from unswayed.randomness import generator
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Crowd, Match
from unswayed.simulation.arrivals import Arrivals, Order
from unswayed.simulation.attacks.registry import Knob, make_attack
from unswayed.simulation.instances import (
    DEFAULT_DEVIATION,
    Instance,
    RewardLaw,
    named_probabilities,
    random_instance,
)

# Ours: a world has a mean for each cell, and a round has a reward for each user and action; a
# billion of them take 8 GB
MOST_CELLS, MOST_REWARDS = 10**7, 10**9
PAPER_GAP = 0.3  # The paper's: "we set the sub-optimality gap in all contexts approximately 0.3"


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
        # Build one here, so that invalid settings are rejected before anything runs.
        make_attack(self.attack, self.knobs)
        self.crowd()
        self.instance(0)

    def match(self, algorithm: str, repetition: int, make: LearnerMaker | None = None) -> Match:
        """Return the match of one repetition of an algorithm, or of a given learner."""
        return Match(
            self.instance(repetition),
            make_attack(self.attack, self.knobs),
            make or find_algorithm(algorithm).make,
            self.crowd(),
            algorithm=algorithm,
            seed=self.seed,
            path=(repetition,),
        )

    def crowd(self) -> Crowd:
        """Return the crowd."""
        return Crowd(
            n_users=self.users,
            interactions_per_user=self.interactions,
            alpha=self.alpha,
            assumed_fraction=self.assumed_alpha,
            arrivals=Arrivals.parsed(self.arrivals),
            perturbation=self.perturbation,
        )

    def instance(self, repetition: int) -> Instance:
        """Return the instance of one repetition, the same for all algorithms and attacks."""
        probabilities = None  # without contexts or actions, random_instance raises
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


# The measure: the loss of the final policy, or the regret of good users while learning
Goal = Literal["suboptimality", "regret"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Loss of one algorithm in one repetition."""

    algorithm: str
    repetition: int
    loss: float  # the suboptimality, or the mean regret of the good users
    spread: dict[str, float] | None = None  # median, quantile_95 and worst of the regret


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Losses of an algorithm over all repetitions."""

    algorithm: str
    mean: float
    stderr: float | None  # standard error of the mean; None for a single repetition
    repetitions: list[float]
    # Means of the medians and of the quantiles, and the worst of all; empty for suboptimality
    spread: dict[str, float]


def simulate(
    settings: Settings,
    *,
    goal: Goal = "suboptimality",
    processes: int = 1,
    on_row: Callable[[Row], None] = lambda _: None,
) -> list[Row]:
    """Run every algorithm in every repetition; see ``repeated``.

    Each run draws from streams named by the seed and the repetition, so the rows do not depend on
    the number of processes, and all algorithms of a repetition meet the same world.
    """
    run = partial(_run_task, settings, goal)
    return repeated(run, settings.algorithms, settings.repetitions, processes, on_row)


def _run_task(settings: Settings, goal: Goal, task: tuple[str, int]) -> Row:
    return run_repetition(settings, *task, goal)


def run_repetition(
    settings: Settings, algorithm: str, repetition: int, goal: Goal = "suboptimality"
) -> Row:
    """Run one algorithm in one repetition."""
    match = settings.match(algorithm, repetition)
    # One BLAS thread, because sums depend on the number of threads and parallel processes must not
    # compete for cores.
    with threadpool_limits(1):
        if goal == "suboptimality":
            return Row(algorithm=algorithm, repetition=repetition, loss=match.loss())
        regrets = match.regrets()
    spread = {
        "median": float(np.median(regrets)),
        "quantile_95": float(np.quantile(regrets, 0.95)),
        "worst": float(regrets.max()),
    }
    mean = float(regrets.mean())
    return Row(algorithm=algorithm, repetition=repetition, loss=mean, spread=spread)


def repeated(
    run: Callable[[tuple[str, int]], Row],
    names: Sequence[str],
    repetitions: int,
    processes: int,
    on_row: Callable[[Row], None],
) -> list[Row]:
    """Return the rows of all algorithms and repetitions, in order.

    ``on_row`` is called for every finished row, in any order, for example for progress bars.
    """
    tasks = list(itertools.product(names, range(repetitions)))
    rows: dict[tuple[str, int], Row] = {}
    with Workers(min(processes, len(tasks))) as workers:
        for row in workers.results(run, tasks):
            rows[row.algorithm, row.repetition] = row
            on_row(row)
    return [rows[task] for task in tasks]


def summarise(rows: list[Row]) -> list[Summary]:
    """Return mean and standard error for each algorithm, in order of first appearance.

    >>> rows = [Row(algorithm="a", repetition=i, loss=float(i)) for i in range(3)]
    >>> [(summary.mean, round(summary.stderr, 4)) for summary in summarise(rows)]
    [(1.0, 0.5774)]
    """
    summaries = []
    for algorithm in dict.fromkeys(row.algorithm for row in rows):
        found = [row for row in rows if row.algorithm == algorithm]
        losses, n = [row.loss for row in found], len(found)
        spreads = [row.spread for row in found if row.spread]
        summaries.append(
            Summary(
                algorithm=algorithm,
                mean=float(np.mean(losses)),
                stderr=float(np.std(losses, ddof=1) / np.sqrt(n)) if n > 1 else None,
                repetitions=losses,
                spread={
                    "median": float(np.mean([spread["median"] for spread in spreads])),
                    "quantile_95": float(np.mean([spread["quantile_95"] for spread in spreads])),
                    "worst": max(spread["worst"] for spread in spreads),
                }
                if spreads
                else {},
            )
        )
    return summaries
