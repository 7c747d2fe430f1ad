"""Fit the planner's constants by simulation, for the worst attack in each world.

    python benchmarks/calibrate_planner.py [--methods paper] [--every 3] [--largest 150000]
        [--traffic-attacks 1] [--traffic-repetitions 3] [--output FILE]
    python benchmarks/calibrate_planner.py --validate [--output FILE]

The theory gives orders of growth. This script fits the factor of each: losses in worlds of many
sizes are divided by the order ("units"), and the planner uses the largest ratio. Every world is
attacked by several coalitions at several leads of the best action, and the worst combination
counts. For methods that are not named, the file is not changed; context probabilities and users who
learn alone are fitted together with the paper's method, which needs them. With --validate, the
script plans for other worlds, simulates the plans under every attack, and adds the results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import unswayed.limits
from planner_worlds import (
    COME_OFTEN,
    FRACTIONS,
    REPETITIONS,
    TRAFFIC,
    TRAFFIC_ALPHA,
    TRAFFIC_PLAYS,
    TRAFFIC_SHAPES,
    TRAFFIC_USERS,
    World,
    mean,
    simulated_traffic,
    worlds,
    worst_losses,
)
from unswayed.arrays import FloatArray
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import estimate_context_probabilities
from unswayed.learners.players import WARMUP_SHARE
from unswayed.limits.planner import SHAPES, plan_traffic
from unswayed.randomness import generator
from unswayed.simulation.attacks.registry import ATTACKS as ALL_ATTACKS
from unswayed.simulation.instances import named_probabilities
from unswayed.simulation.simulate import Settings, simulate
from unswayed.tallies import tally

OUTPUT = Path(unswayed.limits.__file__).parent / "constants.json"
SEED = 20_220

ATTACKS: dict[str, dict[str, tuple[str, ...]]] = {
    "paper": {
        "frequent": ("nuke", "extreme"),
        "mixed": ("subtractive", "hide-in-covariance", "trim-edge"),
    },
    "bounded": {
        "frequent": ("nuke", "id-grinding", "shifted-replay"),
        "mixed": ("shifted-replay", "on-off", "trim-edge"),
    },
}
"""Strongest attacks in an experiment with all of them, at S = A = 10 and at S = 40, A = 5. Those on
``bounded`` were found for an earlier version."""

VALIDATION = (
    (8, 8, "zipf:0.5", 0.15, 0.08),
    (3, 6, "uniform", 0.25, 0.12),
    (20, 6, "uniform", 0.1, 0.07),
    (50, 4, "zipf:1.5", 0.15, 0.08),
)
"""Contexts, actions, context probabilities, alpha and epsilon of the plans to be validated."""

LEADS = (0.9, 1.3, 2.0)
"""Leads of the best action at which plans are tried, in multiples of epsilon."""

NOT_VALIDATED = ("hiding", "hiding-two-sided")
"""Attacks that are left out because they need rewards of 0 and 1."""

LEAST_LOSS = 0.1
"""Least loss under usual traffic, in yardsticks; ratios to smaller ones would be noise."""

PAPERS_FEW_USERS = {"frequent": 3.0, "mixed": 2.0}
"""Factors of the term for few users of the paper's method, from 80 worlds; used if a calibration
has too few worlds."""

ENOUGH_PAIRS = 4
"""Number of worlds, beyond the first of each fraction, required to fit the cost of few users."""

FEW_USERS_CANDIDATES = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


def calibrate_method(method: str, *, processes: int, every: int, largest: int) -> dict[str, Any]:
    """Fit the factor of K(B)·sqrt(alpha/N) and the cost of few users."""
    # All numbers of plays and of users occur if the step is odd.
    chosen = [w for w in list(worlds())[::every] if w.n_users * w.interactions <= largest]
    found = []
    for number, world in enumerate(chosen):
        attacks = ATTACKS[method][world.shape]
        found.append(
            worst_losses(world, method, attacks=attacks, seed=SEED + number, processes=processes)
        )
        print(
            f"{method} {number + 1}/{len(chosen)} {world}: {found[-1]['attack']} "
            f"{found[-1]['mean'] / world.yardstick:.3f} yardsticks",
            flush=True,
        )
    return fitted(chosen, found)


def fitted(chosen: list[World], found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return losses in units, with the cost of few users that minimises their spread."""
    few_users = {shape: _few_users(chosen, found, shape) for shape in SHAPES}
    rows = []
    for world, result in zip(chosen, found, strict=True):
        unit = world.unit(few_users[world.shape])
        rows.append(
            {
                "shape": world.shape,
                "contexts": world.n_contexts,
                "actions": world.n_actions,
                "context_probabilities": world.law,
                "alpha": world.alpha,
                "users": world.n_users,
                "interactions": world.interactions,
                "attack": result["attack"],
                "loss": round(result["mean"], 6),
                "mean": round(result["mean"] / unit, 6),
                "deviation": round(result["deviation"] / unit, 6),
                "gap_units": round(result["gap"] / unit, 6),
            }
        )
    return {"few_users": few_users, "warmup_share": WARMUP_SHARE, "rows": rows}


