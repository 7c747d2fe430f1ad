"""Traffic needed for a target: plays per user, users, and lower bounds.

Constants that the theory leaves open are fitted by simulation; ``constants.json`` contains them
with the results of the experiment. ``plan_from_log`` plans with the traffic of a log.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.events import Events
from unswayed.limits.bounds import (
    instance_complexity,
    interactions_alone,
    largest_swap_interactions,
    lower_bound_interactions,
)
from unswayed.limits.checks import (
    MAX_ACTIONS,
    MAX_INTERACTIONS,
    N_ACTIONS,
    N_USERS,
    PAPER_MAX_FRACTION,
    check_context_probabilities,
    check_count,
    check_positive,
    check_target,
)
from unswayed.limits.hiding import largest_interactions, smallest_coalition
from unswayed.names import known_keywords

# The method of Theorem 5.1, the only one that was calibrated
PAPER_METHOD = "paper"
# Ours: allowed range; losses are assumed normal over repetitions, too few for smaller ones
FAILURE_PROBABILITIES = (0.01, 0.5)
# Standard deviation of one reward in the calibration: the maximum for rewards of 0 and 1
CALIBRATED_DEVIATION = 0.5
# The smallest c_L for which an order of arrivals exists, used in the calibration
SMALLEST_ARRIVAL_RATIO = 2.0
# Shapes of worlds: frequent contexts only (one estimator), or also rare ones (two estimators)
SHAPES = ("frequent", "mixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Traffic model: rewards, activity and exploration.

    ``base`` is the mean reward of a runner-up where rewards are 0 or 1, such as a click rate;
    ``deviation`` is the standard deviation of one reward, by default that of ``base``, or 0.5
    without a base. In heavy-tailed traffic, a tenth of the users has most of the visits.
    ``exploration`` below one means a log with propensities whose other plays exploit the current
    best action.
    """

    base: float | None = None
    deviation: float | None = None
    # c_L, plays of the busiest over those of the least busy user
    arrival_ratio: float = SMALLEST_ARRIVAL_RATIO
    is_heavy_tailed: bool = False
    exploration: float = 1.0  # share of the plays that are uniform over the actions

    def __post_init__(self) -> None:
        if self.base is not None and not 0.0 < self.base < 1.0:
            raise InputError(
                f"{option('--base')} is {self.base}: a click rate lies between 0 and 1."
            )
        if self.deviation is not None:
            check_positive(self.deviation, option("--deviation"))
        if not 0.0 < self.exploration <= 1.0:
            raise InputError(
                f"{option('--exploration')} is {self.exploration}: it is a share of the "
                "plays, above 0 and at most 1."
            )
        if not (SMALLEST_ARRIVAL_RATIO <= self.arrival_ratio < math.inf):
            raise InputError(
                f"{option('--arrival-ratio')} is {self.arrival_ratio}: it is the ratio of the "
                "plays of the busiest and of the least busy user, which is at least "
                f"{SMALLEST_ARRIVAL_RATIO:g} as soon as one has come twice and another once."
            )

    @property
    def scale(self) -> float:
        """Return the standard deviation of one reward, relative to that of the calibration.

        >>> round(Traffic(base=0.02).scale, 2), Traffic().scale
        (0.28, 1.0)
        """
        if self.deviation is not None:
            return self.deviation / CALIBRATED_DEVIATION
        if self.base is None:
            return 1.0
        return math.sqrt(self.base * (1.0 - self.base)) / CALIBRATED_DEVIATION


EVERYDAY = Traffic()  # The traffic of the calibration


def shape_of(n_contexts: int, n_actions: int) -> str:
    """Return the shape of a world: if there are no more contexts than actions, all are frequent.

    >>> shape_of(5, 5), shape_of(6, 5)
    ('frequent', 'mixed')
    """
    return "frequent" if n_contexts <= n_actions else "mixed"


def crowding(n_contexts: int, n_actions: int, n_users: int) -> float:
    """Return A·log(SA)/L, which is large if groups have few users.

    Theorem 5.1 requires groups of the order log(SA)/alpha; each has L/A users. In smaller groups,
    trimming removes more than the share of colluders.

    >>> round(crowding(5, 5, 1000), 4)
    0.0161
    """
    return n_actions * math.log(max(n_contexts * n_actions, 2)) / n_users


@cache
def constants() -> dict[str, Any]:
    """Return the contents of ``constants.json``: settings, seeds, versions and results."""
    text = files("unswayed.limits").joinpath("constants.json").read_text(encoding="utf-8")
    value: dict[str, Any] = json.loads(text)
    return value


