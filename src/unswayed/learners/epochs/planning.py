"""From one epoch's plan and what was learned in it to the next epoch's plan."""

from __future__ import annotations

import numpy as np

from unswayed.errors import InputError
from unswayed.events import Label
from unswayed.learners.epochs.schedule import Schedule
from unswayed.learners.interface import BoolArray, FloatArray
from unswayed.policy import EpochPlan, Policy, Rule

REVIEW_EVERY = 3
"""Ours: in every third epoch all actions are explored again, so that what was wrongly eliminated
can come back."""


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
    """Return which actions no interval rules out; shape (n_contexts, n_actions).

    An action goes when its upper end lies below the largest lower end of its context. Where there
    is no bound nothing goes. The policy's action always stays: an interval that does not contain
    the choice was learned from too little.
    """
    low = np.where(np.isnan(policy.low), -np.inf, policy.low)
    high = np.where(np.isnan(policy.high), np.inf, policy.high)
    survives: BoolArray = high >= low.max(axis=1, keepdims=True)
    survives[np.arange(len(survives)), policy.actions] = True
    return survives


def doubts_of(policy: Policy) -> FloatArray:
    """Return the doubt about each context's decision; shape (n_contexts,).

    The sum of two actions' sampling errors over the difference of their means, for the best action
    and the one that is hardest to tell from it. Below 1 chance does not explain the difference.
    """
    errors = policy.sampling_errors
    if errors is None:
        errors = np.full(policy.mean_rewards.shape, np.inf)
    rows = np.arange(len(policy.actions))
    ahead = policy.mean_rewards[rows, policy.actions][:, None] - policy.mean_rewards
    both = errors[rows, policy.actions][:, None] + errors
    is_known = np.isfinite(ahead) & np.isfinite(both) & (ahead > 0)
    doubts = np.divide(both, ahead, where=is_known, out=np.full(ahead.shape, np.inf))
    doubts[rows, policy.actions] = 0.0
    largest: FloatArray = doubts.max(axis=1)
    return largest
