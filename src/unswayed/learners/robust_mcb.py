"""The learner people use: decide and observe online, or fit a log; labels in, a policy out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, Literal, get_args

import numpy as np

from unswayed.errors import InputError
from unswayed.events import (
    UNKNOWN,
    Columns,
    Events,
    Label,
    Labels,
    OnBadRows,
    check_list,
    read_events,
)
from unswayed.events.sources import Source
from unswayed.learners.decisions import MAX_OPEN_DECISIONS, OpenDecision, OpenDecisions
from unswayed.learners.design import Design, DesignName, design_of_log
from unswayed.learners.exploration import Exploration
from unswayed.learners.fitted import Fitted
from unswayed.learners.flip_fraction import Certify, check_certify
from unswayed.learners.growing import GrowingLabels, check_storable
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.learners.learning import check_actions, learn_policy
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.saved import (
    SavedLearner,
    damaged_learner,
    read_learner,
    write_learner,
)
from unswayed.learners.unknown_fraction import (
    SEARCHED_FRACTION,
    Auto,
    check_fraction_or_auto,
)
from unswayed.policy import Assignment, Policy, new_secret
from unswayed.tallies import LogTallies, Tallies, merged, tally_events
from unswayed.tallies.phases import Phases, combined, with_log, without_action

Mode = Literal["explore", "policy"]

#: A table, a path, events, or tallies.
Log = Events | LogTallies | Source

#: Labels that ``repr`` shows.
_SHOWN = 6


class RobustMCB(Fitted):
    """Robust multitask contextual bandit: the policy that is best for the good users.

    Either online, ``decide`` → ``observe`` → ``policy``, or on a log, ``fit`` → ``predict``. Both
    end in the same estimation from the same tallies, and may be combined: ``policy`` learns from
    the logs that were fitted and from everything observed.

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

    ``save`` and ``load`` keep an online learner in one file. When actions are added or removed,
    assignments are drawn anew, and from then on every play is uniform over the actions there are.
    Plays from before still count; see ``unswayed.tallies.phases``.

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
    >>> learner = RobustMCB(adversarial_fraction=0.1)
    >>> learner.fit(log).predict(["home"])
    [1]
    >>> learner
    RobustMCB(adversarial_fraction=0.1)  # learned: 1 context, 2 actions
    """

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
        method_named(method)  # an unknown name is refused here
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
        self._max_open_decisions = max_open_decisions
        self._open = OpenDecisions(limit=max_open_decisions)
        #: Logs that were fitted, and what was observed before the actions changed.
        self._phases: Phases = ()
        #: The phases that ``policy_`` was learned from, if no later play was.
        self._learned_phases: Phases | None = None
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def get_params(self) -> dict[str, Any]:
        """Return the parameters it was made with, all but the secret; actions as they are now."""
        return {
            "adversarial_fraction": self.adversarial_fraction,
            "method": self.method,
            "actions": None if self._actions is None else list(self._actions),
            "contexts": list(self._declared_contexts),
            "warmup_interactions": self._warmup_interactions,
            "certify": self.certify,
            "max_open_decisions": self._max_open_decisions,
        }

    def __repr__(self) -> str:
        defaults = signature(RobustMCB).parameters
        given = [
            f"{name}={_shortened(value)}"
            for name, value in self.get_params().items()
            if name == "adversarial_fraction" or value not in (defaults[name].default, [])
        ]
        state = []
        if self._exploration is not None and self._exploration.n_events:
            state.append(f"observed: {self._exploration.n_events:,} events")
        if hasattr(self, "policy_"):
            n_contexts, n_actions = self.policy_.mean_rewards.shape
            state.append(
                f"learned: {n_contexts:,} context{'s' * (n_contexts != 1)}, {n_actions:,} actions"
            )
        return f"RobustMCB({', '.join(given)})" + (f"  # {'; '.join(state)}" if state else "")

    # Online

    def decide(self, user: Label, context: Label, *, mode: Mode = "explore") -> Label:
        """Return the action to play for a user in a context; see ``decide_many``."""
        user_code, context_code = self._users.known(user), self._contexts.known(context)
        if mode == "explore" and user_code is not None and context_code is not None:
            with self._lock:
                exploration = self._exploration
                # Codes that an earlier call was stopped short of telling it are told below.
                if exploration is not None and exploration.knows(user_code, context_code):
                    return self._action_names[exploration.decide_one(user_code, context_code)]
        return self.decide_many([user], [context], mode=mode)[0]

    def decide_many(
        self, users: Sequence[Label], contexts: Sequence[Label], *, mode: Mode = "explore"
    ) -> list[Label]:
        """Return the actions to play for arrivals, in order.

        Parameters
        ----------
        users, contexts
            Who arrives, and with which context.
        mode
            "explore" draws the action by the keyed assignment: report its reward with ``observe``.
            "policy" plays what was learned last, for everybody the same. Such plays explore
            nothing; do not report their rewards.
        """
        if mode not in get_args(Mode):
            raise InputError(f"mode is {' or '.join(get_args(Mode))}, not {mode!r}.")
        if mode == "policy":
            check_list(users, "users")
            return self._fitted().decide_many(contexts)[0]
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
        """Return the policy, learned from the fitted logs and everything observed so far."""
        with self._lock:
            phases, exploration = self._phases, self._exploration
            if not phases:
                if exploration is None:
                    raise InputError("nothing was observed yet; call decide and observe first.")
                tallies, design, warmup = exploration.collected()
                users, contexts = self._users.labels(), self._contexts.labels()
                actions = self._action_labels()
            elif exploration is not None and exploration.n_events:
                phases = with_log(phases, self._observed(exploration))
            elif self._learned_phases is phases:
                return self.policy_
        if phases:
            return self._learn_log(combined(phases))
        return self._learn(tallies, design, users, contexts, actions, warmup=warmup)

    def add_action(self, action: Label) -> None:
        """Explore one more action from now on; what was learned stays until ``policy``."""
        with self._lock:
            self._change_actions(Labels.of([*self._action_labels(), action]))

    def remove_action(self, action: Label) -> None:
        """Never play an action again: its plays no longer count, and ``policy`` learns anew.

        Rewards that come in later for it are refused.
        """
        with self._lock:
            actions = self._action_labels()
            if action not in actions:
                raise InputError(f"there is no action {action!r} to remove; see `action_labels_`.")
            others = Labels.of(label for label in actions if label != action)
            check_actions(len(others))
            self._change_actions(others)
            self._phases = without_action(self._phases, action)
            self._forget()

    # In one file

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to one file, to go on later: versioned JSON and Parquet in a zip.

        The file holds the secret of the assignment: whoever reads it can predict who is asked to
        play what. Only its owner may read it.
        """
        with self._lock:
            exploration, tallies = self._exploration, {}
            labels = (self._users.labels(), self._contexts.labels())
            if exploration is not None:
                for name, part in exploration.phases().items():
                    tallies[name] = LogTallies(part, *labels, self._action_labels())
            tallies |= {f"phase-{place}": phase for place, phase in enumerate(self._phases)}
            state = {
                "parameters": self.get_params(),
                "secret": self._assignment.secret.hex(),
                "epoch": self._assignment.epoch,
                "contexts": list(labels[1]),
                "exploration": None if exploration is None else exploration.to_json(),
                "open_decisions": self._open.to_json(),
            }
            plays = np.zeros(len(labels[0]), np.int64)
            if exploration is not None:
                plays[:] = exploration.plays
            policy = getattr(self, "policy_", None)
        write_learner(path, SavedLearner(state, labels[0], plays, tallies, policy))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RobustMCB:
        """Return the learner that ``save`` wrote; it goes on where that one stopped.

        ``policy_`` is there again; ``estimates_`` and what rests on them come with ``policy``.
        """
        saved = read_learner(path)
        try:
            state = saved.state
            learner = cls(**state["parameters"], secret=bytes.fromhex(state["secret"]))
            learner._assignment = replace(learner._assignment, epoch=int(state["epoch"]))
            learner._restore(saved)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise damaged_learner(os.fspath(path), error) from error
        return learner

    def _restore(self, saved: SavedLearner) -> None:
        """Take over the state of a saved learner."""
        state, tallies = saved.state, saved.tallies
        self._users.codes(saved.user_labels)
        self._contexts.codes(state["contexts"])
        self._phases = tuple(part for name, part in tallies.items() if name.startswith("phase-"))
        sizes = (len(self._users), len(self._contexts), len(self._actions or ()))
        self._open.restore(state["open_decisions"], most=sizes)
        if state["exploration"] is not None:
            self._exploration = exploration = self._new_exploration(
                (), warmup_interactions=int(state["exploration"]["warmup_interactions"])
            )
            exploration.add_users(saved.user_labels)
            exploration.add_contexts(state["contexts"])
            exploration.adversarial_fraction = float(state["exploration"]["adversarial_fraction"])
            phases = {name: tallies[name].tallies for name in ("warmup", "main")}
            exploration.restore(state["exploration"]["sticky"], saved.plays, phases)
        if saved.policy is not None:
            self.policy_ = saved.policy

    # On a log

    def fit(
        self,
        log: Log,
        *,
        design: DesignName = "auto",
        columns: Columns | None = None,
        on_bad_rows: OnBadRows | str = "error",
    ) -> RobustMCB:
        """Learn from a log, and from no log that was fitted before.

        Parameters
        ----------
        log
            A table of pandas, Polars or pyarrow, a path, ``Events``, or the tallies of one log or
            several. Actions were chosen uniformly, per play or once per user and context, or come
            with propensities.
        design
            "sticky" if every user always got the same action in a context, "uniform" if each play
            was drawn anew, "auto" to read it off the log.
        columns
            Which columns of a table are which; by default ``user``, ``context``, ``action``,
            ``reward``, and ``propensity`` if it is there.
        on_bad_rows
            What to do with unusable rows of a table: "error", "drop" or "quarantine=FILE".
        """
        return self._fit_phases((_labelled(log, columns, on_bad_rows),), design)

    def partial_fit(
        self,
        log: Log,
        *,
        design: DesignName = "auto",
        columns: Columns | None = None,
        on_bad_rows: OnBadRows | str = "error",
    ) -> RobustMCB:
        """Learn from a log and from those that were fitted before; parameters as for ``fit``.

        Tables of several days give the policy of all days in one table, to the last bit.
        """
        phases = with_log(self._phases, _labelled(log, columns, on_bad_rows))
        return self._fit_phases(phases, design)

    def _fit_phases(self, phases: Phases, design: DesignName) -> RobustMCB:
        self._learn_log(combined(phases), design)
        with self._lock:
            self._phases = self._learned_phases = phases
        return self

    def _learn_log(self, labelled: LogTallies, design: DesignName = "auto") -> Policy:
        if self._actions is not None:
            labelled = labelled.with_actions(self._actions)
        tallies = labelled.in_blocks().uniform()
        return self._learn(
            tallies,
            design_of_log(tallies, design),
            labelled.user_labels,
            labelled.context_labels,
            labelled.action_labels,
        )

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
            self._exploration = self._new_exploration(
                self._declared_contexts, warmup_interactions=self._warmup_interactions
            )
        user_codes, context_codes = self._users.codes(users), self._contexts.codes(contexts)
        # Counted by what the exploration knows: codes and digests stay aligned even when an earlier
        # call was stopped between the two.
        self._exploration.add_users(self._users.since(self._exploration.n_users))
        self._exploration.add_contexts(self._contexts.since(self._exploration.n_contexts))
        return self._exploration, user_codes, context_codes

    def _new_exploration(
        self, contexts: Iterable[Label], *, warmup_interactions: int
    ) -> Exploration:
        return Exploration(
            n_actions=len(self._action_labels()),
            contexts=contexts,
            assignment=self._assignment,
            warmup_interactions=warmup_interactions,
            # Nothing was seen yet from which to estimate a share.
            adversarial_fraction=(
                SEARCHED_FRACTION
                if self.adversarial_fraction == "auto"
                else self.adversarial_fraction
            ),
        )

    def _observed(self, exploration: Exploration) -> LogTallies:
        """Return all that was observed with the actions that there are."""
        phases = exploration.phases()
        tallies = merged(phases["main"], phases["warmup"])
        users, contexts = self._users.labels(), self._contexts.labels()
        return LogTallies(tallies, users, contexts, self._action_labels())

    def _change_actions(self, actions: Labels) -> None:
        """Go on with other actions: uniform plays, from new draws; nothing observed is lost."""
        check_storable(actions[len(actions) - 1], len(actions) - 1)
        old, exploration = self._action_labels(), self._exploration
        if exploration is not None and exploration.n_events:
            self._phases = with_log(self._phases, self._observed(exploration))
        self._assignment = replace(self._assignment, epoch=self._assignment.epoch + 1)
        codes = actions.codes(old).tolist()
        self._open.recoded({old: new for old, new in enumerate(codes) if new != UNKNOWN})
        self._actions, self._action_names = actions, tuple(actions)
        self._exploration = self._new_exploration((), warmup_interactions=0)
        self._exploration.add_users(self._users.since(0))
        self._exploration.add_contexts(self._contexts.since(0))


def _labelled(log: Log, columns: Columns | None, on_bad_rows: OnBadRows | str) -> LogTallies:
    """Return the tallies of a log of any kind."""
    if isinstance(log, LogTallies):
        return log
    if not isinstance(log, Events):
        log = read_events(log, columns=columns, on_bad_rows=on_bad_rows).events
    return tally_events(log)


def _shortened(value: object) -> str:
    """Return a parameter as ``repr`` shows it, the middle of a long list left out."""
    if isinstance(value, list) and len(value) > _SHOWN:
        first = ", ".join(map(repr, value[: _SHOWN - 1]))
        return f"[{first}, … {value[-1]!r}]"
    return repr(value)
