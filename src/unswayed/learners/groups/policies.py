"""A policy for each group, learned from its members as the common one is from everybody."""

from __future__ import annotations

import numpy as np

from unswayed.events import UNKNOWN, Labels
from unswayed.learners.design import DesignName, design_of_log
from unswayed.learners.groups.finding import NO_GROUP, Groups
from unswayed.learners.methods import method_named
from unswayed.policy import GroupDecisions, Policy
from unswayed.tallies import Tallies

LARGEST_FRACTION = 0.45
"""Ours: the largest share of colluders that is assumed within a group."""


def group_decisions(
    groups: Groups, tallies: Tallies, policy: Policy, user_labels: Labels, *, design: DesignName
) -> GroupDecisions:
    """Return what each group decides unlike everybody, by the policy's method.

    All colluders may be in one group, so a group of n of L users is learned for αL/n of them.
    """
    n_bad = policy.adversarial_fraction * tallies.n_users
    tables = []
    for number, size in enumerate(groups.sizes.tolist()):
        own = tallies.of_users(np.flatnonzero(groups.members == number))
        alpha = min(n_bad / size, LARGEST_FRACTION)
        learn = method_named(policy.method)
        learned = learn(own, design_of_log(own, design), adversarial_fraction=alpha).policy(
            own,
            policy.context_labels,
            policy.action_labels,
            adversarial_fraction=alpha,
            method=policy.method,
        )
        differs = learned.is_learned & (learned.actions != policy.actions)
        tables.append(np.where(differs, learned.actions, UNKNOWN))
    members = np.flatnonzero(groups.members != NO_GROUP)
    return GroupDecisions(
        Labels(user_labels.values[members]),
        groups.members[members].astype(np.int64),
        np.array(tables, np.int64).reshape(len(tables), len(policy.context_labels)),
    )
