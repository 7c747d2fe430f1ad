"""The learner people use: decide and observe online, or fit a log; labels in, a policy out."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unswayed.errors import InputError
from unswayed.events import Events, Label, Labels
from unswayed.learners.decisions import MAX_OPEN_DECISIONS, OpenDecision, OpenDecisions
from unswayed.learners.design import Design, DesignName, design_of_log
from unswayed.learners.estimates import Estimates
from unswayed.learners.exploration import Exploration
from unswayed.learners.flip_bounds import FlipBounds
from unswayed.learners.flip_fraction import Certify, check_certify
from unswayed.learners.growing import GrowingLabels
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.learners.learning import check_actions, learn_policy
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.unknown_fraction import (
    SEARCHED_FRACTION,
    Auto,
    UnknownFraction,
    check_fraction_or_auto,
)
from unswayed.policy import Assignment, Policy, new_secret
from unswayed.tallies import LabelledTallies, Tallies, tally_events


class RobustMCB:
    """Robust multitask contextual bandit: the policy that is best for the good users.

    Either online, ``decide`` → ``observe`` → ``policy``, or on a log, ``fit`` → ``predict``. Both
    end in the same estimation from the same tallies.

    Parameters
    ----------
    adversarial_fraction
        The share of users that may collude, α < 1/2. Overstate rather than understate it. "auto"
        takes an upper estimate from the data; see ``unswayed.learners.unknown_fraction`` for what
        it cannot know.
    method
        How to learn: "discount", the default, finds coalitions and discounts them; "paper" is the
        paper's. See ``unswayed.learners.methods``.
    actions
        Labels of the actions. Needed online; on a log, names actions beyond those that occur.
    contexts
        Labels of the contexts known beforehand; others may turn up later.
    warmup_interactions
        Online only: interactions spent on context probabilities before the frequent contexts are
        fixed (T₀ of Algorithm 1). Needed only with more contexts than actions.
    secret
        16 bytes that key the assignment of actions; drawn afresh if not given. Keep it to check
        decisions later.
    certify
        How much to find out about each decision's flip fraction: "none", "bounds" without learning
        again, or "attack", which learns many times; see ``unswayed.learners.flip_fraction``.

    max_open_decisions
        Online only: how many decisions of ``decide_once`` may wait for their reward; beyond that
        the oldest are forgotten.

    Notes
    -----
    Every method may be called from several threads. One lock guards what ``decide`` and ``observe``
    change; ``policy`` holds it only while it collects what was observed, and learns without it.
    `docs/reliability.md` says what the lock costs. A request that is refused changes nothing.

    Attributes
    ----------
    policy_
        The learned ``Policy``.
    estimates_
        All that was estimated, with user weights and evidence.
    mean_rewards_, context_probabilities_, frequent_contexts_, user_weights_
        Shortcuts into ``estimates_``.
    unknown_fraction_
        How the share was chosen; None if it was given.
    flip_bounds_
        How many accounts each decision withstands, and on what that rests; None if not asked for.
    context_labels_, action_labels_, user_labels_
        What the rows and columns of these arrays stand for.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> users, actions = np.arange(600), rng.integers(2, size=600)
    >>> rewards = np.where(actions == 1, 0.8, 0.2) + 0.1 * rng.standard_normal(600)
    >>> rewards[:60] = np.where(actions[:60] == 1, -50.0, 50.0)  # the coalition
    >>> log = Events.of(users, ["home"] * 600, actions, rewards)
    >>> RobustMCB(adversarial_fraction=0.1).fit(log).predict(["home"])
    [1]
    """

    policy_: Policy
    estimates_: Estimates
    flip_bounds_: FlipBounds | None
    unknown_fraction_: UnknownFraction | None
    _user_labels: Labels

    def __init__(
        self,
        adversarial_fraction: float | Auto = 0.1,
        *,
        method: str = DEFAULT_METHOD,
        actions: Sequence[Label] | None = None,
        contexts: Sequence[Label] = (),
        warmup_interactions: int = 0,
        secret: bytes | None = None,
        certify: Certify = "bounds",
        max_open_decisions: int = MAX_OPEN_DECISIONS,
    ) -> None:
        self.adversarial_fraction = check_fraction_or_auto(adversarial_fraction)
        self.method = method
        method_named(method)  # a wrong name is told at once
        self.certify = check_certify(certify)
        self._actions = None if actions is None else Labels.of(actions)
        if self._actions is not None:
            check_actions(len(self._actions))
        self._action_names = () if self._actions is None else tuple(self._actions)
        self._declared_contexts = Labels.of(contexts)
        if warmup_interactions < 0:
            raise InputError(f"warmup_interactions is {warmup_interactions}; it counts plays.")
        self._warmup_interactions = warmup_interactions
        self._assignment = Assignment(secret=new_secret() if secret is None else secret)
        self._exploration: Exploration | None = None
        self._users = GrowingLabels()
        self._contexts = GrowingLabels(self._declared_contexts)
        self._open = OpenDecisions(limit=max_open_decisions)
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    # Online

    def decide(self, user: Label, context: Label) -> Label:
        """Return the action to play for a user in a context."""
        user_code, context_code = self._users.known(user), self._contexts.known(context)
        if user_code is not None and context_code is not None:
            with self._lock:
                exploration = self._exploration
                # Codes that an earlier call was stopped short of telling it are told below.
                if exploration is not None and exploration.knows(user_code, context_code):
                    return self._action_names[exploration.decide_one(user_code, context_code)]
        return self.decide_many([user], [context])[0]

    def decide_many(self, users: Sequence[Label], contexts: Sequence[Label]) -> list[Label]:
        """Return the actions to play for arrivals, in order."""
        with self._lock:
            exploration, user_codes, context_codes = self._explore(users, contexts)
            chosen = exploration.decide(user_codes, context_codes)
        actions: list[Label] = self._action_labels().values[chosen].tolist()
        return actions

    def decide_once(self, user: Label, context: Label) -> OpenDecision:
        """Return the action to play and the id under which ``observe_once`` takes its reward."""
        with self._lock:
            exploration, users, contexts = self._explore([user], [context])
            action = int(exploration.decide(users, contexts)[0])
            decision_id = self._open.add((int(users[0]), int(contexts[0]), action))
        return OpenDecision(decision_id, self._action_labels()[action])

    def observe_once(self, decision_id: str, reward: float) -> None:
        """Take in the reward of a decision of ``decide_once``.

        Every decision counts at most once, and nothing counts that was not decided: an id that was
        never given out, or whose reward is in already, is refused.
        """
        (number,) = Events.of([0], [0], [0], [reward]).rewards  # refuses what is not finite
        with self._lock:
            codes = self._open.find(decision_id)
            assert self._exploration is not None
            user, context, action = (np.array([code]) for code in codes)
            self._exploration.observe(user, context, action, np.array([number]))
            self._open.close(decision_id)

    def observe(self, user: Label, context: Label, action: Label, reward: float) -> None:
        """Take in the reward of one play.

        Every call counts: a reward reported twice counts twice. In a frequent context an action
        that the user is never asked to play is refused, or counts as a play of the warm-up; in
        other contexts any action may have been decided, so all are taken. Where callers cannot be
        trusted to report each decision once, use ``decide_once`` and ``observe_once``.
        """
        self.observe_many([user], [context], [action], [reward])

    def observe_many(
        self,
        users: Sequence[Label],
        contexts: Sequence[Label],
        actions: Sequence[Label],
        rewards: Sequence[float] | FloatArray,
    ) -> None:
        """Take in the rewards of many plays; nothing is kept if one of the rows is bad."""
        events = Events.of(
            users, contexts, actions, rewards, action_labels=list(self._action_labels())
        )
        with self._lock:
            exploration, user_codes, context_codes = self._explore(users, contexts)
            exploration.observe(
                user_codes, context_codes, events.actions.astype(np.int64), events.rewards
            )

    def policy(self) -> Policy:
        """Learn from everything observed so far."""
        with self._lock:
            if self._exploration is None:
                raise InputError("nothing was observed yet; call decide and observe first.")
            tallies, design, warmup = self._exploration.collected()
            users, contexts = self._users.labels(), self._contexts.labels()
        return self._learn(tallies, design, users, contexts, self._action_labels(), warmup=warmup)

    # On a log

    def fit(self, log: Events | LabelledTallies, *, design: DesignName = "auto") -> RobustMCB:
        """Learn from a log.

        Parameters
        ----------
        log
            Events, or the tallies of one log or several. Actions were chosen uniformly, per play
            or once per user and context, or come with propensities.
        design
            "sticky" if every user always got the same action in a context, "uniform" if each play
            was drawn anew, "auto" to read it off the log.
        """
        labelled = log if isinstance(log, LabelledTallies) else tally_events(log)
        if self._actions is not None:
            labelled = labelled.with_actions(self._actions)
        tallies = labelled.in_blocks().uniform()
        self._learn(
            tallies,
            design_of_log(tallies, design),
            labelled.user_labels,
            labelled.context_labels,
            labelled.action_labels,
        )
        return self

    def predict(self, contexts: Iterable[Label]) -> list[Label]:
        """Return the learned action of each context; unknown contexts get the default action."""
        return self._fitted().decide_many(contexts)[0]

    def predict_expectations(self, contexts: Iterable[Label]) -> FloatArray:
        """Return mean rewards, shape (n, n_actions); NaN for what was not learned."""
        policy = self._fitted()
        table = np.vstack([policy.mean_rewards, np.full(len(policy.action_labels), np.nan)])
        return table[policy.context_labels.codes(contexts)]

    # Fitted state

    @property
    def mean_rewards_(self) -> FloatArray:
        """Estimated mean rewards; shape (n_contexts, n_actions)."""
        return self._fitted().mean_rewards

    @property
    def context_probabilities_(self) -> FloatArray:
        """Estimated context probabilities; shape (n_contexts,)."""
        return self._fitted().context_probabilities

    @property
    def frequent_contexts_(self) -> list[Label]:
        """Labels of S₊."""
        is_frequent = self.estimates_.frequent_contexts
        return [label for label, yes in zip(self.context_labels_, is_frequent, strict=True) if yes]

    @property
    def user_weights_(self) -> FloatArray:
        """How much of each user was kept, in [0, 1]; shape (n_users,)."""
        self._fitted()
        return self.estimates_.user_weights

    @property
    def context_labels_(self) -> Labels:
        """The contexts, in the order of the arrays."""
        return self._fitted().context_labels

    @property
    def action_labels_(self) -> Labels:
        """The actions, in the order of the arrays."""
        return self._fitted().action_labels

    @property
    def user_labels_(self) -> Labels:
        """The users, in the order of ``user_weights_``."""
        self._fitted()
        return self._user_labels

    def _learn(
        self,
        tallies: Tallies,
        design: Design,
        user_labels: Labels,
        context_labels: Labels,
        action_labels: Labels,
        *,
        warmup: Tallies | None = None,
    ) -> Policy:
        learned = learn_policy(
            tallies,
            design,
            context_labels,
            action_labels,
            adversarial_fraction=self.adversarial_fraction,
            method=self.method,
            certify=self.certify,
            warmup=warmup,
        )
        with self._lock:  # all of one learning, or all of another
            self.policy_, self.estimates_ = learned.policy, learned.estimates
            self.flip_bounds_, self.unknown_fraction_ = learned.flips, learned.unknown_fraction
            self._user_labels = user_labels
        return learned.policy

    def _fitted(self) -> Policy:
        if not hasattr(self, "policy_"):
            raise InputError("nothing was learned yet; call fit(events) or policy() first.")
        return self.policy_

    def _action_labels(self) -> Labels:
        if self._actions is None:
            raise InputError("to decide online, give the labels of the actions: actions=[…].")
        return self._actions

    def _explore(
        self, users: Sequence[Label], contexts: Sequence[Label]
    ) -> tuple[Exploration, IntArray, IntArray]:
        """Return the exploration and the codes of users and contexts, all known to it."""
        if len(users) != len(contexts):
            raise InputError(f"{len(users)} users but {len(contexts)} contexts; give one for each.")
        # All labels are checked before any of them becomes known.
        users, contexts = self._users.checked(users), self._contexts.checked(contexts)
        if self._exploration is None:
            self._exploration = Exploration(
                n_actions=len(self._action_labels()),
                contexts=self._declared_contexts,
                assignment=self._assignment,
                warmup_interactions=self._warmup_interactions,
                # Nothing was seen yet from which to estimate a share.
                adversarial_fraction=(
                    SEARCHED_FRACTION
                    if self.adversarial_fraction == "auto"
                    else self.adversarial_fraction
                ),
            )
        user_codes, context_codes = self._users.codes(users), self._contexts.codes(contexts)
        # Counted by what the exploration knows: codes and digests stay aligned even when an earlier
        # call was stopped between the two.
        self._exploration.add_users(self._users.since(self._exploration.n_users))
        self._exploration.add_contexts(self._contexts.since(self._exploration.n_contexts))
        return self._exploration, user_codes, context_codes
