"""Off-policy evaluation under attack: bias, sign and coverage of the uplift, beside an oracle.

2,000 users with 30 plays each, 10 contexts, 5 actions, uniform logging. A share of the users lies:
``push`` and ``nuke`` about one item, which the policy plays; ``swap`` about the best and the second
best item of each context, and ``quiet`` the same in a part of the answers; the policy plays the
best or the second. ``none`` has no attack, ``tastes`` none either but users who differ. Run
``python benchmarks/evaluate.py`` for a table, with ``--json`` for one JSON document. Constants were
chosen with the seeds of the part development.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import expit, logit

from unswayed.evaluation import evaluate_events
from unswayed.evaluation.evaluating import Evaluation
from unswayed.events import Events, Labels
from unswayed.policy import Policy
from unswayed.randomness import generator

PARTS = {"development": 0, "validation": 1_000, "holdout": 2_000, "second-holdout": 3_000}
N_CONTEXTS, N_ACTIONS, N_USERS, N_PLAYS = 10, 5, 2_000, 30
QUIET = 0.35
NOISE = 0.3
TASTES = 0.4
KINDS = (
    ("push", "target"),
    ("nuke", "target"),
    ("swap", "best"),
    ("swap", "second"),
    ("quiet", "best"),
    ("quiet", "second"),
    ("none", "target"),
    ("none", "best"),
    ("tastes", "target"),
    ("tastes", "best"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One log: errors of the uplift by DR, and whether intervals hold."""

    attack: str
    policy: str
    rewards: str
    alpha: float
    seed: int
    uplift: float
    naive: float
    robust: float
    oracle: float
    is_covered: bool
    is_covered_naively: bool
    has_right_sign: bool
    width: float
    weight_kept: float
    found_by: str


def measure(attack: str, plays: str, rewards: str, alpha: float, seed: int) -> Row:
    """Return how an evaluation did on one log."""
    rng = generator(seed, "evaluate", attack, rewards)
    n, shape = N_USERS * N_PLAYS, (N_CONTEXTS, N_ACTIONS)
    means = 0.3 + 0.3 * rng.random(shape)
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    contexts, actions = rng.integers(N_CONTEXTS, size=n), rng.integers(N_ACTIONS, size=n)
    factors = rng.standard_normal((N_USERS, 2)) * (attack == "tastes")
    loadings = TASTES / np.sqrt(2.0) * rng.standard_normal((N_ACTIONS, 2))
    own = factors @ loadings.T
    expected = expit(logit(means[contexts, actions]) + own[users, actions])
    true = expit(logit(means)[None] + own[:, None, :]).mean(axis=0)
    if rewards == "binary":
        said = (rng.random(n) < expected).astype(np.float64)
    else:
        said = expected + NOISE * rng.standard_normal(n)
    is_bad = np.zeros(N_USERS, dtype=np.bool_)
    if attack not in ("none", "tastes"):
        is_bad[rng.permutation(N_USERS)[: round(alpha * N_USERS)]] = True
    order = np.argsort(-true, axis=1)
    best, second = order[:, 0], order[:, 1]
    target = int(rng.integers(N_ACTIONS))
    lies = is_bad[users]
    if attack == "quiet":
        lies &= rng.random(n) < QUIET
    if attack in ("push", "nuke"):
        said[lies & (actions == target)] = 1.0 if attack == "push" else 0.0
    if attack in ("swap", "quiet"):
        said[lies & (actions == best[contexts])] = 0.0
        said[lies & (actions == second[contexts])] = 1.0
    choices = {"target": np.full(N_CONTEXTS, target), "best": best, "second": second}[plays]
    uplift = float(true[np.arange(N_CONTEXTS), choices].mean() - true.mean())
    names = [Labels.of(range(k)) for k in (N_USERS, *shape)]
    log = Events(users, contexts, actions, said, names[0], names[1], names[2])
    found = evaluate_events(log, _policy(choices), stated=alpha)
    honest = ~is_bad[users]
    oracle = _uplift_of_means(contexts[honest], actions[honest], said[honest], choices)
    naive, robust = _dr(found, robust=False), _dr(found, robust=True)
    return Row(
        attack=attack,
        policy=plays,
        rewards=rewards,
        alpha=alpha,
        seed=seed,
        uplift=uplift,
        naive=naive[0] - uplift,
        robust=robust[0] - uplift,
        oracle=oracle - uplift,
        is_covered=robust[1] <= uplift <= robust[2],
        is_covered_naively=naive[1] <= uplift <= naive[2],
        has_right_sign=(robust[0] > 0) == (uplift > 0) or robust[1] <= 0.0 <= robust[2],
        width=robust[2] - robust[1],
        weight_kept=found.weight_kept,
        found_by=found.found_by,
    )


