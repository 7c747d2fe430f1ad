"""Every learner that can play in the arena, by its name on the command line."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.events import Events, Labels
from unswayed.events.thinning import remembered
from unswayed.learners.baselines import BASELINES
from unswayed.learners.design import Design, sticky_design, uniform_design
from unswayed.learners.epochs import Schedule, next_plan, planned_schedule, shows_coalition
from unswayed.learners.estimates import Estimates
from unswayed.learners.exploration import Exploration, next_plays
from unswayed.learners.interface import LearnerMaker, LearnerSpec, Setting, decided_shares
from unswayed.learners.methods import (
    DEFAULT_METHOD,
    METHODS,
    Method,
    known_method,
    method_named,
    method_names,
)
from unswayed.learners.paper import learn_paper
from unswayed.learners.tastes import residuals_of
from unswayed.policy import Assignment, Decider, EpochPlan, Mode, Policy
from unswayed.policy.assignment import SECRET_BYTES
from unswayed.tallies import Accumulator, Tallies, tally, tally_events

#: Ours: length of exploration in first epochs: about as much as epochs explore in 500 interactions.
COMMIT_FACTOR = 4

#: Ours: half-life in interactions per user; docs/epochs.md says what it costs without change.
HALF_LIFE = 64.0

#: Ours: longest epoch in interactions per user: half of the half-life.
LONGEST = 32.0

_EMPTY = np.empty(0, np.int64)

#: Ours: scale of posterior draws relative to the posterior deviation; full-width draws cost more
#: than they find within 500 interactions (docs/epochs.md).
BOLDNESS = 0.25

#: Ours: standard errors by which the variance of tastes must lie above 0.
CLEARLY = 3.0


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
        self._method = known_method(method)
        self._learn_by = method_named(self._method)
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

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see ``Learner.play``."""
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
            return decided_shares(self.learn()[0])
        return np.eye(self._setting.n_actions)[[int(rule.action) for rule in self.plan.rules]]

    def learn(self) -> tuple[Estimates, Tallies]:
        """Learn from explorers' plays so far."""
        tallies = self._tallies()
        design: Design = sticky_design(tallies) if self._is_sticky else uniform_design(tallies)
        estimates = self._learn_by(tallies, design, alpha=self._setting.alpha)
        return estimates, tallies

    def _tallies(self) -> Tallies:
        """Return all explorers' plays so far."""
        n_epochs = self.plan.epoch + 1 if self._is_sticky else 1
        return self._sums.tallies(
            n_users=n_epochs * self._setting.n_users, n_contexts=self._setting.n_contexts
        )

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play one batch within an epoch, and record explorers' rewards."""
        actions, explores = self._decided(users, contexts)
        rewards = outcomes[np.arange(len(users)), actions]
        self._take(users[explores], contexts[explores], actions[explores], rewards[explores])
        return actions

    def _decided(self, users: IntArray, contexts: IntArray) -> tuple[IntArray, BoolArray]:
        """Apply the plan: actions, and whether each decision explores."""
        plays = next_plays(self._plays, users)
        places = self._decider.places_of(self._digests[users], contexts, plays)
        return self._actions[places], self._is_exploring[places]

    def _take(
        self, users: IntArray, contexts: IntArray, actions: IntArray, rewards: FloatArray
    ) -> None:
        """Record explorers' plays."""
        self._sums.add(self._rows(users), contexts, actions, rewards)

    def _learned(self, policy: Policy, tallies: Tallies) -> None:
        """Do nothing; a hook for subclasses at the end of an epoch."""

    def _rows(self, users: IntArray) -> IntArray:
        """Return the users' rows in the tallies of this epoch."""
        return users + self.plan.epoch * self._setting.n_users if self._is_sticky else users

    def _end_epoch(self) -> None:
        estimates, tallies = self.learn()
        numbered = (Labels.numbered(tallies.n_contexts), Labels.numbered(tallies.n_actions))
        labelled = tallies.labelled(tallies.user_labels, *numbered)
        policy = estimates.policy(labelled, alpha=self._setting.alpha, method=self._method)
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
        ruled = self._decider.ruled
        self._actions = np.array([plan.actions.code(ruling.action) for ruling in ruled])
        self._is_exploring = np.array([ruling.mode is Mode.EXPLORE for ruling in ruled])


