"""A plan from the log that is there: what it has, what is missing, and what it withstands."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.events import Events
from unswayed.limits.checks import (
    MAX_INTERACTIONS,
    PAPER_MAX_FRACTION,
    SMALLEST_ARRIVAL_RATIO,
    Traffic,
)
from unswayed.limits.hiding import smallest_two_sided_coalition
from unswayed.limits.planner import DEFAULT_LEAD, Plan, plan_traffic

LARGEST_RATIO = 8.0
"""Ours: the largest ratio of the calibration; beyond it activity is planned as heavy-tailed."""

MOST_USERS = 10**9
"""Ours: largest number of users of a plan."""

STEPS = 30
"""Ours: halvings of an interval; the answer is known to a part in a billion of it."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LogTraffic:
    """What a log says about the traffic behind it.

    Attributes
    ----------
    n_users, n_actions
        How many there are.
    context_probabilities
        Shape (n_contexts,); every account counts once, however often it comes.
    interactions_per_user
        Mean number of plays.
    traffic
        Rewards, activity and exploration.
    """

    n_users: int
    n_actions: int
    context_probabilities: FloatArray
    interactions_per_user: float
    traffic: Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """What a target takes beyond a log.

    Attributes
    ----------
    plan
        The plan for the users that there are.
    interactions_per_user
        Mean number of plays in the log.
    more_interactions
        Plays per user that are missing; 0 if none are.
    users_instead
        Users in all with which the present plays per user would do; None if no number does.
    withstands
        Largest share of colluders for which the log is large enough; 0 if it never is.
    hidden_by
        Smallest share of colluders that could hide a difference of 2·epsilon from every method.
    """

    plan: Plan
    interactions_per_user: float
    more_interactions: int
    users_instead: int | None
    withstands: float
    hidden_by: float


def log_traffic(events: Events) -> LogTraffic:
    """Extract the traffic parameters of a plan from a log.

    Notes
    -----
    Deviation and click rate are medians over cells, so that lies in a few cells do not move them;
    a log full of lies is described as it is. Rewards of 0 and 1 are clicks. Without propensities
    all plays count as explored.
    """
    if len(events.users) == 0:
        raise InputError("the log has no events to plan from.")
    plays = np.bincount(events.users, minlength=events.n_users)
    weights = 1.0 / plays[events.users]
    shares = np.bincount(events.contexts, weights, minlength=events.n_contexts)
    ratio = float(plays.max() / max(plays[plays > 0].min(), 1))
    base, deviation = _rewards(events)
    return LogTraffic(
        n_users=int((plays > 0).sum()),
        n_actions=events.n_actions,
        context_probabilities=shares / shares.sum(),
        interactions_per_user=float(plays.sum() / (plays > 0).sum()),
        traffic=Traffic(
            base=base,
            deviation=deviation,
            arrival_ratio=max(SMALLEST_ARRIVAL_RATIO, min(ratio, LARGEST_RATIO)),
            is_heavy_tailed=ratio > LARGEST_RATIO,
            exploration=_exploration(events),
        ),
    )


def plan_from_log(
    log: LogTraffic,
    alpha: float,
    target_suboptimality: float,
    failure_probability: float,
    *,
    methods: tuple[str, ...],
    lead: float = DEFAULT_LEAD,
) -> LogPlan:
    """Plan for a target with the traffic of a log; parameters as ``plan_traffic`` has them."""
    had = log.interactions_per_user

    def planned(n_users: int, fraction: float) -> Plan:
        return plan_traffic(
            log.context_probabilities,
            log.n_actions,
            fraction,
            target_suboptimality,
            failure_probability,
            methods=methods,
            n_users=n_users,
            traffic=log.traffic,
            lead=lead,
        )

    def suffices(n_users: int, fraction: float) -> bool:
        try:
            return planned(n_users, fraction).methods[0].interactions_per_user <= had
        except InputError:  # out of reach
            return False

    plan = planned(log.n_users, alpha)
    missing = max(0, math.ceil(plan.methods[0].interactions_per_user - had))
    base = log.traffic.base
    return LogPlan(
        plan=plan,
        interactions_per_user=had,
        more_interactions=missing,
        users_instead=_users_instead(log.n_users, lambda n: suffices(n, alpha)),
        withstands=_largest_fraction(
            target_suboptimality, lambda fraction: suffices(log.n_users, fraction)
        ),
        hidden_by=float(
            smallest_two_sided_coalition(
                2 * target_suboptimality / (log.traffic.scale if base is None else 1.0),
                min(max(1, math.floor(had)), MAX_INTERACTIONS),
                base=0.5 - target_suboptimality / log.traffic.scale if base is None else base,
            )
        ),
    )


def _users_instead(n_users: int, suffices: Callable[[int], bool]) -> int | None:
    """Return the smallest number of users that does, from those that there are on."""
    if suffices(n_users):
        return n_users
    if not suffices(MOST_USERS):
        return None
    low, high = n_users, MOST_USERS
    while high - low > max(1, low // 1000):
        middle = math.isqrt(low * high)
        middle = min(max(middle, low + 1), high - 1)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def _largest_fraction(target: float, suffices: Callable[[float], bool]) -> float:
    """Return the largest share of colluders above the target for which a log is large enough."""
    low, high = target, PAPER_MAX_FRACTION
    if not suffices(low + 1e-6):
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if suffices(middle) else (low, middle)
    return low


def _rewards(events: Events) -> tuple[float | None, float | None]:
    """Return the click rate of a typical cell, or the deviation where rewards are no clicks."""
    cells = events.contexts.astype(np.int64) * events.n_actions + events.actions
    counts = np.bincount(cells)
    is_met = counts > 0
    weights = counts[is_met]
    means = np.bincount(cells, events.rewards)[is_met] / weights
    if np.isin(events.rewards, (0.0, 1.0)).all() and 0.0 < means.mean() < 1.0:
        rate = _weighted_median(means, weights)
        return (rate if 0.0 < rate < 1.0 else float(events.rewards.mean())), None
    centred = events.rewards - np.bincount(cells, events.rewards)[cells] / counts[cells]
    deviations = np.sqrt(np.bincount(cells, centred**2)[is_met] / weights)
    found = _weighted_median(deviations, weights)
    if found == 0.0:
        raise InputError(
            "rewards do not differ within most (context, action) pairs: there is nothing to "
            "average, and nothing to plan."
        )
    return None, found


def _exploration(events: Events) -> float:
    """Return the share of plays that were uniform, from the smallest propensity of each context."""
    if events.propensities is None:
        return 1.0
    smallest = np.full(events.n_contexts, np.inf)
    np.minimum.at(smallest, events.contexts, events.propensities)
    typical = float(np.median(smallest[np.isfinite(smallest)]))
    return min(1.0, typical * events.n_actions)


def _weighted_median(values: FloatArray, weights: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(sums, sums[-1] / 2)]])
