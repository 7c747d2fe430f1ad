"""Input validation for limits and plans."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import ALPHA, InputError, option

Floats: TypeAlias = np.float64 | FloatArray  # a number for scalar arguments, an array for arrays
Integers: TypeAlias = np.int64 | IntArray

# Ours: time and memory grow like the square root of the plays; a billion takes 30 ms
MAX_INTERACTIONS = 10**9
# Ours: a plan has one number per context; ten million take a second and 0.3 GB
MAX_CONTEXTS, MAX_ACTIONS = 10**7, 10**6
SUM_TOLERANCE = 1e-6  # Ours: tolerance for sums of probabilities that are rounded to six digits

EPSILON = option("--epsilon", python="target_suboptimality")
N_USERS = option("--users", python="n_users")
N_CONTEXTS = option("--contexts", python="n_contexts")
N_ACTIONS = option("--actions", python="n_actions")

PAPER_MAX_FRACTION = 1 / 3  # The paper's: upper bound on the share of colluders in its theorems


def check_gap(gap: ArrayLike, base: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return gap and base as arrays; raise unless base and base + gap are valid mean rewards."""
    gaps, bases = np.asarray(gap, dtype=np.float64), np.asarray(base, dtype=np.float64)
    refuse(
        option("--base"),
        bases,
        ~((bases >= 0) & (bases < 1)),
        "it is the mean reward of the ordinary action and rewards are 0 or 1, so it must be at "
        "least 0 and below 1.",
    )
    refuse(
        option("--gap"),
        gaps,
        ~(gaps > 0),
        "between actions that are equally good there is nothing to hide. Give the better action's "
        "mean reward minus the other's, above 0.",
    )
    room = 1 - bases
    # Rounding errors are tolerated: in floats, 1 - 0.9 is slightly less than 0.1.
    is_too_large = gaps > room * (1 + 1e-12)
    if is_too_large.any():
        bad, most, where = (_first(is_too_large, values) for values in (gaps, room, bases))
        raise InputError(
            f"{option('--gap')} {bad} is too large for base {where}: rewards are 0 or 1, so "
            f"base + gap is a probability. The largest gap here is {most:g}."
        )
    return np.minimum(gaps, room), bases


def check_coalition(alpha: ArrayLike) -> FloatArray:
    """Return the coalition's share of the users as an array; raise if it is invalid."""
    fractions = np.asarray(alpha, dtype=np.float64)
    if (fractions == 0).any():
        raise InputError(
            f"{ALPHA} is 0: without a coalition there is no limit to compute. Give the largest "
            "share you expect, above 0."
        )
    is_bad = ~((fractions > 0) & (fractions < 1))
    why = "it is a share of the users, so it must lie between 0 and 1 (20% is 0.2)."
    refuse(ALPHA, fractions, is_bad, why)
    return fractions


def check_minority(alpha: ArrayLike) -> FloatArray:
    """Return the coalition's share as an array; raise unless it is below one half."""
    fractions = check_coalition(alpha)
    why = "a coalition of half the users or more can hide any gap indefinitely, so no number of "
    refuse(ALPHA, fractions, fractions >= 0.5, f"{why}plays is enough.")
    return fractions


def check_interactions(interactions: ArrayLike, *, at_least: int = 0) -> IntArray:
    """Return numbers of plays as an integer array; raise if they are invalid."""
    plays, name = np.asarray(interactions), option("--interactions")
    whole = plays.astype(np.float64)
    is_bad = ~((whole >= at_least) & (whole == np.floor(whole)))
    why = f"it counts plays per user, so it must be a whole number of at least {at_least}."
    refuse(name, plays, is_bad, why)
    why = f"the limits are computed for up to {MAX_INTERACTIONS:,} plays per user."
    refuse(name, plays, whole > MAX_INTERACTIONS, why)
    return plays.astype(np.int64)


def check_count(value: int, name: str, *, at_least: int = 1, at_most: int | None = None) -> int:
    """Return a count as an integer; raise if it is invalid."""
    if value < at_least or value != int(value):
        raise InputError(f"{name} is {value}: it must be a whole number of at least {at_least}.")
    if at_most is not None and value > at_most:
        raise InputError(
            f"{name} is {value:,}: at most {at_most:,} are supported. Merge rare ones."
        )
    return int(value)


def check_positive(value: float, name: str) -> float:
    """Return a number as a float; raise unless it is positive and finite."""
    if not (value > 0 and np.isfinite(value)):
        raise InputError(f"{name} is {value}: it must be a finite number above 0.")
    return float(value)


def check_context_probabilities(context_probabilities: ArrayLike) -> FloatArray:
    """Return context probabilities (n_contexts,); raise if they are invalid."""
    probabilities = np.asarray(context_probabilities, dtype=np.float64)
    if probabilities.ndim != 1 or probabilities.size == 0:
        raise InputError(
            "context_probabilities must be one list with a number for each context; "
            f"its shape is {probabilities.shape}."
        )
    if (is_bad := ~(probabilities >= 0)).any():
        bad = _first(is_bad, probabilities)
        raise InputError(f"context_probabilities contains {bad}: a probability is at least 0.")
    total = float(probabilities.sum())
    if not abs(total - 1) <= SUM_TOLERANCE:
        raise InputError(
            f"context_probabilities sum to {total:.6g}, not to 1: add the missing contexts, or "
            "divide each number by the sum."
        )
    normalised: FloatArray = probabilities / total
    return normalised


def check_target(target_suboptimality: float, alpha: float) -> tuple[float, float]:
    """Return target and alpha if the paper's theorems cover them; raise otherwise."""
    fraction = float(check_coalition(alpha))
    if fraction >= PAPER_MAX_FRACTION:
        raise InputError(
            f"{ALPHA} is {fraction}: the paper's theorems hold below one "
            "third. The exact limits hold for any coalition below one half."
        )
    target = check_positive(target_suboptimality, EPSILON)
    if target >= fraction:
        raise InputError(
            f"{EPSILON} is {target}, not below {ALPHA} {fraction}: so large a loss needs no "
            "defence against the coalition, so there is nothing to plan. Give a smaller epsilon."
        )
    return target, fraction


def refuse(name: str, values: NDArray[np.number], is_bad: BoolArray, why: str) -> None:
    """Raise if a value is bad; the message names the first bad value and the reason."""
    if is_bad.any():
        raise InputError(f"{name} is {_first(is_bad, values)}: {why}")


def _first(is_bad: BoolArray, values: NDArray[np.number]) -> float:
    """Return the first bad value."""
    mask, candidates = np.broadcast_arrays(is_bad, values)
    found: float = candidates[mask].flat[0].item()
    return found