def explore_then_commit(setting: Setting) -> EpochPlayer:
    """Return the learner that explores ``COMMIT_FACTOR`` times a usual first epoch, and no more."""
    planned = planned_schedule(
        n_users=setting.n_users, n_contexts=setting.n_contexts, n_actions=setting.n_actions
    )
    return EpochPlayer(
        setting, schedule=Schedule(first=COMMIT_FACTOR * planned.first, growth=math.inf)
    )


class ForgettingEpochPlayer(EpochPlayer):
    """Epochs of bounded length that forget half of the plays with each half-life.

    Parameters
    ----------
    setting
        As for ``EpochPlayer``.
    half_life
        In interactions per user.
    """

    def __init__(self, setting: Setting, *, half_life: float = HALF_LIFE) -> None:
        planned = planned_schedule(
            n_users=setting.n_users, n_contexts=setting.n_contexts, n_actions=setting.n_actions
        )
        super().__init__(setting, schedule=replace(planned, longest=LONGEST))
        self._half_life = half_life
        self._events = Events(
            _EMPTY,
            _EMPTY,
            _EMPTY,
            np.empty(0),
            Labels.numbered(setting.n_users),
            Labels.numbered(setting.n_contexts),
            Labels.numbered(setting.n_actions),
            times=np.empty(0),
        )
        self._taken: list[tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]] = []

    def _take(
        self, users: IntArray, contexts: IntArray, actions: IntArray, rewards: FloatArray
    ) -> None:
        """Record explorers' plays with the age of the campaign."""
        ages = np.full(len(users), self._n_played / self._setting.n_users)
        self._taken.append((users, contexts, actions, rewards, ages))

    def _tallies(self) -> Tallies:
        """Return the explorers' plays that are not forgotten."""
        columns = [np.concatenate(column) for column in zip(*self._taken, strict=True)]
        users, contexts, actions, rewards, times = columns
        events = replace(
            self._events,
            users=users,
            contexts=contexts,
            actions=actions,
            rewards=rewards,
            times=times,
        )
        kept = events.rows(remembered(events, half_life=self._half_life))
        return tally_events(kept)


