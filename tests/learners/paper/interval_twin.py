"""Intervals of mean rewards written out cell by cell, over dense tables.

Slow and literal on purpose: the package must give the same numbers.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from unswayed.estimators import mean_intervals, rate_intervals, trim_count
from unswayed.estimators.trimming import binomial_upper_quantiles
from unswayed.learners.design import Design
from unswayed.learners.paper.reward_units import RewardUnits
from unswayed.tallies import Tallies


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of a mean; of one value it is taken to be zero."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def upper_quantile(level: float) -> float:
    """Return what a standard normal number exceeds with this probability."""
    return -NormalDist().inv_cdf(level)


def rate_ends(
    values: np.ndarray,
    trials: np.ndarray,
    *,
    n_bad: int,
    bad_share: float,
    failure_probability: float,
    pilot: float,
) -> tuple[float, float]:
    """Return the ends for binary rewards of one cell, in [0, 1]."""
    half = failure_probability / 2
    groups, most, shares = np.zeros(len(values), np.int64), np.array([n_bad]), np.array([bad_share])
    alike, plain = (
        [
            float(end[0])
            for end in rate_intervals(
                np.rint(values * tries) if (tries > 1).any() else values,
                tries,
                groups,
                1,
                n_bad=most,
                bad_shares=shares,
                failure_probability=level,
                pilot=pilot,
            )
        ]
        for tries, level in ((trials, half), (np.ones_like(trials), half / 2))
    )
    free = [
        float(end[0])
        for end in mean_intervals(
            values, groups, 1, n_bad=most, failure_probability=half / 2, has_light_tails=False
        )
    ]
    mean = float(values.mean())
    rate = (trials * values).sum() / trials.sum()
    explained = max(rate * (1 - rate), 1e-12)
    # Of a common rate: terms of mean one, with the variance of squares of binomial numbers.
    terms = trials * (values - rate) ** 2 / explained
    variance = np.mean(2 + (1 - 6 * explained) / (trials * explained)) / len(values)
    by_chance = 1 + 1e-9 + 3 * max(variance, 0.0) ** 0.5
    if terms.mean() <= min(1.5, by_chance) and alike[0] <= mean <= alike[1]:
        reach = upper_quantile(half / 4) * standard_error(values)
        return min(alike[0], max(mean - reach, 0.0)), max(alike[1], min(mean + reach, 1.0))
    return max(plain[0], free[0]), min(plain[1], free[1])


def interval_tables(
    tallies: Tallies,
    design: Design,
    units: RewardUnits,
    *,
    alpha: float,
    failure_probability: float,
    is_sampled: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return low ends, high ends and sampling errors.

    ``is_sampled``, of the shape of users × cells, says who is looked at in large cells.
    """
    shape = (tallies.n_contexts, tallies.n_actions)
    counts, sums = (tallies.csr(x).toarray() for x in (tallies.counts, tallies.sums))
    scale = units.span if units.is_binary else 1.0
    share = failure_probability / tallies.n_actions
    n_active = int((counts.sum(axis=1) > 0).sum())
    n_bad_users = math.ceil(alpha * n_active)
    came = counts > 0
    means = np.zeros(counts.shape)
    means[came] = (sums[came] / counts[came] - units.origin) / scale
    if units.is_binary:
        means = np.clip(means, 0.0, 1.0)
    pilot = float(means[came].mean())
    low, high, errors = (np.full(counts.shape[1], np.nan) for _ in range(3))
    for cell in np.flatnonzero(came.any(axis=0)):
        context, action = divmod(int(cell), tallies.n_actions)
        visitors = int(came[:, cell].sum())
        n_bad, bad_share = n_bad_users, math.nan
        if design.is_sticky[context]:
            in_group = trim_count(
                int(design.group_sizes[context, action]),
                alpha=alpha,
                failure_probability=share / 8,
            )
            n_bad = min(n_bad, in_group)
            in_context = came[:, context * tallies.n_actions :][:, : tallies.n_actions].sum()
            bad_share = min(n_bad_users / in_context, 1.0)
        n_bad = min(n_bad, visitors)
        ends = (0.0, 1.0) if units.is_binary else (-np.inf, np.inf)
        if visitors > n_bad:
            chosen = came[:, cell]
            if is_sampled is not None and not is_sampled[chosen, cell].all():
                chosen = chosen & is_sampled[:, cell]
                size = np.array([int(chosen.sum())])
                shares = np.array([n_bad / visitors])
                n_bad = min(int(binomial_upper_quantiles(size, shares, share / 8)[0]), size[0])
            values = means[chosen, cell]
            if units.is_binary:
                trials = np.rint(counts[chosen, cell]).astype(np.int64)
                ends = rate_ends(
                    values,
                    np.ones_like(trials) if tallies.is_weighted else trials,
                    n_bad=n_bad,
                    bad_share=bad_share,
                    failure_probability=0.75 * share,
                    pilot=pilot,
                )
            else:
                found = mean_intervals(
                    values,
                    np.zeros(len(values), np.int64),
                    1,
                    n_bad=np.array([n_bad]),
                    failure_probability=0.75 * share,
                )
                ends = float(found.low[0]), float(found.high[0])
        low[cell], high[cell] = (units.origin + scale * end for end in ends)
        by_chance = upper_quantile(share / 2) * standard_error(means[came[:, cell], cell])
        errors[cell] = scale * min(by_chance, (ends[1] - ends[0]) / 2)
    return low.reshape(shape), high.reshape(shape), errors.reshape(shape)
