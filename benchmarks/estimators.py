"""Cost, memory and accuracy of the high-dimensional estimators.

Run ``python benchmarks/estimators.py`` for tables, with ``--json`` for one JSON document. Cost is a
ratio to one ``eigsh(k=1)`` of the covariance of the same matrix in the same run, so that it is
comparable between machines. Accuracy is the l2 error relative to that of the mean of the good rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh
from threadpoolctl import threadpool_limits

from unswayed.arrays import FloatArray
from unswayed.estimators import MeanEstimate, quantum_entropy_mean, spectral_filter
from unswayed.randomness import generator

Estimator = Callable[..., MeanEstimate]

ESTIMATORS: dict[str, Estimator] = {
    "spectral_filter": spectral_filter,
    "quantum_entropy_mean": quantum_entropy_mean,
}
ALPHA = 0.2
COST_TARGET = 15.0
MEMORY_TARGET = 3.0
DENSE_ATTACKS = ("none", "far", "shell", "hidden shift", "ten directions", "subtractive")
BANDIT_ATTACKS = ("none", "push", "flip", "lie", "big")


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows, a mask of the good ones, and the mean of their distribution."""

    rows: FloatArray | sparse.csr_array
    is_good: NDArray[np.bool_]
    true_mean: FloatArray


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one estimator on one matrix."""

    attack: str
    estimator: str
    eigsh_ratio: float
    seconds: float
    memory_ratio: float
    iterations: int
    stopped: str
    removed: float


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Error of one estimator under one attack."""

    rows: str
    attack: str
    estimator: str
    relative_error: float
    removed: float


def dense_sample(attack: str, rng: np.random.Generator) -> Sample:
    """Draw 2,000 normal rows in 100 dimensions, a fifth of them bad; the mean is not zero."""
    n_rows, n_columns = 2000, 100
    n_bad = 0 if attack == "none" else int(ALPHA * n_rows)
    mean = rng.normal(3.0, 1.0, n_columns)
    rows = mean + rng.standard_normal((n_rows, n_columns))
    direction = rng.standard_normal(n_columns)
    direction /= np.linalg.norm(direction)
    is_good = np.arange(n_rows) >= n_bad
    bad = ~is_good
    if attack == "far":
        rows[bad] = mean + 100.0 * direction + 0.1 * rng.standard_normal((n_bad, n_columns))
    elif attack == "shell":
        shell = rng.standard_normal((n_bad, n_columns))
        shell /= np.linalg.norm(shell, axis=1, keepdims=True)
        rows[bad] = mean + 8.0 * np.sqrt(n_columns) * shell
    elif attack == "hidden shift":
        rows[bad] += 3.0 * direction
    elif attack == "ten directions":
        frame = np.linalg.qr(rng.standard_normal((n_columns, 10)))[0]
        rows[bad] += 6.0 * frame[:, rng.integers(0, 10, n_bad)].T
    elif attack == "subtractive":  # only good rows of one tail are removed
        kept = np.argsort((rows - mean) @ direction)[: n_rows - n_bad]
        rows, is_good = rows[kept], np.ones(n_rows - n_bad, dtype=np.bool_)
    return Sample(rows, is_good, mean)


def bandit_sample(
    attack: str,
    rng: np.random.Generator,
    *,
    n_users: int = 5000,
    n_contexts: int = 50,
    n_actions: int = 10,
    interactions_per_user: int = 30,
) -> Sample:
    """Draw sparse rows of residual sums per (context, action), a fifth of the users colluding.

    Residuals are computed from an inexact pilot mean, so the true mean is not zero.
    """
    shape = (n_users, interactions_per_user)
    n_columns = n_contexts * n_actions
    mean_rewards = rng.uniform(0.3, 0.7, (n_contexts, n_actions))
    pilot = mean_rewards + rng.normal(0.02, 0.02, mean_rewards.shape)
    is_good = np.arange(n_users) >= (0 if attack == "none" else int(ALPHA * n_users))
    contexts = rng.integers(0, n_contexts, shape)
    actions = rng.integers(0, n_actions, shape)
    rewards = (rng.random(shape) < mean_rewards[contexts, actions]).astype(np.float64)
    ranking = np.argsort(mean_rewards, axis=1)
    is_best = actions == ranking[contexts, -1]
    is_second = actions == ranking[contexts, -2]
    bad = ~is_good[:, None]
    if attack == "push":
        rewards = np.where(bad & is_second, 1.0, np.where(bad & is_best, 0.0, rewards))
    elif attack == "flip":
        rewards = np.where(bad, 1.0 - rewards, rewards)
    elif attack == "lie":
        rewards = np.where(bad, ~is_best, rewards)
    elif attack == "big":
        rewards = np.where(bad, np.where(is_best, -5.0, 5.0), rewards)
    residuals = rewards - pilot[contexts, actions]
    users = np.repeat(np.arange(n_users), interactions_per_user)
    columns = (contexts * n_actions + actions).ravel()
    rows = sparse.csr_array((residuals.ravel(), (users, columns)), shape=(n_users, n_columns))
    visits = interactions_per_user / n_columns
    return Sample(rows, is_good, visits * (mean_rewards - pilot).ravel())


