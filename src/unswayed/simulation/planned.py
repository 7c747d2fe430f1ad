"""A plan put to the test: simulate it, or a smaller world of its kind, under attack."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.learners.methods import known_method
from unswayed.learners.players import EPSILON
from unswayed.limits.checks import CALIBRATED_DEVIATION, Traffic, check_context_probabilities
from unswayed.limits.planner import FEWEST_USERS, Plan, Shape, constants, plan_traffic
from unswayed.processes import Workers
from unswayed.simulation.arrivals import Order
from unswayed.simulation.instances import GAP_SPREAD, RewardLaw
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Row, simulate
from unswayed.visible import percent

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
    """Losses under one attack at one lead of the best action.

    ``mean`` and ``largest`` are losses over the repetitions, ``share_within`` the share of them
    that met the target.
    """

    attack: str
    gap: float
    mean: float
    largest: float
    share_within: float

    def rank(self) -> tuple[float, float]:
        """Sort key: first the trial that met the target least often."""
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
        simulated = partial(
            simulated_trial,
            tried,
            nu,
            method.method,
            method.interactions_per_user,
            repetitions=repetitions,
            seed=seed,
            workers=workers,
            on_row=on_row,
        )
        names, leads = attacks or _attacks(tried), simulated_leads(tried)
        trials = [simulated(attack=attack, gap=gap) for attack in names for gap in leads]
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
    """Simulate one method in the world of a plan with a given number of plays per user."""
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
    """Return the maximum number of runs of a verification."""
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
    """Return the largest possible lead of the best action in a world with this traffic."""
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


ATTACKS = ("nuke", "hide-in-covariance", "subtractive", "trim-edge", "on-off", "shifted-replay")
"""Ours: those of the planner's calibration, and those that cost the default learner most in
``benchmarks/default_plans.py``."""

MOST_DOUBLINGS = 2
"""Ours: plays up to four times those of the plan are tried. In worlds where the default learner did
not meet its target with as many as the plan has, four times as many did not help either."""

LARGEST_SEARCHED_RUN = 1_500_000
"""Ours: rewards (plays times actions) of one run of the plan; a second or so with the default
learner, and a search has hundreds of runs."""


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One number of plays, tried under attack.

    Attributes
    ----------
    interactions_per_user
        Plays of each user.
    seed
        Seed of the worlds.
    worst
        The attack and lead that met the target least often; the first that failed, if one did.
    holds
        Whether the promised share of repetitions met the target under every attack.
    """

    interactions_per_user: int
    seed: int
    worst: PlanTrial
    holds: bool


@dataclass(frozen=True, slots=True)
class PlaySearch:
    """How few plays were enough.

    Attributes
    ----------
    method, attacks, repetitions
        What was simulated, against what, and how often for each attack and lead.
    is_scaled
        Whether a smaller world stood in for the planned one.
    plan
        The plan whose world was simulated; its first method says where the search began.
    steps
        What was tried, in order.
    interactions_per_user
        The fewest plays that were enough, and again in fresh worlds; None if none were.
    """

    method: str
    attacks: tuple[str, ...]
    repetitions: int
    is_scaled: bool
    plan: Plan
    steps: tuple[SearchStep, ...]
    interactions_per_user: int | None

    @property
    def share_of_plan(self) -> float | None:
        """Return the fewest plays as a share of those of the plan."""
        if self.interactions_per_user is None:
            return None
        return self.interactions_per_user / self.plan.methods[0].interactions_per_user


