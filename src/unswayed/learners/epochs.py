"""The next epoch's plan, from the current plan and the learned policy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.errors import InputError
from unswayed.learners.estimates import Estimates
from unswayed.policy import EpochPlan, Policy
from unswayed.tallies import UserTallies

#: Ours: plays of every (context, action) in epoch 0. With rewards of standard deviation 0.5, a
#: difference of two means then has a standard error of 0.09, a third of the paper's gap.
FIRST_PLAYS_PER_CELL = 64.0

PLAYS_PER_CELL = 24.0  # Ours: the same for later epochs; gives the regret of UCB1 over 500 plays
# Ours: plays per user in epoch 0, enough to estimate correlations across cells
FEWEST_FIRST_PLAYS = 4
ALARM_FACTOR = 2.0  # Ours: exploration multiplier after an epoch in which a coalition was detected
MOST_DOUBT = 16.0  # Ours: maximum exploration multiplier for contexts with uncertain decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Epochs by the age of the campaign, in interactions per user.

    Epoch 0 lasts until age ``first``, and everybody explores. Each later epoch ends at twice its
    starting age and explores each (context, action) about ``plays_per_cell`` times: exploration
    grows with the logarithm of the age, and no horizon has to be known.

    >>> schedule = Schedule(first=4)
    >>> [schedule.end(epoch) for epoch in range(4)]
    [4, 8, 16, 32]
    """

    first: int  # interactions per user in epoch 0
    plays_per_cell: float = PLAYS_PER_CELL  # exploring plays in a later epoch, over all users

    def __post_init__(self) -> None:
        if self.first < 1:
            raise InputError(f"first is {self.first}: epoch 0 needs at least 1 interaction.")
        if not (math.isfinite(self.plays_per_cell) and self.plays_per_cell >= 0):
            raise InputError(f"plays_per_cell is {self.plays_per_cell}: it must be 0 or larger.")

    def end(self, epoch: int) -> int:
        """Return the age at which an epoch ends."""
        return self.first << epoch

    def length(self, epoch: int) -> int:
        """Return the length of an epoch in interactions per user."""
        return self.end(epoch) - (self.end(epoch - 1) if epoch else 0)

    def explorer_share(
        self,
        epoch: int,
        *,
        n_users: int,
        n_actions: int,
        context_probability: float,
        doubt: float = 0.0,
        is_alarmed: bool = False,
    ) -> float:
        """Return the exploration rate of a context that meets the per-cell target.

        Rare contexts need a higher rate for the same number of plays; they explore at rates of up
        to 1, at little cost. ``doubt`` is the factor by which intervals are too wide to separate
        the best action from the second best; the number of plays needed grows with its square.
        """
        if epoch == 0:
            return 1.0
        factor = min(max(doubt**2, 1.0), MOST_DOUBT) * (ALARM_FACTOR if is_alarmed else 1.0)
        wanted = self.plays_per_cell * factor * n_actions
        plays = self.length(epoch) * n_users * context_probability
        return 1.0 if plays <= wanted else wanted / plays


def planned_schedule(*, n_users: int, n_contexts: int, n_actions: int) -> Schedule:
    """Return the schedule for a campaign of this size.

    >>> planned_schedule(n_users=2000, n_contexts=50, n_actions=5).first
    8
    """
    plays = FIRST_PLAYS_PER_CELL * n_contexts * n_actions / n_users
    return Schedule(first=max(FEWEST_FIRST_PLAYS, math.ceil(plays)))


REVIEW_EVERY = 2  # Ours: every second epoch explores all actions, so that paused ones can return
# Ours: a coalition counts as detected if at least this share of the users' weight was removed
ALARM_WEIGHT = 0.01