def measure_accuracy(repetitions: int) -> list[Accuracy]:
    """Run every estimator, and the mean as a control, under every attack."""
    makers = [("dense", dense_sample, DENSE_ATTACKS), ("bandit", bandit_sample, BANDIT_ATTACKS)]
    results = []
    for kind, make, attacks in makers:
        for attack in attacks:
            errors: dict[str, list[float]] = {}
            removed: dict[str, list[float]] = {}
            for repetition in range(repetitions):
                sample = make(attack, generator(0, "accuracy", kind, attack, repetition))
                n_rows, n_columns = sample.rows.shape
                oracle = sample.rows[sample.is_good].mean(axis=0)
                yardstick = float(np.linalg.norm(oracle - sample.true_mean))
                if attack == "subtractive":  # the oracle's rows are biased, too
                    yardstick = float(np.sqrt(n_columns / n_rows))
                plain = sample.rows.mean(axis=0)
                error = float(np.linalg.norm(plain - sample.true_mean)) / yardstick
                errors.setdefault("mean", []).append(error)
                removed.setdefault("mean", []).append(0.0)
                for name, estimator in ESTIMATORS.items():
                    result = estimator(sample.rows, alpha=ALPHA)
                    error = float(np.linalg.norm(result.estimate - sample.true_mean)) / yardstick
                    errors.setdefault(name, []).append(error)
                    removed.setdefault(name, []).append(result.removed)
            results += [
                Accuracy(kind, attack, name, statistics.mean(e), statistics.mean(removed[name]))
                for name, e in errors.items()
            ]
    return results


def measure_cost(repetitions: int) -> list[Cost]:
    """Time every estimator against one ``eigsh(k=1)`` at 20,000 by 2,000, 100 non-zeros a row."""
    results = []
    for attack in ("none", "push", "lie", "big"):
        rng = generator(0, "cost", attack)
        sample = bandit_sample(
            attack, rng, n_users=20_000, n_contexts=100, n_actions=20, interactions_per_user=102
        )
        rows = sparse.csr_array(sample.rows)
        rows.sum_duplicates()
        bytes_of_rows = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
        for name, estimator in ESTIMATORS.items():
            estimator(rows[:100], alpha=ALPHA)  # compile
            # Alternate, so that a busy machine slows both equally.
            pairs = [
                (_seconds(_one_eigsh, rows), _seconds(_run, estimator, rows))
                for _ in range(repetitions)
            ]
            # The peak includes all but the outputs of kernels, at most 16 floats per row.
            tracemalloc.start()
            result = _run(estimator, rows)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            results.append(
                Cost(
                    attack=attack,
                    estimator=name,
                    eigsh_ratio=statistics.median(ours / eigen for eigen, ours in pairs),
                    seconds=statistics.median(ours for _, ours in pairs),
                    memory_ratio=peak / bytes_of_rows,
                    iterations=result.iterations,
                    stopped=result.stopped,
                    removed=result.removed,
                )
            )
    return results


def _run(estimator: Estimator, rows: sparse.csr_array) -> MeanEstimate:
    return estimator(rows, alpha=ALPHA)


def _one_eigsh(rows: sparse.csr_array) -> None:
    """Find the top eigenvalue of the covariance with scipy's products and default tolerance."""
    n_rows, n_columns = rows.shape
    mean = rows.mean(axis=0)
    transposed = rows.T
    operator = LinearOperator(
        (n_columns, n_columns),
        matvec=lambda v: transposed @ (rows @ v - mean @ v) / n_rows,
        dtype=np.float64,
    )
    with threadpool_limits(limits=1, user_api="blas"):
        eigsh(operator, k=1, v0=np.ones(n_columns), return_eigenvectors=True)


def _seconds(action: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--repetitions", type=int, default=3, help="per figure (default 3)")
    options = parser.parse_args()
    costs = measure_cost(options.repetitions)
    accuracies = measure_accuracy(options.repetitions)
    if options.json:
        document = {
            "settings": {
                "alpha": ALPHA,
                "repetitions": options.repetitions,
                "cost_target": COST_TARGET,
                "memory_target": MEMORY_TARGET,
            },
            "cost": [asdict(cost) for cost in costs],
            "accuracy": [asdict(accuracy) for accuracy in accuracies],
        }
        print(json.dumps(document, indent=2))
        return
    print(f"Cost, as a multiple of one eigsh(k=1) (target {COST_TARGET:g}); ", end="")
    print(f"extra memory, as a multiple of the CSR (target {MEMORY_TARGET:g})")
    print(
        f"{'attack':<8}{'estimator':<22}{'eigsh':>7}{'seconds':>9}{'memory':>8}{'rounds':>8}",
        end="",
    )
    print(f"{'removed':>9}  stopped")
    for cost in costs:
        print(
            f"{cost.attack:<8}{cost.estimator:<22}{cost.eigsh_ratio:>7.2f}{cost.seconds:>9.3f}"
            f"{cost.memory_ratio:>8.2f}{cost.iterations:>8}{cost.removed:>9.3f}  {cost.stopped}"
        )
    print("\nl2 error over that of the mean of the good rows")
    names = ["mean", *ESTIMATORS]
    print(f"{'rows':<8}{'attack':<16}" + "".join(f"{name:>22}" for name in names))
    table = {(a.rows, a.attack, a.estimator): a.relative_error for a in accuracies}
    for rows, attack in dict.fromkeys((a.rows, a.attack) for a in accuracies):
        figures = "".join(f"{table[rows, attack, name]:>22.2f}" for name in names)
        print(f"{rows:<8}{attack:<16}{figures}")


if __name__ == "__main__":
    main()
