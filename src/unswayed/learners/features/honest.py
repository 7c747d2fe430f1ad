"""A policy with the partition it was learned with, and intervals that its shape cannot bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.defaults import DEFAULT_METHOD
from unswayed.errors import InputError, option
from unswayed.learners.design import design_of_log
from unswayed.learners.features.shape import Shape
from unswayed.learners.learning import learn_policy
from unswayed.learners.options import LearnOptions
from unswayed.policy import Policy
from unswayed.tallies import Tallies
from unswayed.tallies.log_data import PreparedLog

DELTA = 0.05
"""Ours: probability that a half of the users holds more colluders than is allowed for."""


def larger_share(alpha: float, n_users: int) -> float:
    """Return the share of colluders that a half of the users has at most, with 1 − ``DELTA``.

    By Hoeffding's inequality for draws without replacement, as the half is drawn by a hash that
    depends on the whole log: alpha + sqrt(log(1/δ)/n_users).

    >>> round(larger_share(0.1, 10_000), 3)
    0.117
    """
    share = alpha + float(np.sqrt(np.log(1.0 / DELTA) / n_users))
    if share >= 0.5:
        raise InputError(
            f"{n_users:,} users are too few for {option('--honest')} with alpha = {alpha:g}; leave "
            "it out, or learn from more users."
        )
    return share


def with_partition(policy: Policy, log: PreparedLog, options: LearnOptions) -> tuple[Policy, str]:
    """Return the policy with its partition, and a note on how that was chosen.

    In honest mode means and intervals are those of the users who had no say in the partition, with
    a larger alpha; decisions are still those of all users.
    """
    shape: Shape = log.shape
    policy = replace(policy, partition=shape.partition)
    n_leaves = len(policy.context_labels)
    note = (
        f"contexts were learned from {', '.join(shape.partition.names)}: {n_leaves:,} "
        f"{'leaf' if n_leaves == 1 else 'leaves'} ({shape.chosen})."
    )
    if shape.n_mixed and options.method == DEFAULT_METHOD:
        note += (
            f" In {shape.n_mixed:,} of them rewards go with the propensity of their action, so its "
            "mean is that of visits for which the logging policy preferred it: add what that used "
            "to the features, or learn with --method paper, which weights events."
        )
    source = {**policy.source, "shape": shape.to_json()}
    if shape.shaped_by is not None:
        tallies = log.tallies
        assert isinstance(tallies, Tallies)  # a cluster refuses honest
        share = larger_share(policy.alpha, tallies.n_users)
        others = np.flatnonzero(~shape.shaped_by)
        half = replace(tallies, bounds=()).of_users(others)
        rewards = options.rewards
        apart = learn_policy(
            half,
            replace(design_of_log(half, options.design), rewards=rewards),
            alpha=share,
            method=options.method,
        ).policy
        policy = replace(
            policy,
            mean_rewards=apart.mean_rewards,
            low=apart.low,
            high=apart.high,
            sampling_errors=apart.sampling_errors,
            is_excluded=None,
            decisions=policy.actions,
        )
        source["honest"] = {"users": len(others), "alpha": share, "delta": DELTA}
        note += (
            f" Means and intervals are those of {len(others):,} users who had no say in that, and "
            f"allow for a share {share:.3g} of colluders; decisions are those of all users."
        )
    return replace(policy, source=source), note