def _few_users(chosen: list[World], found: list[dict[str, Any]], shape: str) -> float:
    """Return the cost of few users, if enough worlds have a common share of colluders."""
    fractions = [world.alpha for world in chosen if world.shape == shape]
    if len(fractions) - len(set(fractions)) < ENOUGH_PAIRS:
        return PAPERS_FEW_USERS[shape]
    return min(FEW_USERS_CANDIDATES, key=lambda price: _spread(chosen, found, shape, price))


def _spread(
    chosen: list[World], found: list[dict[str, Any]], shape: str, few_users: float
) -> float:
    """Return the spread of losses in units between worlds with the same share of colluders."""
    logs: dict[float, list[float]] = {}
    for world, result in zip(chosen, found, strict=True):
        if world.shape == shape:
            # Worlds without any loss are omitted, as ratios are undefined.
            loss = max(result["mean"] / world.unit(few_users), 1e-3)
            logs.setdefault(world.alpha, []).append(math.log(loss))
    return float(sum(len(values) * np.var(values) for values in logs.values()))


def calibrate_traffic(
    method: str, *, processes: int, n_attacks: int, repetitions: int
) -> list[dict[str, Any]]:
    """Measure the cost of traffic, relative to the usual traffic of the same world."""
    rows: list[dict[str, Any]] = [{"kind": "ratio", "value": 2.0, "mean": 1.0, "usual": 1.0}]
    for shape in TRAFFIC_SHAPES:
        world = World(*shape, "uniform", TRAFFIC_ALPHA, TRAFFIC_USERS, TRAFFIC_PLAYS)
        attacks = (*ATTACKS[method][world.shape][:n_attacks], *COME_OFTEN)
        usual = worst_losses(
            world, method, attacks=attacks, seed=SEED, processes=processes, repetitions=repetitions
        )
        for kind, value, traffic in TRAFFIC:
            result = worst_losses(
                world,
                method if traffic.exploration == 1.0 else f"{method}-on-log",
                attacks=attacks,
                seed=SEED,
                processes=processes,
                traffic=traffic,
                repetitions=repetitions,
            )
            rows.append(
                {
                    "kind": kind,
                    "value": value,
                    "shape": world.shape,
                    "attacks": len(attacks),
                    "repetitions": repetitions,
                    "attack": result["attack"],
                    "mean": round(result["mean"] / (world.yardstick * traffic.scale), 6),
                    "usual": round(max(usual["mean"] / world.yardstick, LEAST_LOSS), 6),
                }
            )
            print(f"traffic {rows[-1]}", flush=True)
    return rows


