"""Learn a policy from tallies, here or on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from unswayed.errors import InputError
from unswayed.learners.bounded import Reviewed, learn_bounded
from unswayed.learners.design import Design, RewardBound, bound_shown, check_rewards
from unswayed.learners.estimates import Estimates
from unswayed.learners.explaining import changed_decisions, named_lies, plain_actions
from unswayed.learners.flips import FlipBounds, flip_bounds
from unswayed.learners.methods import known_method, method_named
from unswayed.learners.unknown_fraction import Auto, UnknownFraction, estimate_fraction
from unswayed.policy import Origin, Policy
from unswayed.tallies import Tallies, UserTallies


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A policy with its estimates and certificates."""

    policy: Policy
    estimates: Estimates
    flips: FlipBounds  # how many accounts each decision withstands
    unknown_fraction: UnknownFraction | None  # how the share was chosen; None if it was given
    rewards: RewardBound  # the bound used by worst-case intervals


def learn_policy(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float | Auto,
    method: str,
    warmup: Tallies | None = None,
    reviewed: Reviewed | None = None,
    times: tuple[str | None, str | None] = (None, None),
) -> Learned:
    """Learn a policy; parameters as in ``RobustMCB`` and its methods.

    The tallies have labels. Only the default method uses ``reviewed``. Users' labels and the first
    and last time of the log are recorded in the policy's ``Origin``.
    """
    check_actions(tallies.n_actions)
    method = known_method(method)
    learn = method_named(method)
    if reviewed is not None:
        learn = partial(learn_bounded, reviewed=reviewed)
    if not tallies.interactions.any():
        raise InputError("there are no interactions to learn from; give at least one event.")
    check_precision(tallies)
    check_rewards(tallies, design.rewards)
    if not design.rewards.is_known:
        design = replace(design, rewards=bound_shown(tallies))
    unknown_fraction = None
    if alpha == "auto":
        unknown_fraction = estimate_fraction(tallies, reviewed)
        alpha = unknown_fraction.chosen
    estimates = learn(tallies, design, alpha=alpha, warmup=warmup)
    policy = estimates.policy(tallies, alpha=alpha, method=method)
    contexts = tallies.context_labels
    source: dict[str, Any] = {
        "events": int(policy.counts.sum()),
        "users": tallies.n_users,
        "evidence": {
            **estimates.evidence,
            "lies": named_lies(estimates.evidence.get("lies", []), policy),
            "undecided": [contexts[s] for s in estimates.evidence.get("undecided", [])],
        },
        "changed": changed_decisions(policy, plain_actions(tallies)),
        "intervals": design.rewards.to_json(),
        "origin": Origin.of(
            contexts, tallies.action_labels, policy.counts, tallies.user_labels, times
        ).to_json(),
    }
    if unknown_fraction is not None:
        source["adversarial_fraction"] = unknown_fraction.to_json()
    flips = flip_bounds(method, tallies, design, estimates, alpha=alpha, warmup=warmup)
    policy = replace(
        policy,
        source=source,
        # A bound of one account holds for every method, so it is not reported.
        flip_fraction=flips.lower if flips.is_certified else None,
        flip_fraction_upper=None if np.isnan(flips.upper).all() else flips.upper,
    )
    return Learned(policy, estimates, flips, unknown_fraction, design.rewards)


LARGEST_OFFSET = 3e7  # Largest ratio of magnitude to spread at which squares keep enough digits


def check_precision(tallies: UserTallies) -> None:
    """Reject rewards whose spread is too small relative to their magnitude."""
    low, high = tallies.range_of_means()
    if high > low and max(abs(low), abs(high)) > LARGEST_OFFSET * (high - low):
        raise InputError(
            f"rewards lie between {low:.10g} and {high:.10g}, too close together for their size; "
            "subtract a constant from all of them."
        )


def check_actions(n_actions: int) -> None:
    """Reject fewer than two actions."""
    if n_actions < 2:
        raise InputError(
            f"there {'is' if n_actions == 1 else 'are'} {n_actions} action"
            f"{'' if n_actions == 1 else 's'}; a decision needs at least two."
        )
