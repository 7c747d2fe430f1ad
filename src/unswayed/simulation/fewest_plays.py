"""The fewest plays per user that are enough for a method, found by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unswayed.arrays import FloatArray
from unswayed.learners.methods import known_method
from unswayed.limits.checks import check_context_probabilities
from unswayed.limits.planner import Plan
from unswayed.processes import Workers
from unswayed.simulation.planned import PlanTrial, simulated_leads, simulated_trial, small_enough
from unswayed.visible import percent

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
            worst: PlanTrial | None = None
            for attack in attacks:
                for gap in leads:
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
                    worst = trial if worst is None else min(worst, trial, key=PlanTrial.rank)
                    if not trial.holds(tried.failure_probability):
                        steps.append(SearchStep(plays, worlds, trial, False))
                        return False
            assert worst is not None
            steps.append(SearchStep(plays, worlds, worst, True))
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
    """Return what a search by simulation found, in sentences."""
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
