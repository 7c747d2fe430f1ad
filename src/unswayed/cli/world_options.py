"""Options of the commands that simulate worlds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from unswayed.cli.options import Seed, names_in, probabilities_in
from unswayed.simulation.arrivals import Order
from unswayed.simulation.attacks.registry import Knob
from unswayed.simulation.instances import DEFAULT_DEVIATION, RewardLaw
from unswayed.simulation.settings import PAPER_GAP, Settings


def _world(help: str) -> Any:  # noqa: A002  # as typer calls it
    """Return an option of the simulated worlds; the help shows them in one panel."""
    return typer.Option(help=help, rich_help_panel="The world")


Actions = Annotated[int, _world(help="Number of actions A.")]
Rewards = Annotated[str, _world(help="bernoulli, gaussian or heavy.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOptions:
    """The simulated worlds and their users."""

    contexts: Annotated[int, _world(help="Number of contexts S.")] = 10
    actions: Actions = 10
    users: Annotated[int, _world(help="Number of users L, colluders included.")] = 1000
    interactions: Annotated[int, _world(help="Interactions per user T/L.")] = 30
    alpha: Annotated[float, _world(help="True share of colluders, below 0.5.")] = 0.2
    assumed_alpha: Annotated[
        float | None, _world(help="Share of colluders that learners assume [the true share].")
    ] = None
    gap: Annotated[
        float, _world(help="Gap between the best action and the runner-up in each context.")
    ] = PAPER_GAP
    base: Annotated[
        float | None,
        _world(help="Mean reward of every runner-up, such as a click rate [drawn at random]."),
    ] = None
    context_probabilities: Annotated[
        str, _world(help="uniform, zipf:EXPONENT, or a file with one number for each context.")
    ] = "uniform"
    rewards: Rewards = RewardLaw.GAUSSIAN.value
    deviation: Annotated[
        float, _world(help="Standard deviation of rewards that are not Bernoulli.")
    ] = DEFAULT_DEVIATION
    arrivals: Annotated[
        str,
        _world(
            help="round-robin, random[:LIMIT], bursty[:LIMIT] or heavy-tailed; the limit is c_L."
        ),
    ] = Order.ROUND_ROBIN.value
    perturbation: Annotated[
        float, _world(help="Size eps_0 of the good users' individual tastes.")
    ] = 0.0
    seed: Seed = 0

    def settings(
        self,
        *,
        algorithms: str,
        attack: str,
        repetitions: int = 1,
        knobs: dict[str, Knob] | None = None,
    ) -> Settings:
        """Return the settings of a simulation in these worlds."""
        return Settings(
            contexts=self.contexts,
            actions=self.actions,
            users=self.users,
            interactions=self.interactions,
            alpha=self.alpha,
            attack=attack,
            algorithms=names_in(algorithms),
            repetitions=repetitions,
            seed=self.seed,
            assumed_alpha=self.assumed_alpha,
            gap=self.gap,
            base=self.base,
            context_probabilities=probabilities_in(self.context_probabilities),
            rewards=self.rewards,
            deviation=self.deviation,
            arrivals=self.arrivals,
            perturbation=self.perturbation,
            knobs=knobs or {},
        )
