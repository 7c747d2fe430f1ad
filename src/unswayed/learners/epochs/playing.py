"""The epoch learner in the arena: plans decide, explorers' plays are learned from."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unswayed.arrays import FloatArray, IntArray
from unswayed.events import Labels
from unswayed.learners.design import Design, sticky_design, uniform_design
from unswayed.learners.epochs.alarm import shows_coalition
from unswayed.learners.epochs.planning import next_plan
from unswayed.learners.epochs.schedule import Schedule, planned_schedule
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import Setting, evenly_among_best
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.online.exploration import next_plays
from unswayed.policy import Decider, EpochPlan, Policy
from unswayed.policy.assignment import SECRET_BYTES
from unswayed.policy.deciding import EXPLORE
from unswayed.tallies import Accumulator, Tallies

#: Ours: about what epochs explore in 500 interactions per user.
COMMIT_FACTOR = 4


class EpochPlayer:
    """Explores by plan, learns at the end of every epoch, and serves what it learned.

    Only explorers' plays are learned from: their actions were drawn, and nobody can choose to be
    one. The tallies of all epochs add up.

    Parameters
    ----------
    setting
        Numbers of users, contexts and actions, the believed share of colluders, randomness.
    method
        What to learn with. With "paper" and at most as many contexts as actions an explorer keeps
        one action per context and epoch; epochs then count as different users, so that each keeps
        one action per context as the paper's groups need it.
    schedule
        When epochs end; None plans it by the setting's size.
    is_spread
        Whether everybody explores now and then; False draws a share of the users who explore for
        a whole epoch, as the paper has it.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        method: str = DEFAULT_METHOD,
        schedule: Schedule | None = None,
        is_spread: bool = True,
    ) -> None:
        self._setting = setting
        self._method = method
        self._learn_by = method_named(method, while_serving=True)
        self.schedule = schedule or planned_schedule(
            n_users=setting.n_users, n_contexts=setting.n_contexts, n_actions=setting.n_actions
        )
        self._is_sticky = method == "paper" and setting.n_contexts <= setting.n_actions
        self._secret = setting.rng.bytes(SECRET_BYTES)
        self._sums = Accumulator(n_actions=setting.n_actions)
        self._n_played = 0
        self._plays = np.zeros(setting.n_users, np.int64)
        self._begin(
            EpochPlan.start(
                "arena",
                range(setting.n_contexts),
                range(setting.n_actions),
                is_sticky=self._is_sticky,
                is_spread=is_spread,
            )
        )

    def play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        """Play arrivals; see ``Learner.play``."""
        actions = np.empty(len(users), np.int64)
        start = 0
        while start < len(users):
            left = self.schedule.end(self.plan.epoch) * self._setting.n_users - self._n_played
            end = int(min(start + left, len(users)))
            batch = slice(start, end)
            actions[batch] = self._play(users[batch], contexts[batch], answers[batch])
            start = end
            self._n_played += batch.stop - batch.start
            if end - batch.start == left:
                self._end_epoch()
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Return what is served, or in epoch 0 what would be; see ``Learner``."""
        if self.plan.epoch == 0:
            return evenly_among_best(self.learn()[0].mean_rewards)
        return np.eye(self._setting.n_actions)[[int(rule.action) for rule in self.plan.rules]]

    def learn(self) -> tuple[Estimates, Tallies]:
        """Learn from all explorers' plays so far."""
        n_epochs = self.plan.epoch + 1 if self._is_sticky else 1
        tallies = self._sums.tallies(
            n_users=n_epochs * self._setting.n_users, n_contexts=self._setting.n_contexts
        )
        design: Design = sticky_design(tallies) if self._is_sticky else uniform_design(tallies)
        estimates = self._learn_by(
            tallies, design, adversarial_fraction=self._setting.adversarial_fraction
        )
        return estimates, tallies

    def _play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        actions, modes = self._decided(users, contexts)
        self._take(users, contexts, actions, answers, np.flatnonzero(modes == EXPLORE))
        return actions

    def _decided(
        self, users: IntArray, contexts: IntArray
    ) -> tuple[IntArray, npt.NDArray[np.int8]]:
        """Return what the plan says, and why."""
        plays = next_plays(self._plays, users)
        rulings = self._decider.decide_many(self._digests[users], contexts, plays)
        return rulings.actions, rulings.modes

    def _take(
        self,
        users: IntArray,
        contexts: IntArray,
        actions: IntArray,
        answers: FloatArray,
        explores: IntArray,
    ) -> None:
        """Take in what explorers say."""
        self._sums.add(
            self._rows(users[explores]),
            contexts[explores],
            actions[explores],
            answers[explores, actions[explores]],
        )

    def _learned(self, policy: Policy, tallies: Tallies) -> None:
        """See what an epoch's end brought; nothing more to do here."""

    def _rows(self, users: IntArray) -> IntArray:
        """Return the rows of the tallies that users write to in this epoch."""
        return users + self.plan.epoch * self._setting.n_users if self._is_sticky else users

    def _end_epoch(self) -> None:
        estimates, tallies = self.learn()
        policy = estimates.policy(
            tallies,
            Labels.numbered(self._setting.n_contexts),
            Labels.numbered(self._setting.n_actions),
            adversarial_fraction=self._setting.adversarial_fraction,
            method=self._method,
        )
        self._learned(policy, tallies)
        self._begin(
            next_plan(
                self.plan,
                policy,
                schedule=self.schedule,
                n_users=self._setting.n_users,
                is_alarmed=shows_coalition(estimates, tallies),
            )
        )

    def _begin(self, plan: EpochPlan) -> None:
        self.plan = plan
        self._decider = Decider(plan, self._secret)
        # The same in all epochs, and cheap next to learning.
        self._digests = self._decider.digests(range(self._setting.n_users))


def explore_then_commit(setting: Setting) -> EpochPlayer:
    """Return the learner that explores ``COMMIT_FACTOR`` times a usual first epoch, and no more."""
    planned = planned_schedule(
        n_users=setting.n_users, n_contexts=setting.n_contexts, n_actions=setting.n_actions
    )
    return EpochPlayer(
        setting, schedule=Schedule(first=COMMIT_FACTOR * planned.first, growth=math.inf)
    )
