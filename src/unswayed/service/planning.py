"""Plans of a campaign: those of the epoch learner, adapted to the campaign's settings.

A campaign begins with an ``EpochPlan`` in which all actions survive. Each learned policy advances
it by ``next_plan``, the function of the epoch learner, as soon as the campaign is old enough:
actions excluded by intervals are no longer explored, and fewer users explore. The store contains
all state, so any process can continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.events import UNKNOWN, Labels
from unswayed.learners.epochs import MOST_DOUBT, Schedule, next_plan, planned_schedule
from unswayed.policy import EpochPlan, Policy, Rule, best_known
from unswayed.policy.partition import Feature, Partition
from unswayed.service.settings import Settings


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a campaign at the time of learning."""

    age: float  # decisions per user, counted up to the cap
    n_users: int
    is_alarmed: bool  # whether a coalition was found
    silent_share: float = 0.0  # share of users without any reward


def schedule_of(plan: EpochPlan, n_users: int) -> Schedule:
    """Return when the epochs of a campaign end, given its current number of users."""
    return planned_schedule(
        n_users=max(n_users, 1), n_contexts=len(plan.contexts), n_actions=len(plan.actions)
    )


def partition_of(settings: Settings, policy: Policy | None) -> Partition | None:
    """Return the partition of a campaign's attributes; None if its contexts are labels."""
    if not settings.features:
        return None
    if policy is not None and policy.partition is not None:
        return policy.partition
    return Partition(
        tuple(
            Feature(name, () if feature.type == "number" else None, is_trusted=feature.trusted)
            for name, feature in settings.features.items()
        )
    )


def contexts_of(settings: Settings, policy: Policy | None = None) -> Sequence[str]:
    """Return the contexts of a campaign: its labels, or the leaves of its partition."""
    partition = partition_of(settings, policy)
    return settings.contexts if partition is None else partition.labels.texts


def make_plan(
    name: str, settings: Settings, policy: Policy | None = None, *, epoch: int = 0
) -> EpochPlan:
    """Return the initial plan: all actions survive, and the baseline is played.

    Explorers keep one action per context if there are at most as many contexts as actions, as in
    base case 1 of Algorithm 2; otherwise they draw at every play. With features they do so in any
    case: a fixed action would be confounded with the user's attributes.
    """
    contexts = contexts_of(settings, policy)
    start = EpochPlan.start(
        name,
        contexts,
        settings.actions,
        explorer_share=settings.explorer_share,
        is_sticky=not settings.features and len(contexts) <= len(settings.actions),
        control_share=settings.control_share,
        baseline=settings.held_action,
    )
    return replace(start, epoch=epoch)


def next_plan_of(
    before: EpochPlan,
    settings: Settings,
    policy: Policy | None,
    progress: Progress | None = None,
    *,
    is_moved: bool = False,
) -> EpochPlan:
    """Return the plan that follows ``before`` after a change of settings or policy.

    Without a policy the baseline is played. ``progress`` is given if the policy was just learned:
    then epochs end whose time is over, and within an epoch only the policy changes. ``is_moved``
    means that the policy has another partition, which begins an epoch.
    """
    if policy is None:
        return make_plan(before.campaign, settings, epoch=before.epoch + is_moved)
    policy = aligned(policy, settings)
    plan = _fitted(before, settings, policy)
    if progress is None:
        return replace(plan, epoch=plan.epoch + is_moved)
    schedule = schedule_of(plan, progress.n_users)
    while progress.age >= schedule.end(plan.epoch) or plan.epoch < before.epoch + is_moved:
        plan = next_plan(
            plan,
            policy,
            schedule=schedule,
            n_users=progress.n_users,
            is_alarmed=progress.is_alarmed,
        )
    return _with_shares(plan, settings)


def _fitted(plan: EpochPlan, settings: Settings, policy: Policy) -> EpochPlan:
    """Return a plan with the labels and shares of settings, and the actions of a policy.

    Actions unknown to the plan survive everywhere; contexts unknown to it are explored like those
    of a new campaign.
    """
    new = make_plan(plan.campaign, settings, policy, epoch=plan.epoch)
    if settings.features:
        # Users whose attributes have no leaf get the default action.
        default = settings.actions[policy.default_action]
        fallback = replace(new.unknown, action=default, explorer_share=settings.explore_share)
        new = replace(new, unknown=fallback)
    added = tuple(action for action in settings.actions if action not in plan.actions)

    def rule(context: str, fresh: Rule) -> Rule:
        action = str(policy.decide(context).action)
        if context not in plan.contexts:
            return replace(fresh, action=action)
        old = plan.rule(context)
        surviving = {*old.surviving, *added, action}
        return replace(
            fresh,
            action=action,
            surviving=tuple(name for name in settings.actions if name in surviving),
            # Nothing is known about a new action, so exploration grows by the largest factor.
            explorer_share=min((MOST_DOUBT if added else 1.0) * old.explorer_share, 1.0),
        )

    fitted = replace(
        new,
        rules=tuple(rule(str(c), r) for c, r in zip(new.contexts, new.rules, strict=True)),
        is_alarmed=plan.is_alarmed,
    )
    return _with_shares(fitted, settings)


def _with_shares(plan: EpochPlan, settings: Settings) -> EpochPlan:
    """Return a plan with the configured share of explorers; in mode ``learn`` it is unchanged."""
    if settings.mode == "learn":
        return plan
    share = settings.explorer_share
    return replace(plan, rules=tuple(replace(rule, explorer_share=share) for rule in plan.rules))


def aligned(policy: Policy, settings: Settings) -> Policy:
    """Return a policy with the contexts and actions of settings, in their order.

    Actions and contexts that were never played have no estimates.
    """
    contexts, actions = Labels.of(contexts_of(settings, policy)), Labels.of(settings.actions)
    rows = policy.context_labels.codes(contexts)
    columns = policy.action_labels.codes(actions)
    is_known = (rows != UNKNOWN)[:, None] & (columns != UNKNOWN)

    def cells(values: npt.NDArray[Any], otherwise: float) -> npt.NDArray[Any]:
        return np.where(is_known, values[np.ix_(rows, columns)], otherwise)

    means, errors = cells(policy.mean_rewards, np.nan), policy.sampling_errors
    is_excluded = decisions = None
    if policy.is_excluded is not None:
        # A removed action may be the one that excluded others; then none is excluded.
        is_kept = np.isin(np.arange(len(policy.action_labels)), columns)
        stays = (policy.is_excluded | is_kept).all(axis=1, keepdims=True)
        is_excluded = cells(policy.is_excluded & stays, False).astype(np.bool_)
    if policy.decisions is not None:
        places = actions.codes(policy.action_labels)[policy.decisions][rows]
        is_there = (rows != UNKNOWN) & (places != UNKNOWN)
        decisions = np.where(is_there, places, best_known(means, is_excluded))
    return Policy(
        context_labels=contexts,
        action_labels=actions,
        mean_rewards=means,
        low=cells(policy.low, np.nan),
        high=cells(policy.high, np.nan),
        counts=cells(policy.counts, 0).astype(np.int64),
        context_probabilities=np.where(rows != UNKNOWN, policy.context_probabilities[rows], 0.0),
        alpha=policy.alpha,
        method=policy.method,
        sampling_errors=None if errors is None else cells(errors, np.inf),
        is_excluded=is_excluded,
        decisions=decisions,
        partition=policy.partition,
        source=policy.source,
    )
