"""All learners that can play in the arena, by their names on the command line."""

from __future__ import annotations

from functools import partial

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.events import Labels
from unswayed.learners.baselines import BASELINES
from unswayed.learners.design import uniform_design
from unswayed.learners.epochs import next_plan, planned_schedule, shows_coalition
from unswayed.learners.estimates import Estimates
from unswayed.learners.exploration import Exploration, next_plays
from unswayed.learners.interface import LearnerMaker, LearnerSpec, Setting, decided_shares
from unswayed.learners.methods import DEFAULT_METHOD, METHODS, Method, method_named, method_names
from unswayed.learners.paper import learn_paper
from unswayed.policy import Assignment, Decider, EpochPlan, Mode
from unswayed.policy.assignment import SECRET_BYTES
from unswayed.tallies import Accumulator, Tallies, tally


class EpochPlayer:
    """Follows an epoch plan: explores, learns at the end of every epoch and serves the policy.

    The default method learns from exploring plays only, over all epochs: their actions were drawn
    at random, and users cannot choose to explore.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.schedule = planned_schedule(
            n_users=setting.n_users, n_contexts=setting.n_contexts, n_actions=setting.n_actions
        )
        self._secret = setting.rng.bytes(SECRET_BYTES)
        self._sums = Accumulator(n_actions=setting.n_actions)
        self._n_played = 0
        self._plays = np.zeros(setting.n_users, np.int64)
        contexts, actions = range(setting.n_contexts), range(setting.n_actions)
        self._begin(EpochPlan.start("arena", contexts, actions, is_sticky=False, is_spread=True))

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        actions = np.empty(len(users), np.int64)
        start = 0
        while start < len(users):
            left = self.schedule.end(self.plan.epoch) * self._setting.n_users - self._n_played
            end = int(min(start + left, len(users)))
            batch = slice(start, end)
            actions[batch] = self._play(users[batch], contexts[batch], outcomes[batch])
            start = end
            self._n_played += batch.stop - batch.start
            if end - batch.start == left:
                self._end_epoch()
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Return the served policy; in epoch 0, the policy learned so far. See ``Learner``."""
        if self.plan.epoch == 0:
            return decided_shares(self._learn()[0])
        return np.eye(self._setting.n_actions)[[int(rule.action) for rule in self.plan.rules]]

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play one batch within an epoch, and record the rewards of exploring plays."""
        plays = next_plays(self._plays, users)
        places = self._decider.places_of(self._digests[users], contexts, plays)
        actions = self._actions[places]
        explores = np.flatnonzero(self._is_exploring[places])
        rewards = outcomes[explores, actions[explores]]
        self._sums.add(users[explores], contexts[explores], actions[explores], rewards)
        return actions

    def _learn(self) -> tuple[Estimates, Tallies]:
        """Learn from the exploring plays so far."""
        setting = self._setting
        tallies = self._sums.tallies(n_users=setting.n_users, n_contexts=setting.n_contexts)
        learn = method_named(DEFAULT_METHOD)
        return learn(tallies, uniform_design(tallies), alpha=setting.alpha), tallies

    def _end_epoch(self) -> None:
        estimates, tallies = self._learn()
        numbered = (Labels.numbered(tallies.n_contexts), Labels.numbered(tallies.n_actions))
        labelled = tallies.labelled(tallies.user_labels, *numbered)
        policy = estimates.policy(labelled, alpha=self._setting.alpha, method=DEFAULT_METHOD)
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
        # Digests are the same in all epochs; recomputing them is cheap compared with learning.
        self._digests = self._decider.digests(range(self._setting.n_users))
        ruled = self._decider.ruled
        self._actions = np.array([plan.actions.code(ruling.action) for ruling in ruled])
        self._is_exploring = np.array([ruling.mode is Mode.EXPLORE for ruling in ruled])


# Ours: share of plays used for T₀ if S > A; the theorem requires T₀ of the order of T
WARMUP_SHARE = 0.2


class _OneMethod:
    """Recommends the policy that one method learns from all plays so far."""

    def __init__(self, setting: Setting, method: Method) -> None:
        self._setting = setting
        self._method = method

    def learn(self) -> Estimates:
        raise NotImplementedError

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        return decided_shares(self.learn())


class Explorer(_OneMethod):
    """Plays by keyed assignment; learns with one method when it has to recommend.

    ``is_split`` selects the frequent contexts by ``split_contexts``.
    """

    def __init__(self, setting: Setting, method: Method, *, is_split: bool = False) -> None:
        super().__init__(setting, method)
        n_interactions = setting.n_users * setting.interactions_per_user
        needs_warmup = setting.n_contexts > setting.n_actions
        self._exploration = Exploration(
            n_actions=setting.n_actions,
            contexts=range(setting.n_contexts),
            assignment=Assignment(secret=setting.rng.bytes(SECRET_BYTES)),
            warmup_interactions=round(WARMUP_SHARE * n_interactions) if needs_warmup else 0,
            alpha=setting.alpha,
            is_split=is_split,
        )
        self._exploration.add_users(range(setting.n_users))

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        actions = np.empty(len(users), np.int64)
        start = 0
        while start < len(users):
            # A batch ends with the warm-up, where the frequent contexts are fixed.
            end = min(start + (self._exploration.warmup_left or len(users)), len(users))
            batch = slice(start, end)
            actions[batch] = self._exploration.decide(users[batch], contexts[batch])
            rewards = outcomes[np.arange(start, end), actions[batch]]
            self._exploration.observe(users[batch], contexts[batch], actions[batch], rewards)
            start = end
        return actions

    def learn(self) -> Estimates:
        tallies, design, warmup = self._exploration.observed()
        return self._method(tallies, design, alpha=self._setting.alpha, warmup=warmup)


EPSILON = 0.2  # Ours: share of uniform plays, as is usual in production systems


class LogLearner(_OneMethod):
    """Learns with one method from a log with propensities that another policy collected.

    The log is collected by the pooled mean: with probability epsilon a play is uniform, otherwise
    it is the action with the largest mean reward so far in its context, over all users. Means are
    updated after each round of arrivals, as in systems that train daily.
    """

    def __init__(self, setting: Setting, method: Method, epsilon: float = EPSILON) -> None:
        super().__init__(setting, method)
        self._epsilon = epsilon
        shape = (setting.n_contexts, setting.n_actions)
        self._sums, self._counts = np.zeros(shape), np.zeros(shape)
        self._log: list[tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]] = []

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        n_actions, rng = self._setting.n_actions, self._setting.rng
        means = np.divide(
            self._sums, self._counts, where=self._counts > 0, out=np.zeros(self._sums.shape)
        )
        greedy = means.argmax(axis=1)[contexts]
        is_uniform = rng.random(len(users)) < self._epsilon
        actions = np.where(is_uniform, rng.integers(n_actions, size=len(users)), greedy)
        uniform = self._epsilon / n_actions
        propensities = uniform + (1.0 - self._epsilon) * (actions == greedy)
        rewards = outcomes[np.arange(len(users)), actions]
        np.add.at(self._sums, (contexts, actions), rewards)
        np.add.at(self._counts, (contexts, actions), 1.0)
        self._log.append((users, contexts, actions, rewards, 1.0 / (n_actions * propensities)))
        return actions

    def learn(self) -> Estimates:
        setting = self._setting
        *columns, weights = map(np.concatenate, zip(*self._log, strict=True))
        tallies = tally(
            *columns,
            n_users=setting.n_users,
            n_contexts=setting.n_contexts,
            n_actions=setting.n_actions,
            weights=weights,
        )
        return self._method(tallies, uniform_design(tallies), alpha=setting.alpha)


_VARIANTS: dict[str, LearnerMaker] = {
    # Robust MCB with the means per visit of Section 3.1
    "paper-per-visit": partial(Explorer, method=partial(learn_paper, per_visit=True)),
    "epochs": EpochPlayer,
}


def learner_specs() -> dict[str, LearnerSpec]:
    """Return all learners by name: methods (online, on a log, in epochs) and baselines.

    The mapping is built at each call, so it includes methods and baselines registered later.
    """
    methods = {name: METHODS[name] for name in method_names()}
    makers: dict[str, LearnerMaker] = {
        **{
            name: partial(Explorer, method=method, is_split=name == "paper")
            for name, method in methods.items()
        },
        **{
            f"{name}-on-log": partial(LogLearner, method=method) for name, method in methods.items()
        },
        **_VARIANTS,
    }
    return {name: LearnerSpec(name=name, make=make) for name, make in makers.items()} | BASELINES
