"""Factors that the theory hides, fitted by simulation and shipped with the experiment's results."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.special import ndtri

from unswayed.errors import InputError
from unswayed.limits.checks import Traffic

SMALLEST_FAILURE_PROBABILITY = 0.01
"""Ours: losses are taken as normal over repetitions, which a handful of them cannot vouch for
further out."""

LARGEST_FAILURE_PROBABILITY = 0.5
"""Ours: largest failure probability of a plan."""


class Shape(StrEnum):
    """Which estimators a world needs: one for frequent contexts, or two."""

    FREQUENT = "frequent"
    MIXED = "mixed"

    @classmethod
    def of(cls, n_contexts: int, n_actions: int) -> Shape:
        """Return the shape of a world: with at most as many contexts as actions all are frequent.

        >>> Shape.of(5, 5).value, Shape.of(6, 5).value
        ('frequent', 'mixed')
        """
        return cls.FREQUENT if n_contexts <= n_actions else cls.MIXED


@dataclass(frozen=True, slots=True)
class MethodConstants:
    """What was fitted for one method.

    Attributes
    ----------
    factor
        C: losses stay below C·K(B)·sqrt((alpha + few_users·crowding)/N), but for the failure
        probability.
    few_users
        How much ``crowding`` weighs beside alpha.
    warmup_share
        Share of the plays that went into context probabilities when there were rare contexts.
    traffic_growth
        How many times as many plays the traffic takes as that of the calibration.
    """

    factor: float
    few_users: float
    warmup_share: float
    traffic_growth: float


def crowding(n_contexts: int, n_actions: int, n_users: int) -> float:
    """Return A·log(SA)/L: how few users each group has.

    Theorem 5.1 asks for groups of the order log(SA)/alpha, and L/A users are in each. Smaller
    groups are trimmed by more than their share of colluders.

    >>> round(crowding(5, 5, 1000), 4)
    0.0161
    """
    return n_actions * math.log(max(n_contexts * n_actions, 2)) / n_users


@cache
def constants() -> dict[str, Any]:
    """Return the shipped file: settings, seeds, versions and results of the calibration."""
    text = files("unswayed.limits").joinpath("constants.json").read_text(encoding="utf-8")
    value: dict[str, Any] = json.loads(text)
    return value


def calibrated_methods() -> tuple[str, ...]:
    """Return the methods that were calibrated."""
    return tuple(constants()["methods"])


def method_constants(
    method: str,
    shape: Shape,
    *,
    alpha: float,
    failure_probability: float,
    traffic: Traffic | None = None,
) -> MethodConstants:
    """Return a method's constants for one question.

    Parameters
    ----------
    method
        One of ``calibrated_methods``.
    shape
        Which estimators are at work.
    alpha
        The factor was fitted at several fractions, since it grows with them: losses fall faster
        than sqrt(alpha) when alpha does. In between it is interpolated, beyond it is constant.
    failure_probability
        From 0.01 to 0.5.
    traffic
        How rewards and visits come about; as in the calibration if not given.

    Notes
    -----
    The factor is the worst over all calibrated worlds of mean loss plus z standard deviations, both
    in units of the bound, against the worst of the attacks tried. Empirical: not a guarantee.
    """
    if method not in calibrated_methods():
        raise InputError(
            f"there are no constants for method {method!r}; plan for one of: "
            f"{', '.join(calibrated_methods())}."
        )
    fitted = constants()["methods"][method]
    rows = [row for row in fitted["rows"] if row["shape"] == shape]
    return MethodConstants(
        factor=_worst_at(rows, alpha, failure_probability),
        few_users=float(fitted["few_users"][shape.value]),
        warmup_share=float(fitted["warmup_share"]),
        traffic_growth=_traffic_growth(fitted["traffic"], traffic or Traffic()),
    )


def context_factor(*, alpha: float, failure_probability: float) -> float:
    """Return c: context probabilities err by at most c·sqrt((alpha + S/L)·L/T0) in l1 distance."""
    return _worst_at(constants()["contexts"], alpha, failure_probability)


def alone_factor(*, failure_probability: float) -> float:
    """Return the factor of sqrt(A/N)·Σ sqrt(nu), the loss of a user who learns alone."""
    return _worst(constants()["alone"], failure_probability)


def check_plan_failure(failure_probability: float) -> float:
    """Return a failure probability that the constants can speak about, or say why it is none."""
    if not SMALLEST_FAILURE_PROBABILITY <= failure_probability <= LARGEST_FAILURE_PROBABILITY:
        raise InputError(
            f"the failure probability (delta) is {failure_probability}: the planner's constants "
            f"are fitted for {SMALLEST_FAILURE_PROBABILITY} to {LARGEST_FAILURE_PROBABILITY}."
        )
    return float(failure_probability)


def _traffic_growth(rows: list[dict[str, Any]], traffic: Traffic) -> float:
    """Return how many times as many plays the traffic takes as that of the calibration.

    Plays grow like the square of the measured loss. What was measured apart is multiplied.
    """
    growth = 1.0
    if traffic.is_heavy_tailed:
        growth *= _growth_of(rows, "heavy-tailed")
    else:
        ratios = sorted(row["value"] for row in rows if row["kind"] == "ratio")
        growths = [max(1.0, _growth_of(rows, "ratio", ratio)) for ratio in ratios]
        measured = np.interp(
            np.log(traffic.arrival_ratio), np.log(ratios), np.maximum.accumulate(growths)
        )
        # Beyond what was measured: like the ratio, what the least busy user could cost at worst.
        growth *= float(measured) * max(1.0, traffic.arrival_ratio / ratios[-1])
    if traffic.base is not None:
        growth *= _growth_of(rows, "clicks")
    if traffic.exploration < 1.0:
        # A power of the share, through what was measured at one share.
        share = next(row["value"] for row in rows if row["kind"] == "exploration")
        power = math.log(_growth_of(rows, "exploration")) / math.log(share)
        growth *= float(traffic.exploration**power)
    return growth


def _growth_of(rows: list[dict[str, Any]], kind: str, value: float | None = None) -> float:
    """Return the worst measured growth of plays for one kind of traffic, at least 1."""
    found = [
        (float(row["mean"]) / float(row["usual"])) ** 2
        for row in rows
        if row["kind"] == kind and value in (None, row["value"])
    ]
    return max(1.0, *found)


def _worst_at(rows: list[dict[str, Any]], alpha: float, failure_probability: float) -> float:
    """Return the worst factor at each fitted fraction, interpolated between them."""
    fractions = sorted({row["alpha"] for row in rows})
    worst = [
        _worst([row for row in rows if row["alpha"] == fraction], failure_probability)
        for fraction in fractions
    ]
    return float(np.interp(alpha, fractions, worst))


def _worst(rows: list[dict[str, Any]], failure_probability: float) -> float:
    deviations = float(ndtri(1.0 - check_plan_failure(failure_probability)))
    return max(float(row["mean"]) + deviations * float(row["deviation"]) for row in rows)
