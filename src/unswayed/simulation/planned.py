"""A plan put to the test: simulate it, or a smaller world of its kind, under attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.learners.players import EPSILON
from unswayed.limits.calibration import Shape, constants
from unswayed.limits.checks import CALIBRATED_DEVIATION, Traffic, check_context_probabilities
from unswayed.limits.planner import FEWEST_USERS, Plan, plan_traffic
from unswayed.processes import Workers
from unswayed.simulation.arrivals import Order
from unswayed.simulation.instances import GAP_SPREAD, RewardLaw
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Row, simulate

LARGEST_RUN = 6_000_000
"""Ours: rewards (plays times actions) of one run; about a second or two."""

SHRINKING = 1.15
"""Ours: contexts and actions are divided by this until a run is small enough."""

LEADS = (0.9, 1.3, 2.0)
"""Ours: leads of the best action, in multiples of the target. A policy that is wrong everywhere
loses about the lead: smaller leads cannot break a plan, and larger ones are easily seen."""

WIDEST_GAP = 0.7
"""Ours: random worlds have room for no larger lead."""


@dataclass(frozen=True, slots=True)
class PlanTrial:
    """What one attack did at one lead of the best action.

    ``mean`` and ``largest`` are losses over the repetitions, ``share_within`` the share of them
    that met the target.
    """

    attack: str
    gap: float
    mean: float
    largest: float
    share_within: float

    def rank(self) -> tuple[float, float]:
        """Return what trials are sorted by: first the one that met the target least often."""
        return self.share_within, -self.mean

    def holds(self, failure_probability: float) -> bool:
        """Return whether all but that share of the repetitions met the target."""
        return self.share_within >= 1.0 - failure_probability - 1e-12


@dataclass(frozen=True, slots=True)
class Verification:
    """A simulated plan.

    Attributes
    ----------
    is_scaled
        Whether a smaller world stood in for the planned one.
    plan
        The plan that was simulated.
    method, repetitions, seed
        What ran, how often and from which seed.
    trials
        One for each attack and lead; first the one that met the target least often.
    """

    is_scaled: bool
    plan: Plan
    method: str
    repetitions: int
    seed: int
    trials: tuple[PlanTrial, ...]

    @property
    def holds(self) -> bool:
        """Return whether the promised share of repetitions met the target under every attack."""
        return self.trials[0].holds(self.plan.failure_probability)


def verify_plan(
    plan: Plan,
    context_probabilities: FloatArray,
    *,
    attacks: Sequence[str] | None = None,
    repetitions: int = 10,
    seed: int = 0,
    processes: int = 1,
    on_row: Callable[[Row], None] | None = None,
) -> Verification:
    """Simulate a plan's first method under attack.

    Parameters
    ----------
    plan
        What to try. If a run would have more than ``LARGEST_RUN`` rewards, a smaller world of the
        same kind is planned for the same targets and simulated instead.
    context_probabilities
        Shape (n_contexts,); those of the plan.
    attacks
        Names of attacks; those of the calibration if not given.
    repetitions
        Worlds for each attack and lead.
    on_row
        Called with every run; for progress bars.
    """
    tried, nu = small_enough(plan, check_context_probabilities(context_probabilities), LARGEST_RUN)
    method = tried.methods[0]
    with Workers(processes) as workers:
        trials = [
            simulated_trial(
                tried,
                nu,
                method.method,
                method.interactions_per_user,
                attack=attack,
                gap=gap,
                repetitions=repetitions,
                seed=seed,
                workers=workers,
                on_row=on_row,
            )
            for attack in attacks or _attacks(tried)
            for gap in simulated_leads(tried)
        ]
    trials.sort(key=PlanTrial.rank)
    return Verification(tried is not plan, tried, method.method, repetitions, seed, tuple(trials))


def simulated_trial(
    plan: Plan,
    context_probabilities: FloatArray,
    method: str,
    interactions_per_user: int,
    *,
    attack: str,
    gap: float,
    repetitions: int,
    seed: int,
    workers: Workers,
    on_row: Callable[[Row], None] | None = None,
) -> PlanTrial:
    """Simulate one method in the world of a plan, with so many plays of each user."""
    settings = Settings(
        contexts=plan.n_contexts,
        actions=plan.n_actions,
        users=plan.n_users,
        interactions=interactions_per_user,
        alpha=plan.adversarial_fraction,
        attack=attack,
        algorithms=(method if plan.traffic.exploration == 1.0 else f"{method}-on-log",),
        repetitions=repetitions,
        seed=seed,
        gap=gap,
        context_probabilities=tuple(context_probabilities.tolist()),
        **simulated_traffic(plan.traffic),
    )
    losses = np.array([row.loss for row in simulate(settings, workers=workers, on_row=on_row)])
    return PlanTrial(
        attack=attack,
        gap=gap,
        mean=float(losses.mean()),
        largest=float(losses.max()),
        share_within=float((losses <= plan.target_suboptimality).mean()),
    )


def n_runs(plan: Plan, repetitions: int) -> int:
    """Return how many runs a verification has at most."""
    return len(_attacks(plan)) * len(simulated_leads(plan)) * repetitions


def simulated_traffic(traffic: Traffic) -> dict[str, Any]:
    """Return the settings of a simulation that has this traffic, but for its exploration."""
    arrivals = f"{Order.RANDOM.value}:{traffic.arrival_ratio:g}"
    if traffic.is_heavy_tailed:
        arrivals = Order.HEAVY_TAILED.value
    if traffic.base is not None:
        return {"arrivals": arrivals, "rewards": RewardLaw.BERNOULLI.value, "base": traffic.base}
    return {"arrivals": arrivals, "deviation": traffic.scale * CALIBRATED_DEVIATION}


def widest_gap(traffic: Traffic) -> float:
    """Return the largest lead that a world with this traffic has room for."""
    if traffic.base is None:
        return WIDEST_GAP
    return min(WIDEST_GAP, traffic.base / GAP_SPREAD, 1.0 - traffic.base)


def _attacks(plan: Plan) -> list[str]:
    shape = Shape.of(plan.n_contexts, plan.n_actions)
    found: list[str] = constants()["methods"][plan.methods[0].method]["attacks"][shape.value]
    return found


def simulated_leads(plan: Plan) -> list[float]:
    """Return the leads of the best action at which a plan is simulated."""
    widest = widest_gap(plan.traffic)
    return sorted({min(factor * plan.target_suboptimality, widest) for factor in LEADS})


def small_enough(
    plan: Plan, probabilities: FloatArray, largest_run: int
) -> tuple[Plan, FloatArray]:
    """Return the plan, or the largest plan of its kind that is small enough to simulate."""
    tried, nu, divisor = plan, probabilities, 1.0
    traffic = plan.traffic
    if traffic.exploration not in (1.0, EPSILON):
        # Simulated logs explore with one share; another is replaced by it.
        traffic = replace(traffic, exploration=EPSILON)
        tried = _replanned(plan, nu, plan.n_actions, plan.n_users, traffic)
    while _n_rewards(tried) > largest_run:
        if tried.n_contexts <= 2 and tried.n_actions <= 2:
            raise InputError(
                f"even 2 contexts and 2 actions would take {_n_rewards(tried):,} rewards to "
                f"simulate at epsilon {plan.target_suboptimality:g}: verify a larger epsilon."
            )
        divisor *= SHRINKING
        nu = _thinned(probabilities, max(min(2, plan.n_contexts), round(plan.n_contexts / divisor)))
        n_actions = max(2, round(plan.n_actions / divisor))
        share = nu.size * n_actions / (plan.n_contexts * plan.n_actions)
        n_users = max(FEWEST_USERS, round(share * plan.n_users))
        tried = _replanned(plan, nu, n_actions, n_users, traffic)
    return tried, nu


def _replanned(plan: Plan, nu: FloatArray, n_actions: int, n_users: int, traffic: Traffic) -> Plan:
    """Return a plan for the same targets in another world."""
    return plan_traffic(
        nu,
        n_actions,
        plan.adversarial_fraction,
        plan.target_suboptimality,
        plan.failure_probability,
        methods=tuple(method.method for method in plan.methods),
        n_users=n_users,
        traffic=traffic,
        lead=plan.lead,
    )


def _n_rewards(plan: Plan) -> int:
    return plan.methods[0].total_interactions * plan.n_actions


def _thinned(probabilities: FloatArray, n_contexts: int) -> FloatArray:
    """Return evenly spaced ones of the ranked probabilities, to sum to one."""
    ranked = np.sort(probabilities)[::-1]
    chosen = ranked[np.linspace(0, ranked.size - 1, n_contexts).round().astype(np.int64)]
    thinned: FloatArray = chosen / chosen.sum()
    return thinned