def fitted_factor(rows: list[dict[str, Any]], alpha: float, failure_probability: float) -> float:
    """Return the worst mean loss plus z standard deviations, in units of the bound.

    It is the worst case over the calibrated worlds among the rows and the attacks tried: empirical,
    not a guarantee. It was fitted for several alpha, since losses decrease faster than sqrt(alpha);
    in between it is interpolated, and outside it is constant.
    """
    smallest, largest = FAILURE_PROBABILITIES
    if not smallest <= failure_probability <= largest:
        raise InputError(
            f"the failure probability (delta) is {failure_probability}: the planner's constants "
            f"are fitted for {smallest} to {largest}."
        )
    deviations = float(ndtri(1.0 - failure_probability))
    worst: dict[float, float] = {}
    for row in rows:
        fitted_at = row.get("alpha", alpha)
        loss = float(row["mean"]) + deviations * float(row["deviation"])
        worst[fitted_at] = max(worst.get(fitted_at, -math.inf), loss)
    return float(np.interp(alpha, sorted(worst), [worst[at] for at in sorted(worst)]))


def paper_factor(shape: str, alpha: float, failure_probability: float) -> float:
    """Return the factor C of the paper's method.

    Losses are below C·K(B)·sqrt((alpha + few_users·crowding)/N), up to the failure probability.
    """
    rows = constants()["methods"][PAPER_METHOD]["rows"]
    shaped = [row for row in rows if row["shape"] == shape]
    return fitted_factor(shaped, alpha, failure_probability)


