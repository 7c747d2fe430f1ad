"""On which events a policy may be judged: others than those it was chosen on.

A policy that was chosen for its rewards in a log looks better there than it is (the winner's
curse). If it came from the log that it is evaluated on, or if that cannot be told, it is
cross-fitted: learned again on one half of the users, in the same way, and evaluated on the other
half, and the other way round. So no account is on both sides. The model of rewards that DR needs is
fitted on the same half. Splits are repeated and their results averaged: with one split, or with
more and smaller folds, errors of the folds go together and intervals are too narrow.

Half of the users teach a little less than all of them, and a policy is at most as good as it looks
on the events that it was chosen on. So the lower end of an interval comes from cross-fitting, and
the upper end from the policy as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError, option
from unswayed.evaluation.choices import choices_of
from unswayed.events import Events
from unswayed.learners.design import design_of_log
from unswayed.learners.learning import learn_policy
from unswayed.learners.methods import method_names
from unswayed.policy import Origin, Policy
from unswayed.randomness import generator
from unswayed.tallies import Tallies

Fitting = Literal["as it is", "cross-fitted", "holdout"]

OTHER_LOG = "it was learned from another log"
"""Why a policy is evaluated as it is, if nothing speaks against that."""

FEWEST_USERS = 4
"""A half needs two users."""

SPLITS = 3
"""Ours: how often users are split in halves."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A policy on the events of a log.

    Attributes
    ----------
    table
        The probabilities of actions as the policy is; shape (n_contexts, n_actions).
    halves
        For each split, the same of the policies that are evaluated on its halves. Empty if the
        policy is evaluated as it is.
    fitting
        How it was judged.
    reason
        Why, in words.
    """

    table: FloatArray
    fitting: Fitting
    reason: str
    halves: tuple[tuple[FloatArray, FloatArray], ...] = ()

    @property
    def is_doubtful(self) -> bool:
        """Whether it may have been chosen on the events it is judged by."""
        return self.fitting == "as it is" and self.reason != OTHER_LOG


def judged(
    policy: Policy, events: Events, tallies: Tallies, table: FloatArray, origin: Origin
) -> Judged:
    """Cross-fit a policy unless it came from another log."""
    recorded = Origin.from_json(policy.source.get("origin"))
    relation = "unknown" if recorded is None else recorded.relation(origin)
    if relation == "other":
        return Judged(table, "as it is", OTHER_LOG)
    why = {
        "same": "it was learned from this log",
        "overlapping": "it was learned from a log with accounts and times of this one",
        "unknown": "it may have been learned from this log",
    }[relation]
    if policy.method not in method_names() or events.n_users < FEWEST_USERS:
        return Judged(table, "as it is", f"{why}, but cannot be learned again")
    halves = []
    for split in range(SPLITS):
        half_of = halves_of(events.n_users, split)
        learned = [
            learned_again(policy, events, tallies.of_users(np.flatnonzero(half_of != half)))
            for half in (0, 1)
        ]
        halves.append((choices_of(learned[0], events)[0], choices_of(learned[1], events)[0]))
    return Judged(table, "cross-fitted", why, tuple(halves))


def learned_again(policy: Policy, events: Events, tallies: Tallies) -> Policy:
    """Learn a policy from other tallies by the same method, with the same alpha."""
    return learn_policy(
        tallies,
        design_of_log(tallies, "auto"),
        events.context_labels,
        events.action_labels,
        alpha=policy.alpha,
        method=policy.method,
        certify="none",
    ).policy


def halves_of(n_users: int, split: int) -> IntArray:
    """Return the half of each user in a split: 0 or 1."""
    return np.asarray(generator(0, "halves", split).permutation(n_users) % 2)


def early_and_late(events: Events, times: FloatArray | None, share: float) -> tuple[Events, Events]:
    """Split a log by time; the last ``share`` of its events are held out."""
    flag = option("--holdout")
    if not 0.0 < share < 1.0:
        raise InputError(f"{flag} is {share:g}: it is a share of the events, above 0 and below 1.")
    if times is None or np.isnan(times).all():
        raise InputError(
            f"{flag} splits by time, and the log has no times; see {option('--time-column')}."
        )
    if np.isnan(times).any():
        row = int(np.isnan(times).argmax()) + 1
        raise InputError(f"{flag} needs the time of every event, and event {row:,} has none.")
    is_late = times > np.quantile(times, 1.0 - share, method="lower")
    if not is_late.any() or is_late.all():
        raise InputError(f"{flag} is {share:g}: all events would be on one side; choose another.")
    return events.rows(~is_late), events.rows(is_late)