class PersonalEpochPlayer(EpochPlayer):
    """Epochs for the common means, Thompson sampling for each user's own taste.

    After each epoch the variance tau² of tastes is estimated: by how much users' means vary around
    the common ones beyond noise, as a trimmed mean over users. If tau is not clearly above 0, the
    common policy is played. Otherwise a user's mean rewards have a normal prior with the common
    means and variance tau², and a draw from the posterior given the user's own plays decides.

    A coalition enters through the common means, which are robust, and through tau, which is
    trimmed; the plays of a user depend on nobody else's.

    Parameters
    ----------
    setting
        As for ``EpochPlayer``.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        shape = (setting.n_users, setting.n_contexts, setting.n_actions)
        self._own_sums, self._own_counts = np.zeros(shape), np.zeros(shape)
        self.taste, self.noise = 0.0, 1.0
        self._common = np.zeros(shape[1:])

    def _play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        actions = super()._play(users, contexts, outcomes)
        rewards = outcomes[np.arange(len(users)), actions]
        np.add.at(self._own_sums, (users, contexts, actions), rewards)
        np.add.at(self._own_counts, (users, contexts, actions), 1.0)
        return actions

    def _decided(self, users: IntArray, contexts: IntArray) -> tuple[IntArray, BoolArray]:
        """Apply the plan, or a draw from each user's own posterior where it does not explore."""
        actions, explores = super()._decided(users, contexts)
        if self.taste > 0.0:
            own = np.flatnonzero(~explores)
            actions[own] = self._sampled(users[own], contexts[own])
        return actions, explores

    def _sampled(self, users: IntArray, contexts: IntArray) -> IntArray:
        """Return one draw of Thompson sampling for each arrival; shape (n,)."""
        counts, sums = self._own_counts[users, contexts], self._own_sums[users, contexts]
        variances = 1.0 / (1.0 / self.taste**2 + counts / self.noise**2)
        means = variances * (self._common[contexts] / self.taste**2 + sums / self.noise**2)
        draws = means + BOLDNESS * np.sqrt(variances) * self._setting.rng.standard_normal(
            means.shape
        )
        best: IntArray = draws.argmax(axis=1)
        return best

    def _learned(self, policy: Policy, tallies: Tallies) -> None:
        """Estimate tau and the noise anew."""
        alpha, mean_rewards = self._setting.alpha, policy.capped_means
        assert policy.sampling_errors is not None  # every method gives them
        self._common = np.where(np.isnan(mean_rewards), -np.inf, mean_rewards)
        if not (tallies.plays > 1).any():
            return
        found = residuals_of(tallies, mean_rewards, alpha=alpha)
        self.noise = found.noise
        counts = self._own_counts
        known = (counts > 0) & np.isfinite(mean_rewards)
        values = np.divide(self._own_sums, counts, where=known, out=np.zeros(counts.shape))
        # E[n d² − σ²] = n (τ² + v) for n plays of a cell whose common mean has variance v, so the
        # ratio of sums over a user estimates τ². Half-widths exceed deviations, which is prudent.
        common = counts * np.where(known, policy.sampling_errors, 0.0) ** 2
        differences = np.where(known, values - np.where(known, mean_rewards, 0.0), 0.0)
        excess = (counts * differences**2 - known * self.noise**2 - common).sum(axis=(1, 2))
        plays = (counts * known).sum(axis=(1, 2))
        of_users = excess[plays > 0] / plays[plays > 0]
        # Only the top is trimmed: that errs towards the common policy, colluders or not.
        of_users = of_users[of_users <= np.quantile(of_users, 1.0 - alpha)]
        variance = float(of_users.mean())
        chance = float(of_users.std() / np.sqrt(len(of_users)))
        self.taste = float(np.sqrt(variance)) if variance > CLEARLY * chance else 0.0


#: Ours. Share of all interactions spent on context probabilities when S > A; the theorem asks for
#: T₀ of the order of T.
WARMUP_SHARE = 0.2


class Explorer:
    """Plays by keyed assignment and learns with one method when asked to recommend.

    Parameters
    ----------
    setting
        Numbers of users, contexts and actions, the believed share of colluders, randomness.
    method
        What to learn with.
    is_split
        Whether the frequent contexts are chosen by ``split_contexts``.
    """

    def __init__(self, setting: Setting, method: Method, *, is_split: bool = False) -> None:
        self._setting = setting
        self._method = method
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
        """Play arrivals; see ``Learner.play``."""
        actions = np.empty(len(users), np.int64)
        start = 0
        while start < len(users):
            # The frequent contexts are fixed at the very arrival at which the warm-up ends.
            end = min(start + (self._exploration.warmup_left or len(users)), len(users))
            batch = slice(start, end)
            actions[batch] = self._exploration.decide(users[batch], contexts[batch])
            rewards = outcomes[np.arange(start, end), actions[batch]]
            self._exploration.observe(users[batch], contexts[batch], actions[batch], rewards)
            start = end
        return actions

    def learn(self) -> Estimates:
        """Learn from everything played so far."""
        tallies, design, warmup = self._exploration.observed()
        return self._method(
            tallies,
            design,
            alpha=self._setting.alpha,
            warmup=warmup,
        )

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Return the learned policy; see ``Learner.action_probabilities``."""
        return decided_shares(self.learn())


EPSILON = 0.2
"""Ours: share of plays that are uniform over the actions, as production systems have it."""


class LogLearner:
    """Learns with one method from a log with propensities, whose plays it did not choose.

    The log is made by the pooled mean: with probability epsilon a play is uniform, else it is the
    action with the largest mean reward so far in its context, everybody's rewards counted. Means
    are brought up to date after each round of arrivals, as in systems that are trained daily.

    Parameters
    ----------
    setting
        Numbers of users, contexts and actions, the believed share of colluders, randomness.
    method
        What to learn with.
    epsilon
        Share of the plays that are uniform.
    """

    def __init__(self, setting: Setting, method: Method, epsilon: float = EPSILON) -> None:
        self._setting = setting
        self._method = method
        self._epsilon = epsilon
        shape = (setting.n_contexts, setting.n_actions)
        self._sums, self._counts = np.zeros(shape), np.zeros(shape)
        self._log: list[tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]] = []

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play arrivals; see ``Learner.play``."""
        n_actions, rng = self._setting.n_actions, self._setting.rng
        means = np.divide(
            self._sums, self._counts, where=self._counts > 0, out=np.zeros(self._sums.shape)
        )
        greedy = means.argmax(axis=1)[contexts]
        is_uniform = rng.random(len(users)) < self._epsilon
        actions = np.where(is_uniform, rng.integers(n_actions, size=len(users)), greedy)
        epsilon = self._epsilon
        propensities = epsilon / n_actions + (1.0 - epsilon) * (actions == greedy)
        rewards = outcomes[np.arange(len(users)), actions]
        np.add.at(self._sums, (contexts, actions), rewards)
        np.add.at(self._counts, (contexts, actions), 1.0)
        self._log.append((users, contexts, actions, rewards, 1.0 / (n_actions * propensities)))
        return actions

    def learn(self) -> Estimates:
        """Learn from the log so far."""
        users, contexts, actions, rewards, weights = (
            np.concatenate(column) for column in zip(*self._log, strict=True)
        )
        tallies = tally(
            users,
            contexts,
            actions,
            rewards,
            n_users=self._setting.n_users,
            n_contexts=self._setting.n_contexts,
            n_actions=self._setting.n_actions,
            weights=weights,
        )
        return self._method(
            tallies,
            uniform_design(tallies),
            alpha=self._setting.alpha,
        )

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - one policy for all
        """Return the learned policy; see ``Learner.action_probabilities``."""
        return decided_shares(self.learn())