def _traffic_growth(rows: list[dict[str, Any]], traffic: Traffic) -> float:
    """Return the factor by which this traffic needs more plays than that of the calibration.

    The number of plays grows with the square of the measured loss. Separately measured factors are
    multiplied.
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
        # Beyond the measured ratios, the factor is proportional to the ratio, as in the worst case
        # for the least busy user.
        growth *= float(measured) * max(1.0, traffic.arrival_ratio / ratios[-1])
    if traffic.base is not None:
        growth *= _growth_of(rows, "clicks")
    if traffic.exploration < 1.0:
        # A power law in the share, fitted to the measured point.
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


FEWEST_USERS = 300  # Ours: minimum number of users in the calibration, also for small worlds
# Ours: assumed difference of best and average action, for the cost of exploration
DEFAULT_LEAD = 0.1


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """Traffic that one method needs."""

    method: str
    factor: float  # C in C·K(B)·sqrt((alpha + few_users·A·log(SA)/L)/N)
    interactions_per_user: int  # N
    total_interactions: int  # N·L
    context_steps: int  # T0, the initial plays, which estimate context probabilities
    context_error: float | None  # l1 error of ν̂; None where the plan does not depend on it
    gain: float  # N as a fraction of the plays that a user would need alone
    exploration_cost: float  # total reward that all users lose by exploring


@dataclass(frozen=True, slots=True)
class Plan:
    """A target and the traffic that it requires."""

    n_contexts: int
    n_actions: int
    adversarial_fraction: float
    target_suboptimality: float
    failure_probability: float
    traffic: Traffic
    lead: float  # mean reward of the best action minus that of the average one
    n_users: int
    users_given: bool  # whether ``n_users`` was given, not computed
    users_needed: int  # number that the calibrated constants require
    complexity: float  # K(B)
    effective_corruption: float  # the paper's max(SA/L, alpha)
    lower_bound: int  # plays per user, exact, for every method
    lower_bound_uniform: int  # for methods that play uniformly, by a normal approximation
    lower_bound_order: float  # order of Theorem 4.1, with constant one
    interactions_alone: int  # plays of a user who learns alone
    n_frequent: int  # contexts served by trimmed means; the spectral filter serves the others
    frequent_share: float  # share of the visits in these contexts
    methods: tuple[MethodPlan, ...]  # one entry, for the paper's method


@known_keywords(adversarial_fraction="alpha")
def plan_traffic(
    context_probabilities: ArrayLike,
    n_actions: int,
    alpha: float,
    target_suboptimality: float,
    failure_probability: float,
    *,
    n_users: int | None = None,
    traffic: Traffic = EVERYDAY,
    lead: float = DEFAULT_LEAD,
) -> Plan:
    """Return the plays per user after which a policy is within epsilon, and lower bounds.

    Context probabilities have shape (n_contexts,), in any order; alpha is below 1/3, epsilon below
    alpha, and delta from 0.01 to 0.5. Without ``n_users``, the plan uses as many users as required.
    The lead, the best action's mean reward minus that of the average action, determines the cost of
    exploration.

    Plays: N = g·C²·K(B)²·(alpha + e·A·log(SA)/L)·(sigma/0.5)²/epsilon², Theorem 5.1 with the
    factors and the growth g due to traffic fitted by ``benchmarks/calibrate_planner.py`` for the
    attacks listed in ``constants.json``. This is empirical: a stronger attack may require more. N
    is at least the lower bound, which is exact and holds for every method: up to that number of
    plays, a coalition makes two worlds look alike in which one action of each context is worse or
    better by epsilon than the best other one.

    >>> plan = plan_traffic([0.25] * 4, 5, 0.1, 0.05, 0.1)
    >>> plan.methods[0].interactions_per_user > plan.lower_bound
    True
    """
    probabilities = np.sort(check_context_probabilities(context_probabilities))[::-1]
    n_contexts = probabilities.size
    n_actions = check_count(n_actions, N_ACTIONS, at_least=2, at_most=MAX_ACTIONS)
    cells, n_frequent = n_contexts * n_actions, min(n_contexts, n_actions)
    target, fraction = check_target(target_suboptimality, alpha)
    fitted, shape = constants()["methods"][PAPER_METHOD], shape_of(n_contexts, n_actions)
    factor = paper_factor(shape, fraction, failure_probability)
    few_users = float(fitted["few_users"][shape])
    # With so many users, as the calibration had, the term for small groups is at most alpha.
    enough = max(few_users * crowding(n_contexts, n_actions, 1) / fraction, cells / fraction)
    needed = max(FEWEST_USERS, math.ceil(enough * (1 - 1e-12)))
    users = needed if n_users is None else check_count(n_users, N_USERS)
    if users <= cells:
        raise InputError(
            f"{users:,} users cannot learn {n_contexts:,} contexts by {n_actions:,} actions: each "
            f"pair needs users of its own. Give more than {cells:,}, better {needed:,}, or join "
            "rare contexts."
        )
    # The loss of a user who learns alone is proportional to sqrt(A/N)·Σ sqrt(nu).
    factor_alone = fitted_factor(constants()["alone"], fraction, failure_probability)
    alone = factor_alone**2 * interactions_alone(probabilities, n_actions, target / traffic.scale)
    gap, base = _contested(target, traffic)
    lower = 1 + int(largest_interactions(gap, fraction, base=base))
    noise = traffic.scale * CALIBRATED_DEVIATION
    uniform = largest_swap_interactions(2 * target, n_actions, fraction, noise=noise)
    complexity = instance_complexity(probabilities, n_actions)
    corruption = fraction + few_users * crowding(n_contexts, n_actions, users)
    growth = _traffic_growth(fitted["traffic"], traffic)
    plays = (factor * complexity * traffic.scale / target) ** 2 * corruption * growth
    plays = max(plays, lower)
    context_plays, context_error = 0.0, None
    if n_contexts > n_actions:
        # The calibration used this share of the plays to estimate context probabilities. Theorem
        # 5.1 requires an l1 error of epsilon for rewards of the order of one; the l1 error is at
        # most a fitted factor times sqrt((alpha + S/L)·L/T0).
        error = fitted_factor(constants()["contexts"], fraction, failure_probability)
        spread, share = fraction + n_contexts / users, float(fitted["warmup_share"])
        context_plays = max(share * plays, (error * traffic.scale / target) ** 2 * spread)
        context_error = error * math.sqrt(spread / context_plays)
        plays = (1 - share) * plays + context_plays
    interactions = math.ceil(plays * (1 - 1e-12))
    if interactions > MAX_INTERACTIONS:
        raise InputError(
            f"the target suboptimality (epsilon) {target:g} would take about {plays:.1e} plays per "
            "user: that is out of reach. Ask for a larger epsilon, join contexts, or drop actions."
        )
    total, lead = interactions * users, check_positive(lead, option("--lead"))
    return Plan(
        n_contexts=n_contexts,
        n_actions=n_actions,
        adversarial_fraction=fraction,
        target_suboptimality=target,
        failure_probability=float(failure_probability),
        traffic=traffic,
        lead=lead,
        n_users=users,
        users_given=n_users is not None,
        users_needed=needed,
        complexity=complexity,
        effective_corruption=max(cells / users, fraction),
        lower_bound=lower,
        lower_bound_uniform=max(lower, math.ceil(uniform)),
        lower_bound_order=lower_bound_interactions(n_contexts, n_actions, fraction, target),
        interactions_alone=math.ceil(alone),
        n_frequent=n_frequent,
        frequent_share=min(float(probabilities[:n_frequent].sum()), 1.0),
        methods=(
            MethodPlan(
                method=PAPER_METHOD,
                factor=factor,
                interactions_per_user=interactions,
                total_interactions=total,
                context_steps=math.ceil(context_plays * users),
                context_error=context_error,
                gain=interactions / math.ceil(alone),
                exploration_cost=lead * total,
            ),
        ),
    )


def _contested(target: float, traffic: Traffic) -> tuple[float, float]:
    """Return gap and base for an action that pays epsilon less or more than the others.

    Rewards are 0 or 1 with the click rate as mean, or two values with the given deviation.
    """
    if traffic.base is not None:
        return 2 * target, traffic.base
    return 2 * target / traffic.scale, 0.5 - target / traffic.scale


# Ours: the largest ratio in the calibration; larger ratios are planned as heavy-tailed
LARGEST_RATIO = 8.0
MOST_USERS = 10**9  # Ours: maximum number of users of a plan
STEPS = 30  # Ours: bisection steps; the answer is exact to a billionth of the interval


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LogTraffic:
    """Parameters of traffic, estimated from a log."""

    n_users: int
    n_actions: int
    context_probabilities: FloatArray  # shape (n_contexts,); every account has equal weight
    interactions_per_user: float  # mean
    traffic: Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """Additional traffic that a target requires beyond a log."""

    plan: Plan  # plan for the existing number of users
    interactions_per_user: float  # mean number of plays in the log
    more_interactions: int  # additional plays per user
    # users required in total, at the current plays per user; None if no number suffices
    users_instead: int | None
    withstands: float  # largest share of colluders for which the log suffices, or 0
    hidden_by: float  # smallest share that could hide a difference of 2·epsilon from every method


def log_traffic(events: Events) -> LogTraffic:
    """Extract the traffic parameters of a plan from a log.

    Deviation and click rate are medians over cells, so that lies in a few cells do not affect them;
    they are wrong if most of the log is forged. Rewards of 0 and 1 are treated as clicks. Without
    propensities, all plays count as exploration.
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
    lead: float = DEFAULT_LEAD,
) -> LogPlan:
    """Plan for a target with the traffic of a log; parameters are those of ``plan_traffic``."""
    had = log.interactions_per_user

    def planned(n_users: int, fraction: float) -> Plan:
        return plan_traffic(
            log.context_probabilities,
            log.n_actions,
            fraction,
            target_suboptimality,
            failure_probability,
            n_users=n_users,
            traffic=log.traffic,
            lead=lead,
        )

    def suffices(n_users: int, fraction: float) -> bool:
        try:
            return planned(n_users, fraction).methods[0].interactions_per_user <= had
        except InputError:  # unattainable
            return False

    def users_instead() -> int | None:
        if suffices(log.n_users, alpha):
            return log.n_users
        if not suffices(MOST_USERS, alpha):
            return None
        low, high = log.n_users, MOST_USERS
        while high - low > max(1, low // 1000):
            middle = min(max(math.isqrt(low * high), low + 1), high - 1)
            low, high = (low, middle) if suffices(middle, alpha) else (middle, high)
        return high

    def largest_fraction() -> float:
        low, high = target_suboptimality, PAPER_MAX_FRACTION
        if not suffices(log.n_users, low + 1e-6):
            return 0.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if suffices(log.n_users, middle) else (low, middle)
        return low

    plan = planned(log.n_users, alpha)
    missing = max(0, math.ceil(plan.methods[0].interactions_per_user - had))
    gap, base = _contested(target_suboptimality, log.traffic)
    return LogPlan(
        plan=plan,
        interactions_per_user=had,
        more_interactions=missing,
        users_instead=users_instead(),
        withstands=largest_fraction(),
        hidden_by=float(
            smallest_coalition(gap, min(max(1, math.floor(had)), MAX_INTERACTIONS), base=base)
        ),
    )


def _rewards(events: Events) -> tuple[float | None, float | None]:
    """Return the click rate of a typical cell, or the deviation if rewards are not clicks."""
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
            "rewards do not differ within most (context, action) pairs: there is no noise to "
            "average, so nothing to plan."
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