def fewest_plays(
    plan: Plan,
    context_probabilities: FloatArray,
    method: str,
    *,
    attacks: Sequence[str] = ATTACKS,
    repetitions: int = 10,
    seed: int = 0,
    processes: int = 1,
    on_trial: Callable[[int, PlanTrial], None] = lambda _plays, _trial: None,
) -> PlaySearch:
    """Find how few plays per user are enough for a method in the world of a plan.

    Plays are halved, from those of the plan, as long as they are enough: under every attack and
    lead the promised share of the repetitions stays within epsilon. Where those of the plan are not
    enough they are doubled instead. What is found is tried again in fresh worlds, and doubled as
    long as it fails there: the smallest of several numbers that happened to hold is chosen by luck.

    Parameters
    ----------
    plan
        Says what the world is like and where to begin: plays of its first method, which need not
        be the method that is searched for. If it is too large to simulate, a smaller world of the
        same kind stands in for it.
    context_probabilities
        Shape (n_contexts,); those of the plan.
    method
        The method that learns.
    repetitions
        Worlds for each attack and lead.
    seed
        Seed of the first worlds; the fresh ones have those that follow.
    on_trial
        Called with the plays and what one attack did; for progress bars.

    Notes
    -----
    Empirical: a coalition that does better than these attacks needs more plays. No law in the size
    of the world is assumed, so nothing follows for another world.
    """
    method = known_method(method)  # an unknown one is refused before anything runs
    tried, nu = small_enough(
        plan, check_context_probabilities(context_probabilities), LARGEST_SEARCHED_RUN
    )
    planned = tried.methods[0].interactions_per_user
    # A lead below the target costs hardly more than that, even if all decisions are wrong.
    leads = simulated_leads(tried)
    leads = [gap for gap in leads if gap > tried.target_suboptimality] or leads
    most = planned << MOST_DOUBLINGS
    steps: list[SearchStep] = []
    with Workers(processes) as workers:

        def is_enough(plays: int, worlds: int) -> bool:
            trials: list[PlanTrial] = []
            for attack, gap in product(attacks, leads):
                trial = simulated_trial(
                    tried,
                    nu,
                    method,
                    plays,
                    attack=attack,
                    gap=gap,
                    repetitions=repetitions,
                    seed=worlds,
                    workers=workers,
                )
                on_trial(plays, trial)
                trials.append(trial)
                if not trial.holds(tried.failure_probability):
                    steps.append(SearchStep(plays, worlds, trial, False))
                    return False
            steps.append(SearchStep(plays, worlds, min(trials, key=PlanTrial.rank), True))
            return True

        plays = planned
        if is_enough(plays, seed):
            while (fewer := math.ceil(plays / 2)) >= tried.lower_bound and fewer < plays:
                if not is_enough(fewer, seed):
                    break
                plays = fewer
        else:
            plays *= 2
            while plays <= most and not is_enough(plays, seed):
                plays *= 2
        fresh = seed + 1
        while plays <= most and not is_enough(plays, fresh):
            plays, fresh = 2 * plays, fresh + 1
    return PlaySearch(
        method=method,
        attacks=tuple(attacks),
        repetitions=repetitions,
        is_scaled=tried is not plan,
        plan=tried,
        steps=tuple(steps),
        interactions_per_user=plays if plays <= most else None,
    )


def search_words(found: PlaySearch, plan: Plan) -> tuple[str, ...]:
    """Return the result of a search in sentences."""
    tried, planned = found.plan, found.plan.methods[0]
    words = []
    if found.is_scaled:
        words.append(
            "The plan is too large to search in by simulation. A smaller world of its kind, with "
            f"the same targets, stood in for it: {tried.n_contexts:,} contexts, "
            f"{tried.n_actions:,} actions, {tried.n_users:,} users, and a plan of "
            f"{planned.interactions_per_user:,} plays per user."
        )
    under = f"under {', '.join(found.attacks)}"
    if found.interactions_per_user is None or found.share_of_plan is None:
        most = max(step.interactions_per_user for step in found.steps)
        words.append(
            f"In simulation method {found.method} did not meet the target with up to {most:,} "
            f"plays per user {under}: learn with --method {planned.method}."
        )
        return tuple(words)
    words.append(
        f"In simulation {found.interactions_per_user:,} plays per user were enough for method "
        f"{found.method}, {percent(found.share_of_plan)} of what is planned for {planned.method}: "
        f"{percent(1 - tried.failure_probability)} of {found.repetitions} repetitions or more "
        f"stayed within {tried.target_suboptimality:g} {under}, and again in fresh worlds."
    )
    if found.is_scaled:
        share = found.share_of_plan * plan.methods[0].interactions_per_user
        words.append(
            f"By the same share the plan itself would take about {math.ceil(share):,} plays per "
            "user; that is an extrapolation."
        )
    return tuple(words)