_SUMMARIES = {
    "paper": "Robust MCB: trimmed means for frequent contexts, a spectral filter for rare ones",
    "paper-literal": "Robust MCB as printed: trimmed means for the A most frequent contexts",
    "bounded": "bounds every account, takes out coalitions, decides by the smallest regret",
}

_PER_VISIT = partial(learn_paper, per_visit=True)

_VARIANTS: tuple[tuple[str, LearnerMaker, str], ...] = (
    ("paper-per-visit", partial(Explorer, method=_PER_VISIT), "Robust MCB as in Section 3.1"),
    ("epochs", EpochPlayer, "explores ever less and serves what bounded learned, epoch by epoch"),
    ("epochs-paper", partial(EpochPlayer, method="paper"), "epochs with the paper's estimates"),
    ("epochs-share", partial(EpochPlayer, is_spread=False), "a share of users explores an epoch"),
    ("epochs-personal", PersonalEpochPlayer, "epochs, with Thompson sampling of users' tastes"),
    ("epochs-forget", ForgettingEpochPlayer, "epochs of bounded length that forget older plays"),
    ("explore-then-commit", explore_then_commit, "one epoch of exploration, then its policy"),
)


def learner_specs() -> dict[str, LearnerSpec]:
    """Return every learner by name: the methods, online, on a log and in epochs, and baselines.

    Looked up at each call, so that methods and baselines registered later are among them.
    """
    online: list[tuple[str, LearnerMaker, str]] = []
    on_logs: list[tuple[str, LearnerMaker, str]] = []
    for name in method_names():
        method = METHODS[name]
        first_line = (method.__doc__ or "").strip().partition("\n")[0]
        summary = _SUMMARIES.get(name) or first_line or "a method of your own"
        explorer = partial(Explorer, method=method, is_split=name == "paper")
        online.append((name, explorer, summary))
        summary = f"{name}, from the log of an epsilon-greedy system with its propensities"
        on_logs.append((f"{name}-on-log", partial(LogLearner, method=method), summary))
    specs = {
        name: LearnerSpec(name=name, summary=summary, make=make)
        for name, make, summary in (*online, *on_logs, *_VARIANTS)
    }
    return specs | BASELINES
