"""From one epoch's plan and what was learned in it to the next epoch's plan; the alarm."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.errors import InputError
from unswayed.events import Label
from unswayed.learners.epochs.schedule import Schedule
from unswayed.learners.estimates import Estimates
from unswayed.policy import EpochPlan, Policy, Rule
from unswayed.tallies import UserTallies

REVIEW_EVERY = 2
"""Ours: in every other epoch all actions are explored, so that no action rests twice in a row: what
was wrongly put below comes back before the age has more than doubled twice."""

#: Ours: a coalition counts as found when more than this share of the users' weight was taken away.
ALARM_WEIGHT = 0.01


def next_plan(
    plan: EpochPlan,
    policy: Policy,
    *,
    schedule: Schedule,
    n_users: int,
    is_alarmed: bool = False,
) -> EpochPlan:
    """Return the plan of the epoch after ``plan``.

    The plan depends on nothing but its arguments: a campaign that is stopped goes on from its last
    plan and its tallies.

    Parameters
    ----------
    plan
        The epoch that ended.
    policy
        What was learned by then, from explorers' plays. Contexts that turned up in the epoch are
        in it, and in the next plan.
    is_alarmed
        Whether a coalition was found; then more is explored.

    Notes
    -----
    A coalition that was found and is found no more is believed in for one more epoch: decisions
    that would change stay as they are, and their contexts are explored as under the largest doubt.
    Detection near its limit comes and goes; a policy should not follow.
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

    def rule(context: Label, code: int) -> Rule:
        before = plan.rule(context)
        return Rule(
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
            is_sticky=before.is_sticky,
            is_spread=before.is_spread,
            baseline=before.baseline,
        )

    return EpochPlan(
        campaign=plan.campaign,
        epoch=epoch,
        contexts=policy.context_labels,
        actions=plan.actions,
        rules=tuple(rule(context, code) for code, context in enumerate(policy.context_labels)),
        unknown=Rule(
            action=names[policy.default_action],
            surviving=plan.unknown.surviving,
            explorer_share=plan.unknown.explorer_share,
            is_sticky=plan.unknown.is_sticky,
            is_spread=plan.unknown.is_spread,
            baseline=plan.unknown.baseline,
        ),
        control_share=plan.control_share,
        is_alarmed=is_alarmed,
    )


def surviving_actions(policy: Policy) -> BoolArray:
    """Return which actions may be the best; shape (n_contexts, n_actions).

    An action rests when chance does not explain how far it lies below the policy's action: it would
    take lies, and what lies have put below comes back in the next review. It also goes when its
    interval, lies included, lies below another one. What is not known stays, and so does the
    policy's action.
    """
    low = np.where(np.isnan(policy.low), -np.inf, policy.low)
    high = np.where(np.isnan(policy.high), np.inf, policy.high)
    survives: BoolArray = (high >= low.max(axis=1, keepdims=True)) & (_doubts(policy) >= 1.0)
    survives[np.arange(len(survives)), policy.actions] = True
    return survives


def doubts_of(policy: Policy) -> FloatArray:
    """Return the doubt about each context's decision; shape (n_contexts,).

    That of the action that is hardest to tell from the policy's. Below 1 chance does not explain
    that they differ.
    """
    doubts = _doubts(policy)
    doubts[np.arange(len(doubts)), policy.actions] = 0.0
    largest: FloatArray = doubts.max(axis=1)
    return largest


def _doubts(policy: Policy) -> FloatArray:
    """Return sampling errors over the lead of the policy's action; shape (n_contexts, n_actions).

    The sum of both actions' errors over the difference of their means; infinite where one of them
    is not known, or there is no lead. There is no doubt about actions that are excluded.
    """
    errors = policy.sampling_errors
    if errors is None:
        errors = np.full(policy.mean_rewards.shape, np.inf)
    rows = np.arange(len(policy.actions))
    ahead = policy.mean_rewards[rows, policy.actions][:, None] - policy.mean_rewards
    both = errors[rows, policy.actions][:, None] + errors
    is_known = np.isfinite(ahead) & np.isfinite(both) & (ahead > 0)
    doubts: FloatArray = np.divide(both, ahead, where=is_known, out=np.full(ahead.shape, np.inf))
    if policy.is_excluded is not None:
        doubts[policy.is_excluded] = 0.0
    return doubts


def shows_coalition(estimates: Estimates, tallies: UserTallies) -> bool:
    """Return whether a coalition was flagged."""
    is_active = tallies.interactions > 0
    return 1.0 - float(estimates.user_weights[is_active].mean()) > ALARM_WEIGHT
