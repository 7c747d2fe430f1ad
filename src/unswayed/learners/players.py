"""Every learner that can play in the arena, by its name on the command line."""

from __future__ import annotations

from functools import partial

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.baselines import BASELINES
from unswayed.learners.design import uniform_design
from unswayed.learners.epochs import (
    EpochPlayer,
    ForgettingEpochPlayer,
    PersonalEpochPlayer,
    explore_then_commit,
)
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import LearnerSpec, Setting, decided_shares
from unswayed.learners.methods import METHODS, Method, method_names
from unswayed.learners.online.exploration import Exploration, FrequentRule, frequent_rule
from unswayed.learners.paper import frequent_contexts, learn_paper
from unswayed.policy import Assignment
from unswayed.policy.assignment import SECRET_BYTES
from unswayed.tallies import tally

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
    frequent
        Which contexts are played sticky once the warm-up is over.
    """

    def __init__(
        self, setting: Setting, method: Method, frequent: FrequentRule = frequent_contexts
    ) -> None:
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
            frequent=frequent,
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

_VARIANTS = (
    LearnerSpec(
        name="paper-per-visit",
        summary="Robust MCB as Section 3.1 reads: trimmed means of users' means per visit",
        make=partial(Explorer, method=partial(learn_paper, per_visit=True)),
    ),
    LearnerSpec(
        name="epochs",
        summary="explores ever less and serves what bounded learned, epoch by epoch",
        make=EpochPlayer,
    ),
    LearnerSpec(
        name="epochs-paper",
        summary="the same with the paper's estimates",
        make=partial(EpochPlayer, method="paper"),
    ),
    LearnerSpec(
        name="epochs-share",
        summary="epochs in which a secret share of the users explores, as the paper has it",
        make=partial(EpochPlayer, is_spread=False),
    ),
    LearnerSpec(
        name="epochs-personal",
        summary="epochs for what users have in common, each user's own plays for the rest",
        make=PersonalEpochPlayer,
    ),
    LearnerSpec(
        name="epochs-forget",
        summary="epochs of bounded length in which older plays count less often",
        make=ForgettingEpochPlayer,
    ),
    LearnerSpec(
        name="explore-then-commit",
        summary="one epoch of exploration, then what bounded learned, for ever",
        make=explore_then_commit,
    ),
)


def learner_specs() -> dict[str, LearnerSpec]:
    """Return every learner by name: the methods, online, on a log and in epochs, and baselines.

    Looked up at each call, so that methods and baselines registered later are among them.
    """
    specs = [_explorer(name, METHODS[name]) for name in method_names()]
    specs += [_log_learner(name, METHODS[name]) for name in method_names()]
    return {spec.name: spec for spec in (*specs, *_VARIANTS, *BASELINES.values())}


def _explorer(name: str, method: Method) -> LearnerSpec:
    summary = _SUMMARIES.get(name) or _first_line(method) or "a method of your own"
    make = partial(Explorer, method=method, frequent=frequent_rule(name))
    return LearnerSpec(name=name, summary=summary, make=make)


def _log_learner(name: str, method: Method) -> LearnerSpec:
    return LearnerSpec(
        name=f"{name}-on-log",
        summary=f"{name}, from the log of an epsilon-greedy system with its propensities",
        make=partial(LogLearner, method=method),
    )


def _first_line(method: Method) -> str:
    return (method.__doc__ or "").strip().partition("\n")[0]