def _policy(choices: np.ndarray) -> Policy:
    table = np.zeros((N_CONTEXTS, N_ACTIONS))
    table[np.arange(N_CONTEXTS), choices] = 1.0
    return Policy(
        context_labels=Labels.of(range(N_CONTEXTS)),
        action_labels=Labels.of(range(N_ACTIONS)),
        mean_rewards=table,
        low=table,
        high=table,
        counts=np.ones_like(table, dtype=np.int64),
        context_probabilities=np.full(N_CONTEXTS, 1.0 / N_CONTEXTS),
        adversarial_fraction=0.0,
        method="given",
    )


def _dr(found: Evaluation, *, robust: bool) -> tuple[float, float, float]:
    (one,) = [e for e in found.estimates if e.robust == robust and e.estimator == "dr"]
    return one.uplift.estimate, one.uplift.low, one.uplift.high


def _uplift_of_means(
    contexts: np.ndarray, actions: np.ndarray, rewards: np.ndarray, choices: np.ndarray
) -> float:
    cells = contexts * N_ACTIONS + actions
    n = np.bincount(cells, minlength=N_CONTEXTS * N_ACTIONS)
    means = (np.bincount(cells, rewards, N_CONTEXTS * N_ACTIONS) / np.maximum(n, 1)).reshape(
        N_CONTEXTS, N_ACTIONS
    )
    shares = np.bincount(contexts, minlength=N_CONTEXTS) / len(contexts)
    return float(shares @ means[np.arange(N_CONTEXTS), choices] - rewards.mean())


def print_table(rows: list[Row]) -> None:
    """Print means over seeds."""
    print(
        f"{'attack':<8} {'policy':<8} {'rewards':<8} {'alpha':>5} {'logs':>4} {'uplift':>8} "
        f"{'naive':>8} {'robust':>8} {'worst':>7} {'oracle':>8} {'covers':>6} {'naive':>6} "
        f"{'sign':>5} {'width':>6} {'kept':>5} {'direct':>6}"
    )
    for key in dict.fromkeys((r.attack, r.policy, r.rewards, r.alpha) for r in rows):
        some = [r for r in rows if (r.attack, r.policy, r.rewards, r.alpha) == key]
        mean = {
            name: float(np.mean([getattr(r, name) for r in some]))
            for name in ("uplift", "naive", "robust", "oracle", "width", "weight_kept")
        }
        worst = max(abs(r.robust) for r in some)
        print(
            f"{key[0]:<8} {key[1]:<8} {key[2]:<8} {key[3]:>5.2f} {len(some):>4} "
            f"{mean['uplift']:>8.4f} {mean['naive']:>8.4f} {mean['robust']:>8.4f} {worst:>7.4f} "
            f"{mean['oracle']:>8.4f} {np.mean([r.is_covered for r in some]):>6.2f} "
            f"{np.mean([r.is_covered_naively for r in some]):>6.2f} "
            f"{np.mean([r.has_right_sign for r in some]):>5.2f} {mean['width']:>6.4f} "
            f"{mean['weight_kept']:>5.2f} "
            f"{np.mean([r.found_by != 'the learner' for r in some]):>6.2f}",
            flush=True,
        )


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), default="development")
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--alpha", type=float, default=0.2)
    parser.add_argument("--rewards", choices=("binary", "normal"), default="binary")
    parser.add_argument("--only", default="", help="attacks whose name contains this")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for attack, plays in KINDS:
        if arguments.only not in attack:
            continue
        some = [
            measure(attack, plays, arguments.rewards, arguments.alpha, PARTS[arguments.part] + k)
            for k in range(arguments.logs)
        ]
        if not arguments.json:
            print_table(some)
        rows += some
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
