"""Is a plan for the paper's method enough for the default one? Simulate it in many small worlds.

    python benchmarks/default_plans.py --part development [--method bounded] [--share 1.0]
    python benchmarks/default_plans.py --part holdout
    python benchmarks/default_plans.py --part holdout --search

A plan holds if under every attack and lead a share 1 - delta of the repetitions stays within
epsilon, as `unswayed plan --verify` has it. ``--share`` gives each user only a share of the planned
plays; ``--search`` searches the fewest plays as `unswayed plan --search` does, and simulates what
it found in worlds that the search has not seen. Worlds are small, with targets close to alpha, so
that a run takes half a second.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from planner_worlds import context_probabilities
from unswayed.limits.checks import Traffic
from unswayed.limits.planner import EVERYDAY, PAPER_METHOD, plan_traffic
from unswayed.processes import Workers
from unswayed.simulation.planned import PlanTrial, fewest_plays, simulated_trial, widest_gap

DELTA = 0.1
LEADS = (1.3, 2.0)
"""Leads of the best action, in multiples of the target; smaller ones cost too little to matter."""

ATTACKS = ("nuke", "trim-edge", "subtractive", "shifted-replay", "on-off")
"""Those that cost the default learner most in a first look."""

HEAVY_TAILED, LOGGED = Traffic(is_heavy_tailed=True), Traffic(exploration=0.2)


@dataclass(frozen=True, slots=True)
class Question:
    """A world and a target to plan for."""

    n_contexts: int
    n_actions: int
    law: str
    alpha: float
    epsilon: float
    traffic: Traffic = EVERYDAY


DEVELOPMENT = (
    Question(5, 5, "uniform", 0.2, 0.15),
    Question(2, 8, "uniform", 0.2, 0.15),
    Question(1, 5, "uniform", 0.2, 0.1),
    Question(12, 3, "zipf:1", 0.2, 0.14),
    Question(12, 3, "uniform", 0.1, 0.09),
    Question(5, 5, "uniform", 0.1, 0.03, Traffic(base=0.02)),
    Question(5, 4, "uniform", 0.2, 0.15, HEAVY_TAILED),
    Question(5, 4, "uniform", 0.2, 0.15, LOGGED),
    Question(10, 3, "uniform", 0.2, 0.15, HEAVY_TAILED),
    Question(3, 4, "uniform", 0.3, 0.2),
    Question(4, 4, "uniform", 0.05, 0.045),
    Question(12, 4, "uniform", 0.2, 0.06, Traffic(base=0.05)),
)

HOLDOUT = (
    Question(6, 8, "zipf:0.5", 0.15, 0.12),
    Question(5, 10, "uniform", 0.2, 0.17),
    Question(16, 4, "uniform", 0.1, 0.085),
    Question(8, 3, "zipf:1", 0.25, 0.18, HEAVY_TAILED),
    Question(7, 5, "uniform", 0.2, 0.16, LOGGED),
    Question(9, 6, "uniform", 0.12, 0.1, HEAVY_TAILED),
)
"""Five contexts or more, and rewards other than 0 and 1: where all of the development held."""

PARTS = {"development": (DEVELOPMENT, 77, 4), "holdout": (HOLDOUT, 4242, 10)}
"""Worlds, seed and repetitions of each part."""


SEARCH_SEED = 900
"""Seed of the worlds of a search, far from those in which what it found is simulated."""


def tried(
    question: Question, method: str, *, share: float | None, seed: int, repetitions: int
) -> str:
    """Simulate one plan, and return what came of it in a line; without a share it is searched."""
    nu = context_probabilities(question.n_contexts, question.law)
    traffic, epsilon = question.traffic, question.epsilon
    plan = plan_traffic(nu, question.n_actions, question.alpha, epsilon, DELTA, traffic=traffic)
    planned = plan.methods[0].interactions_per_user
    if share is None:
        search = fewest_plays(plan, nu, method, seed=SEARCH_SEED)
        assert not search.is_scaled
        if search.interactions_per_user is None:
            most = max(step.interactions_per_user for step in search.steps)
            return f"{question}: {plan.n_users} users, {planned} planned: {most} are not enough"
        plays = search.interactions_per_user
    else:
        plays = math.ceil(share * planned)
    with Workers(1) as workers:
        worst = min(
            (
                simulated_trial(
                    plan,
                    nu,
                    method,
                    plays,
                    attack=attack,
                    gap=gap,
                    repetitions=repetitions,
                    seed=seed,
                    workers=workers,
                )
                for attack in ATTACKS
                for gap in sorted({min(lead * epsilon, widest_gap(traffic)) for lead in LEADS})
            ),
            key=PlanTrial.rank,
        )
    return (
        f"{question}: {plan.n_users} users, {plays} of {planned} plays: "
        f"{'holds' if worst.holds(DELTA) else 'fails'}; worst {worst.attack} at lead "
        f"{worst.gap / epsilon:.3g} epsilon: {worst.share_within:.2f} within, mean loss "
        f"{worst.mean / epsilon:.2f} epsilon"
    )


def main() -> None:
    """Try every plan of a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", choices=list(PARTS), default="development")
    parser.add_argument("--method", default="bounded", help=f"bounded or {PAPER_METHOD}")
    parser.add_argument("--share", type=float, default=1.0, help="share of the planned plays")
    parser.add_argument("--search", action="store_true", help="search the fewest plays first")
    parser.add_argument("--repetitions", type=int, help="of each attack and lead")
    options = parser.parse_args()
    questions, seed, repetitions = PARTS[options.part]
    with threadpool_limits(1):
        for question in questions:
            line = tried(
                question,
                options.method,
                share=None if options.search else options.share,
                seed=seed,
                repetitions=options.repetitions or repetitions,
            )
            print(line, flush=True)


if __name__ == "__main__":
    main()
