"""Rows under attack, with labels that tell which rows are good. The mean is never zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from unswayed.arrays import FloatArray

ATTACKS = ("far", "axis", "shell", "hidden shift", "ten directions")


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows, a mask of the good ones, and the mean of their distribution, whose variance is 1."""

    rows: FloatArray
    is_good: NDArray[np.bool_]
    true_mean: FloatArray

    @property
    def oracle(self) -> FloatArray:
        """Return the mean of the good rows."""
        mean: FloatArray = self.rows[self.is_good].mean(axis=0)
        return mean


def normal_rows(
    rng: np.random.Generator,
    *,
    attack: str = "none",
    n_rows: int = 1500,
    n_columns: int = 60,
    bad_fraction: float = 0.2,
) -> Sample:
    """Draw normal rows of unit covariance; a share of them is replaced by the attack."""
    n_bad = 0 if attack == "none" else int(bad_fraction * n_rows)
    mean = rng.normal(3.0, 1.0, n_columns)
    rows = mean + rng.standard_normal((n_rows, n_columns))
    is_good = np.ones(n_rows, dtype=np.bool_)
    is_good[rng.permutation(n_rows)[:n_bad]] = False
    direction = rng.standard_normal(n_columns)
    direction /= np.linalg.norm(direction)
    noise = rng.standard_normal((n_bad, n_columns))
    if attack == "far":
        rows[~is_good] = mean + 100.0 * direction + 0.1 * noise
    elif attack == "axis":
        rows[~is_good] = mean + noise + 20.0 * np.eye(n_columns)[0]
    elif attack == "shell":
        lengths = np.linalg.norm(noise, axis=1, keepdims=True)
        rows[~is_good] = mean + 8.0 * np.sqrt(n_columns) * noise / lengths
    elif attack == "hidden shift":
        rows[~is_good] = mean + noise + 3.0 * direction
    elif attack == "ten directions":
        frame = np.linalg.qr(rng.standard_normal((n_columns, 10)))[0]
        rows[~is_good] = mean + noise + 8.0 * frame[:, rng.integers(0, 10, n_bad)].T
    elif attack != "none":
        raise ValueError(attack)
    return Sample(rows, is_good, mean)


def sparse_rows(
    rng: np.random.Generator,
    *,
    attack: str = "none",
    n_rows: int = 3000,
    n_columns: int = 300,
    per_row: int = 25,
    bad_fraction: float = 0.2,
) -> tuple[sparse.csr_array, NDArray[np.bool_], FloatArray]:
    """Draw sparse rows of ±1 entries with a small mean; bad rows share all signs."""
    drift = rng.uniform(-0.1, 0.1, n_columns)
    columns = rng.integers(0, n_columns, (n_rows, per_row))
    values = np.where(rng.random(columns.shape) < 0.5 + drift[columns] / 2.0, 1.0, -1.0)
    is_good = np.arange(n_rows) >= (0 if attack == "none" else int(bad_fraction * n_rows))
    if attack == "collusion":
        signs = rng.choice([-1.0, 1.0], n_columns)
        values[~is_good] = signs[columns[~is_good]]
    users = np.repeat(np.arange(n_rows), per_row)
    matrix = sparse.csr_array((values.ravel(), (users, columns.ravel())), shape=(n_rows, n_columns))
    return matrix, is_good, drift * per_row / n_columns