def next_plan(
    plan: EpochPlan, policy: Policy, *, schedule: Schedule, n_users: int, is_alarmed: bool = False
) -> EpochPlan:
    """Return the plan that follows ``plan``, given the policy learned from explorers so far.

    The plan depends only on the arguments, so an interrupted campaign can continue from its last
    plan and its tallies. Contexts that first appeared in this epoch are in the policy and in the
    next plan. If a coalition was detected (``is_alarmed``), the next epoch explores more.

    A coalition stays down-weighted for one epoch after it was last detected: decisions that would
    otherwise change are kept, and their contexts explore at the highest rate. Otherwise borderline
    detections would change the policy back and forth.
    """
    if list(policy.action_labels) != list(plan.actions):
        raise InputError(
            "the policy's actions are not those of the plan; learn it from the same campaign."
        )
    epoch = plan.epoch + 1
    survives = surviving_actions(policy)
    if epoch % REVIEW_EVERY == 0:
        survives[:] = True
    names = list(plan.actions)
    doubts = doubts_of(policy)
    actions = policy.actions.copy()
    if plan.is_alarmed and not is_alarmed:
        for code, context in enumerate(policy.context_labels):
            kept = plan.actions.code(plan.rule(context).action)
            if context in plan.contexts and kept != actions[code]:
                actions[code], doubts[code] = kept, np.inf
                survives[code, kept] = True

    rules = tuple(
        replace(
            plan.rule(context),
            action=names[actions[code]],
            surviving=tuple(names[action] for action in np.flatnonzero(survives[code])),
            explorer_share=schedule.explorer_share(
                epoch,
                n_users=n_users,
                n_actions=int(survives[code].sum()),
                context_probability=float(policy.context_probabilities[code]),
                doubt=float(doubts[code]),
                is_alarmed=is_alarmed,
            ),
        )
        for code, context in enumerate(policy.context_labels)
    )
    return replace(
        plan,
        epoch=epoch,
        contexts=policy.context_labels,
        rules=rules,
        unknown=replace(plan.unknown, action=names[policy.default_action]),
        is_alarmed=is_alarmed,
    )


def surviving_actions(policy: Policy) -> BoolArray:
    """Return which actions may be the best; shape (n_contexts, n_actions).

    An action is paused if its mean is significantly below that of the policy's action; if lies
    caused the difference, it returns at the next review. It is also paused if its worst-case
    interval lies below that of another action, unless the intervals depend on an unconfirmed
    assumption. Actions without an estimate survive, and so does the policy's action.
    """
    survives: BoolArray = _doubts(policy) >= 1.0
    if not policy.source.get("intervals", {}).get("is_assumed"):
        floor = np.where(np.isnan(policy.low), -np.inf, policy.low).max(axis=1, keepdims=True)
        survives &= ~(policy.high < floor)  # also True for NaN
    survives[np.arange(len(survives)), policy.actions] = True
    return survives


def doubts_of(policy: Policy) -> FloatArray:
    """Return the largest ratio of sampling error to lead in each context; shape (n_contexts,).

    If it is below 1, every other action is significantly worse than the policy's.
    """
    doubts = _doubts(policy)
    doubts[np.arange(len(doubts)), policy.actions] = 0.0
    return np.asarray(doubts.max(axis=1))


def _doubts(policy: Policy) -> FloatArray:
    """Return the ratio of sampling error to lead for each action; shape (n_contexts, n_actions).

    The ratio is the sum of both actions' errors over the difference of their means; it is infinite
    if either is unknown or the policy's action has no lead, and 0 for excluded actions.
    """
    errors = policy.sampling_errors
    if errors is None:
        errors = np.full(policy.mean_rewards.shape, np.inf)
    chosen = policy.actions[:, None]
    ahead = np.take_along_axis(policy.mean_rewards, chosen, axis=1) - policy.mean_rewards
    both = np.take_along_axis(errors, chosen, axis=1) + errors
    is_known = np.isfinite(ahead) & np.isfinite(both) & (ahead > 0)
    doubts: FloatArray = np.divide(both, ahead, where=is_known, out=np.full(ahead.shape, np.inf))
    if policy.is_excluded is not None:
        doubts[policy.is_excluded] = 0.0
    return doubts


def shows_coalition(estimates: Estimates, tallies: UserTallies) -> bool:
    """Return whether the learner detected a coalition."""
    is_active = tallies.interactions > 0
    return 1.0 - float(estimates.user_weights[is_active].mean()) > ALARM_WEIGHT
