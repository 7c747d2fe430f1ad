"""Regret per good user over the zoo of attacks: epochs against what others run.

    python benchmarks/regret.py --seed 101 --processes 2 --out regret-101.jsonl

Every algorithm meets every attack at both shares of colluders in both worlds. What is asked of
``epochs`` is printed with its number: at most half of the best competitor under that competitor's
worst attack, within 1.5 times pooled UCB without an attack, nobody above three times the median.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from unswayed.processes import WorkerPool
from unswayed.simulation.attack_search import ONLY_BINARY
from unswayed.simulation.attacks.registry import ATTACKS
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Goal, run_repetition

WORLDS = ((10, 10), (50, 5))
ALPHAS = (0.1, 0.2)
USERS, INTERACTIONS = 2000, 500
OURS = "epochs"
COMPETITORS = (
    "naive-ucb",
    "independent-ucb",
    "thompson",
    "epsilon-greedy",
    "barbar",
    "barbat",
    "liu",
    "active-arm-elimination",
    "fed-mom-ucb",
    "phased-elimination",
    "rclub",
)
#: Rewards are Gaussian here, and rehearsals of the best response take a run each.
LEFT_OUT = (*ONLY_BINARY, "best-response")
ATTACKED = tuple(name for name in ATTACKS if name not in (*LEFT_OUT, "honest"))


@dataclass(frozen=True)
class Run:
    """What good users lost in one run."""

    algorithm: str
    attack: str
    contexts: int
    actions: int
    alpha: float
    repetition: int
    mean: float
    median: float
    quantile_95: float
    worst: float
    seconds: float
    seed: int = 0


def one_run(
    algorithm: str,
    attack: str,
    world: tuple[int, int],
    alpha: float,
    repetition: int,
    seed: int = 0,
) -> Run:
    """Run one algorithm against one attack."""
    settings = Settings(
        contexts=world[0],
        actions=world[1],
        users=USERS,
        interactions=INTERACTIONS,
        alpha=alpha,
        attack=attack,
        algorithms=(algorithm,),
        seed=seed,
    )
    start = time.process_time()
    row = run_repetition(settings, algorithm, repetition, Goal.REGRET)
    assert row.spread is not None  # the goal is regret
    return Run(
        algorithm,
        attack,
        *world,
        alpha,
        repetition,
        row.loss,
        row.spread.median,
        row.spread.quantile_95,
        row.spread.worst,
        time.process_time() - start,
        seed,
    )


def tasks(
    algorithms: tuple[str, ...], attacks: tuple[str, ...], repetitions: int
) -> list[tuple[str, str, tuple[int, int], float, int]]:
    """Return all runs, all of one repetition before the next."""
    return [
        (algorithm, attack, world, alpha, repetition)
        for repetition in range(repetitions)
        for attack in attacks
        for world in WORLDS
        for alpha in ALPHAS
        for algorithm in algorithms
        # Nobody else's rewards reach a user there, so one attack is like another.
        if not (algorithm == "independent-ucb" and attack not in ("honest", "push"))
    ]


def report(runs: list[Run]) -> None:
    """Print means by algorithm and world, and what is asked of ours."""

    def mean(algorithm: str, attack: str, world: tuple[int, int], alpha: float) -> float:
        found = [
            run.mean
            for run in runs
            if (run.algorithm, run.attack, (run.contexts, run.actions), run.alpha)
            == (algorithm, attack, world, alpha)
        ]
        return float(np.mean(found)) if found else float("nan")

    algorithms = list(dict.fromkeys(run.algorithm for run in runs))
    for world in WORLDS:
        for alpha in ALPHAS:
            print(f"S = {world[0]}, A = {world[1]}, alpha = {alpha}")
            worst_of: dict[str, float] = {}
            for algorithm in algorithms:
                by_attack = {a: mean(algorithm, a, world, alpha) for a in ATTACKED}
                known = {a: value for a, value in by_attack.items() if np.isfinite(value)}
                ratios = [
                    run.worst / run.median
                    for run in runs
                    if run.algorithm == algorithm
                    and (run.contexts, run.actions, run.alpha) == (*world, alpha)
                ]
                line = f"  {algorithm:22s} no attack {mean(algorithm, 'honest', world, alpha):7.2f}"
                if known:
                    worst = max(known, key=lambda a: known[a])
                    worst_of[algorithm] = known[worst]
                    line += (
                        f"  mean over {len(known):2d} attacks {np.mean(list(known.values())):7.2f}"
                        f"  worst {known[worst]:7.2f} ({worst})"
                    )
                if ratios:
                    line += f"  worst user/median {max(ratios):.2f}"
                print(line)
            rivals = {a: worst_of[a] for a in COMPETITORS if a in worst_of}
            if OURS in worst_of and rivals:
                best = min(rivals, key=lambda a: rivals[a])
                ours = float(np.nanmean([mean(OURS, a, world, alpha) for a in ATTACKED]))
                print(f"  epochs over the best competitor ({best}): {ours / rivals[best]:.2f}")
                calm = mean(OURS, "honest", world, alpha) / mean(
                    "naive-ucb", "honest", world, alpha
                )
                print(f"  epochs over pooled UCB without an attack: {calm:.2f}")


def main() -> None:
    """Run what is asked for, write it and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithms", default=",".join((OURS, *COMPETITORS)))
    parser.add_argument("--attacks", default=",".join(("honest", *ATTACKED)))
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the worlds and all that is drawn")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("regret.jsonl"))
    parser.add_argument("--report", action="store_true", help="print what --out holds, run nothing")
    options = parser.parse_args()
    runs: list[Run] = []
    if options.out.exists():
        runs = [Run(**json.loads(line)) for line in options.out.read_text().splitlines()]
    if not options.report:
        done = {
            (run.algorithm, run.attack, (run.contexts, run.actions), run.alpha, run.repetition)
            for run in runs
            if run.seed == options.seed
        }
        left = [
            task
            for task in tasks(
                tuple(options.algorithms.split(",")),
                tuple(options.attacks.split(",")),
                options.repetitions,
            )
            if task not in done
        ]
        with WorkerPool(options.processes) as pool, options.out.open("a") as lines:
            for future in as_completed(
                [pool.submit(one_run, *task, options.seed) for task in left]
            ):
                runs.append(future.result())
                lines.write(json.dumps(asdict(runs[-1])) + "\n")
                lines.flush()
    report(runs)


if __name__ == "__main__":
    main()