def calibrate_contexts(*, every: int) -> list[dict[str, Any]]:
    """Fit the factor of sqrt((alpha + S/L)/N0) in the error of estimated context probabilities."""
    rows: list[dict[str, Any]] = []
    cases = [
        (n_contexts, law, fraction, plays)
        for n_contexts in (10, 50)
        for law in ("uniform", "zipf:1")
        for fraction in FRACTIONS
        for plays in (5, 20)
    ]
    for number, (n_contexts, law, fraction, plays) in enumerate(cases[::every]):
        n_users = round(10 * n_contexts / fraction)
        nu = named_probabilities(law, n_contexts)
        unit = math.sqrt((fraction + n_contexts / n_users) / plays)
        worst: list[float] = [-1.0]
        for targets in (1, max(2, n_contexts // 4), n_contexts // 2):
            for share in (0.3, 1.0):
                errors = [
                    _context_error(nu, fraction, n_users, plays, targets, share, (number, run))
                    for run in range(REPETITIONS)
                ]
                worst = max(worst, errors, key=mean)
        rows.append(
            {
                "contexts": n_contexts,
                "context_probabilities": law,
                "alpha": fraction,
                "users": n_users,
                "interactions": plays,
                "mean": round(float(np.mean(worst)) / unit, 6),
                "deviation": round(float(np.std(worst, ddof=1)) / unit, 6),
            }
        )
    print(f"contexts: at most {max(row['mean'] for row in rows):.3f} units", flush=True)
    return rows


def _context_error(
    nu: FloatArray,
    fraction: float,
    n_users: int,
    plays: int,
    n_targets: int,
    share: float,
    path: tuple[int, int],
) -> float:
    """Return the l1 error if colluders spend a share of their visits on the rarest contexts."""
    rng = generator(SEED, "contexts", *path)
    contexts = rng.choice(nu.size, size=(n_users, plays), p=nu)
    targets = np.argsort(nu, kind="stable")[:n_targets]
    n_bad = int(fraction * n_users)
    is_flooded = rng.random((n_bad, plays)) < share
    contexts[:n_bad][is_flooded] = rng.choice(targets, size=int(is_flooded.sum()))
    tallies = tally(
        np.repeat(np.arange(n_users), plays),
        contexts.ravel(),
        np.zeros(contexts.size, np.int64),
        np.zeros(contexts.size),
        n_users=n_users,
        n_contexts=nu.size,
        n_actions=1,
    )
    estimate = estimate_context_probabilities(tallies, alpha=fraction)
    return float(np.abs(estimate.context_probabilities - nu).sum())


def calibrate_alone() -> list[dict[str, Any]]:
    """Fit the factor of sqrt(A/N)·Σ sqrt(nu) for a user who plays uniformly and learns alone."""
    rows: list[dict[str, Any]] = []
    for n_contexts, n_actions, law in ((5, 5, "uniform"), (10, 10, "zipf:1"), (20, 5, "uniform")):
        nu = named_probabilities(law, n_contexts)
        for unit in (0.3, 0.6):
            plays = round(n_actions * float(np.sqrt(nu).sum()) ** 2 / unit**2)
            worst: list[float] = [-1.0]
            for factor in (0.4, 0.7, 1.0):
                settings = Settings(
                    contexts=n_contexts,
                    actions=n_actions,
                    users=1,
                    interactions=plays,
                    alpha=0.0,
                    attack="honest",
                    algorithms=("oracle",),
                    repetitions=4 * REPETITIONS,
                    seed=SEED,
                    gap=factor * unit,
                    context_probabilities=law,
                )
                losses = [row.loss / unit for row in simulate(settings)]
                worst = max(worst, losses, key=mean)
            rows.append(
                {
                    "contexts": n_contexts,
                    "actions": n_actions,
                    "context_probabilities": law,
                    "interactions": plays,
                    "mean": round(float(np.mean(worst)), 6),
                    "deviation": round(float(np.std(worst, ddof=1)), 6),
                }
            )
    print(f"alone: at most {max(row['mean'] for row in rows):.3f} units", flush=True)
    return rows


def validate(*, processes: int) -> list[dict[str, Any]]:
    """Simulate plans for worlds that were not fitted, under all attacks."""
    attacks = [name for name in ALL_ATTACKS if name not in NOT_VALIDATED]
    rows = []
    for n_contexts, n_actions, law, fraction, target in VALIDATION:
        nu = named_probabilities(law, n_contexts)
        plan = plan_traffic(nu, n_actions, fraction, target, 0.1)
        first = plan.methods[0]
        means: dict[str, float] = {}
        for attack, lead in itertools.product(attacks, LEADS):
            settings = Settings(
                contexts=n_contexts,
                actions=n_actions,
                users=plan.n_users,
                interactions=first.interactions_per_user,
                alpha=fraction,
                attack=attack,
                algorithms=(first.method,),
                repetitions=2,
                seed=SEED,
                gap=lead * target,
                context_probabilities=law,
                **simulated_traffic(plan.traffic),
            )
            losses = [row.loss for row in simulate(settings, processes=processes)]
            means[attack] = max(means.get(attack, 0.0), mean(losses))
        worst = max(means, key=lambda attack: means[attack])
        rows.append(
            {
                "contexts": n_contexts,
                "actions": n_actions,
                "context_probabilities": law,
                "alpha": fraction,
                "epsilon": target,
                "users": plan.n_users,
                "interactions": first.interactions_per_user,
                "attacks": len(attacks),
                "worst_attack": worst,
                "worst_mean": round(means[worst], 6),
                "share_of_attacks_within": round(mean([m <= target for m in means.values()]), 4),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run everything and write the constants."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--methods", default="paper", help="methods to fit, separated by commas")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only every Nth world; odd numbers")
    parser.add_argument(
        "--largest",
        type=int,
        default=10**9,
        help="only worlds with at most this many plays in total",
    )
    parser.add_argument(
        "--traffic-attacks", type=int, default=9, help="attacks for each other kind of traffic"
    )
    parser.add_argument("--traffic-repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument(
        "--validate", action="store_true", help="only validate the current constants"
    )
    options = parser.parse_args()
    constants: dict[str, Any] = {}
    if options.output.exists():
        constants = json.loads(options.output.read_text(encoding="utf-8"))
    if options.validate:
        validation = constants.setdefault("validation", {})
        validation["paper"] = validate(processes=options.processes)
        _write(constants, options.output)
        return
    constants |= {
        "format": "unswayed-planner-constants",
        "experiment": "benchmarks/calibrate_planner.py",
        "seed": SEED,
        "repetitions": REPETITIONS,
        "rewards": "gaussian, standard deviation 0.5",
        "versions": {name: version(name) for name in ("unswayed", "numpy", "scipy", "numba")},
    }
    if "paper" in options.methods.split(",") or "contexts" not in constants:
        constants["contexts"] = calibrate_contexts(every=options.every)
        constants["alone"] = calibrate_alone()
    methods = constants.setdefault("methods", {})
    for method in options.methods.split(","):
        if method not in METHODS:
            parser.error(f"unknown method {method}; choose from {', '.join(METHODS)}")
        fitted_method = calibrate_method(
            method, processes=options.processes, every=options.every, largest=options.largest
        )
        methods[method] = {
            "attacks": ATTACKS[method],
            "traffic": calibrate_traffic(
                method,
                processes=options.processes,
                n_attacks=options.traffic_attacks,
                repetitions=options.traffic_repetitions,
            ),
            **fitted_method,
        }
    _write(constants, options.output)


def _write(constants: dict[str, Any], output: Path) -> None:
    output.write_text(json.dumps(constants, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
