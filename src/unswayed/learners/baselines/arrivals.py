"""What the baselines share: checked arrivals, even ties and means."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.learners.interface import Setting


def checked_arrivals(
    users: IntArray, contexts: IntArray, outcomes: FloatArray, setting: Setting
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the arrivals as plain contiguous arrays, after making sure that they fit the setting.

    Compiled loops do not check their indices, so an arrival out of range must stop here.
    """
    users = np.ascontiguousarray(users, dtype=np.int64)
    contexts = np.ascontiguousarray(contexts, dtype=np.int64)
    outcomes = np.ascontiguousarray(outcomes, dtype=np.float64)
    n = users.size
    if users.shape != (n,) or contexts.shape != (n,) or outcomes.shape != (n, setting.n_actions):
        raise InputError(
            f"users, contexts and outcomes have shapes {users.shape}, {contexts.shape} and "
            f"{outcomes.shape}: give (n,), (n,) and (n, {setting.n_actions})."
        )
    if not _all_within(users, setting.n_users):
        raise InputError(f"a user is not in 0..{setting.n_users - 1}: number the users from 0.")
    if not _all_within(contexts, setting.n_contexts):
        raise InputError(
            f"a context is not in 0..{setting.n_contexts - 1}: number the contexts from 0."
        )
    return users, contexts, outcomes


@compiled
def _all_within(values: IntArray, limit: int) -> bool:
    for value in values:  # noqa: SIM110 (the compiler has no generators)
        if value < 0 or value >= limit:
            return False
    return True


@compiled
def index_of_best(rng: np.random.Generator, values: FloatArray) -> int:
    """Index of the largest entry; ties are broken uniformly by ``u``.

    Randomness is drawn only if there is a tie.
    """
    best = values[0]
    n_best = 1
    at = 0
    for i in range(1, values.size):
        if values[i] > best:
            best = values[i]
            n_best = 1
            at = i
        elif values[i] == best:
            n_best += 1
    if n_best > 1:
        skip = int(n_best * rng.random())
        for i in range(at, values.size):
            if values[i] == best:
                if skip == 0:
                    return i
                skip -= 1
    return at


def means(sums: FloatArray, counts: npt.NDArray[np.int32]) -> FloatArray:
    """Return sums divided by counts; NaN where the count is zero."""
    result = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=result, where=counts > 0)
    return result
