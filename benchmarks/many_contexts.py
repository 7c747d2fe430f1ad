"""Measure false alarms and detection in logs with thousands of cells and few rewards in each.

Run ``python benchmarks/many_contexts.py`` for a table, with ``--json`` for one JSON document.
Contexts follow Zipf's law and actions are uniform. A share of the accounts lies in a share of its
rewards: about one action everywhere ("target"), against the two best actions of each context and
for the fourth ("rivals"), or the same in all but the most frequent contexts ("rare"). ``--peace``
counts the logs without an attack, of many shapes, in which any account lost weight.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

import numpy as np

from unswayed.learners.bounded import learn_bounded
from unswayed.learners.design import uniform_design
from unswayed.randomness import generator
from worlds import World

COLLUDING, STATED = 0.1, 0.15
USERS, PLAYS, CONTEXTS, ACTIONS = 125_000, 40, 1_000, 20
FREQUENT = 50
"""Number of contexts in which the attack "rare" is honest; the learner examines them first."""

ATTACKS = ("target", "rivals", "rare")
SHAPES = (
    (5_000, 20, 200, 10),
    (10_000, 10, 500, 20),
    (3_000, 40, 300, 20),
    (50_000, 6, 200, 10),
    (2_000, 100, 100, 20),
    (20_000, 20, 2_000, 5),
    (1_000, 30, 20, 5),
    (25_000, 40, 1_000, 20),
)
"""Users, plays, contexts and actions of logs without an attack."""


@dataclass(frozen=True, slots=True)
class Row:
    """Result of one log: attack, losses per decision, and kept accounts."""

    log: str
    strength: float
    seed: int
    plain_mean: float
    bounded: float
    oracle: float
    kept_of_colluders: float
    kept_of_good: float


def make_log(
    shape: tuple[int, int, int, int],
    seed: int,
    *,
    attack: str = "",
    strength: float = 0.0,
    is_binary: bool = True,
    is_zipf: bool = True,
) -> World:
    """Draw a log; the first accounts are the colluders, who may be honest."""
    n_users, plays, n_contexts, n_actions = shape
    rng = generator(seed, "many contexts")
    visits = 1.0 / np.arange(1, n_contexts + 1) ** float(is_zipf)
    probabilities = visits / visits.sum()
    means = 0.3 + 0.4 * rng.random((n_contexts, n_actions))
    users = np.repeat(np.arange(n_users), plays)
    contexts = rng.choice(n_contexts, size=len(users), p=probabilities)
    actions = rng.integers(n_actions, size=len(users))
    drawn = means[contexts, actions]
    noisy = drawn + 0.3 * rng.standard_normal(len(users))
    rewards = (rng.random(len(users)) < drawn).astype(float) if is_binary else noisy
    lies = (users < COLLUDING * n_users) & (rng.random(len(users)) < strength)
    if attack == "target":
        praised, damned = actions == 0, actions != 0
    else:
        ranked = np.argsort(-means, axis=1)[contexts]
        praised = actions == ranked[:, 3]
        damned = (actions == ranked[:, 0]) | (actions == ranked[:, 1])
    if attack == "rare":
        lies &= contexts >= FREQUENT
    rewards[lies & praised], rewards[lies & damned] = 1.0, 0.0
    return World(
        users=users,
        contexts=contexts,
        actions=actions,
        rewards=rewards,
        alpha=STATED,
        true_means=means,
        context_probabilities=probabilities,
        is_bad=np.arange(n_users) < COLLUDING * n_users,
    )


def measure(name: str, strength: float, seed: int, log: World) -> Row:
    """Learn from one log."""
    learned = learn_bounded(log.tallies, uniform_design(log.tallies), alpha=log.alpha)
    return Row(
        log=name,
        strength=strength,
        seed=seed,
        plain_mean=log.suboptimality(log.naive()),
        bounded=log.suboptimality(log.decided(learned)),
        oracle=log.suboptimality(log.oracle()),
        kept_of_colluders=float(learned.user_weights[log.is_bad].mean()),
        kept_of_good=float(learned.user_weights[~log.is_bad].mean()),
    )


def peaceful(seeds: list[int]) -> list[Row]:
    """Learn from logs without an attack."""
    rows = []
    for shape in SHAPES:
        for is_binary in (True, False):
            for is_zipf in (True, False):
                kind = ("binary" if is_binary else "normal", "Zipf" if is_zipf else "flat")
                name = " ".join((*map(str, shape), *kind))
                for seed in seeds:
                    log = make_log(shape, seed, is_binary=is_binary, is_zipf=is_zipf)
                    rows.append(measure(name, 0.0, seed, log))
    return rows


def attacked(users: int, strengths: list[float], seeds: list[int]) -> list[Row]:
    """Learn from logs under attack."""
    shape = (users, PLAYS, CONTEXTS, ACTIONS)
    return [
        measure(attack, strength, seed, make_log(shape, seed, attack=attack, strength=strength))
        for attack in ATTACKS
        for strength in strengths
        for seed in seeds
    ]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peace", action="store_true")
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.3, 0.5, 0.7, 1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.peace:
        rows = peaceful(arguments.seeds)
    else:
        rows = attacked(arguments.users, arguments.strengths, arguments.seeds)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    for row in rows:
        print(
            f"{row.log:32s} strength {row.strength:3.1f} seed {row.seed}  plain mean "
            f"{row.plain_mean:.4f}  bounded {row.bounded:.4f}  oracle {row.oracle:.4f}  "
            f"kept of colluders {row.kept_of_colluders:.2f}, of good users {row.kept_of_good:.3f}"
        )
    touched = sum(row.kept_of_good < 1.0 for row in rows)
    print(f"{touched} of {len(rows)} logs in which good users lost weight")


if __name__ == "__main__":
    main()
