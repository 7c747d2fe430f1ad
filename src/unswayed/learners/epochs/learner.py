"""Learning while serving, with labels: decide, observe, and end an epoch when it is time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.events import Events, Label
from unswayed.learners.design import uniform_design
from unswayed.learners.epochs.planning import Schedule, next_plan, planned_schedule, shows_coalition
from unswayed.learners.learning import learn_policy
from unswayed.learners.methods import DEFAULT_METHOD, known_method
from unswayed.learners.online.growing import GrowingLabels
from unswayed.learners.online.open_decisions import MAX_OPEN_DECISIONS, OpenDecisions
from unswayed.names import known_keywords
from unswayed.policy import Decider, EpochPlan, Mode, Policy, Ruling
from unswayed.tallies import Accumulator, LogTallies, merged_logs

#: The action's code in an open decision that is not learned from.
_NOT_EXPLORED = -1


@dataclass(frozen=True, slots=True)
class EpochDecision:
    """What to play, and the id under which its reward is reported."""

    id: str
    ruling: Ruling


@known_keywords(adversarial_fraction="alpha")
class EpochLearner:
    """Serves users by an epoch plan, learns from explorers, and makes the next plan.

    Parameters
    ----------
    plan
        The epoch to serve: ``EpochPlan.start`` for a new campaign, or the last plan of one that was
        stopped.
    secret
        The campaign's secret, the same in all epochs.
    alpha
        The largest share of colluders to withstand.
    method
        What to learn with. Contexts of the plan must not be sticky.
    schedule
        How much is explored in later epochs, and when they end; None plans it by the number of
        users, contexts and actions when the first epoch ends.
    collected
        What explorers of earlier epochs said, from ``collected()`` of the learner that was stopped.

    Notes
    -----
    All there is to a campaign are its secret, its plan and what was collected: with them another
    learner goes on where this one stopped. Contexts that the plan does not know are served by its
    rule for them, and are in the next plan. A reward counts once, however late it comes.

    Examples
    --------
    >>> plan = EpochPlan.start("spring", ["lunch"], ["tea", "soup"], is_sticky=False)
    >>> learner = EpochLearner(plan, bytes(16), alpha=0.1)
    >>> for user in range(200):
    ...     decision = learner.decide(user, "lunch")
    ...     learner.observe(decision.id, {"tea": 0.2, "soup": 0.8}[decision.ruling.action])
    >>> learner.end_epoch().rule("lunch").action
    'soup'
    """

    def __init__(
        self,
        plan: EpochPlan,
        secret: bytes,
        *,
        alpha: float,
        method: str = DEFAULT_METHOD,
        schedule: Schedule | None = None,
        collected: LogTallies | None = None,
        max_open_decisions: int = MAX_OPEN_DECISIONS,
    ) -> None:
        if any(rule.is_sticky for rule in plan.rules):
            raise InputError("the plan is sticky; start it with is_sticky=False to learn from it.")
        if collected is not None and list(collected.action_labels) != list(plan.actions):
            raise InputError(
                "what was collected has other actions than the plan; give that of this campaign."
            )
        self.alpha = check_adversarial_fraction(alpha)
        self.method = known_method(method)
        self.schedule = schedule
        self._secret = secret
        self._before = collected
        self._users, self._contexts = GrowingLabels(), GrowingLabels(plan.contexts)
        self._sums = Accumulator(n_actions=len(plan.actions))
        self._open = OpenDecisions(limit=max_open_decisions)
        self._begin(plan)

    def decide(self, user: Label, context: Label) -> EpochDecision:
        """Return what a user plays in a context, and the id of the decision."""
        # Both are checked before either becomes known.
        users, contexts = self._users.checked([user]), self._contexts.checked([context])
        play = self._plays.get(user, 0)
        ruling = self._decider.decide(user, context, play)
        self._plays[user] = play + 1
        action = _NOT_EXPLORED
        if ruling.mode is Mode.EXPLORE:
            action = self.plan.actions.code(ruling.action)
        codes = (int(self._users.codes(users)[0]), int(self._contexts.codes(contexts)[0]), action)
        return EpochDecision(self._open.add(codes), ruling)

    def observe(self, decision_id: str, reward: float) -> None:
        """Take in the reward of a decision; only explorers' rewards are learned from."""
        (number,) = Events.of([0], [0], [0], [reward]).rewards  # refuses what is not finite
        user, context, action = self._open.find(decision_id)
        if action != _NOT_EXPLORED:
            codes = np.array([[user], [context], [action]])
            self._sums.add(codes[0], codes[1], codes[2], np.array([number]))
        self._open.close(decision_id)

    def collected(self) -> LogTallies:
        """Tallies of all explorers' rewards so far."""
        tallies = self._sums.tallies(n_users=len(self._users), n_contexts=len(self._contexts))
        now = LogTallies(tallies, self._users.labels(), self._contexts.labels(), self.plan.actions)
        parts = [now] if self._before is None else [self._before, now]
        # Also of one part: labels get an order that does not depend on where a campaign stopped.
        return merged_logs(parts, action_labels=self.plan.actions)

    @property
    def age(self) -> float:
        """Decisions per user in this epoch, for comparison with ``schedule.length``."""
        return sum(self._plays.values()) / len(self._plays) if self._plays else 0.0

    def learn(self) -> tuple[Policy, bool]:
        """Learn from the explorers' plays so far; also return whether a coalition was found."""
        collected = self.collected()
        learned = learn_policy(
            collected.tallies,
            uniform_design(collected.tallies),
            collected.context_labels,
            collected.action_labels,
            alpha=self.alpha,
            method=self.method,
            certify="none",
        )
        return learned.policy, shows_coalition(learned.estimates, collected.tallies)

    def end_epoch(self) -> EpochPlan:
        """Learn from what was collected, begin the next epoch, and return its plan."""
        policy, is_alarmed = self.learn()
        n_users = len(self.collected().user_labels)
        schedule = self.schedule or planned_schedule(
            n_users=n_users,
            n_contexts=len(policy.context_labels),
            n_actions=len(policy.action_labels),
        )
        if math.isinf(schedule.length(self.plan.epoch + 1)):
            raise InputError("the schedule has no further epoch; this policy is final.")
        self.schedule = schedule
        self._begin(
            next_plan(self.plan, policy, schedule=schedule, n_users=n_users, is_alarmed=is_alarmed)
        )
        return self.plan

    def _begin(self, plan: EpochPlan) -> None:
        self.plan = plan
        self._decider = Decider(plan, self._secret)
        self._plays: dict[Label, int] = {}
