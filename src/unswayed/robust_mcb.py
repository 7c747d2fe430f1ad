"""The public learner: decide and observe online, or fit a log; labels in, a policy out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from inspect import signature
from typing import TYPE_CHECKING, Any

from unswayed.defaults import DEFAULT_METHOD, MAX_LEAVES
from unswayed.errors import InputError
from unswayed.evaluation import evaluate_policy
from unswayed.events import Columns, Events, Label, Labels, read_events
from unswayed.events.sources import Source
from unswayed.learners.design import Design, DesignName, design_of_log
from unswayed.learners.features.shape import in_leaves_of, learn_shape
from unswayed.learners.learning import check_actions, learn_policy
from unswayed.learners.methods import known_method
from unswayed.learners.online import OnlineLearner, damaged_learner, read_learner, write_learner
from unswayed.learners.options import LearnOptions
from unswayed.learners.reward_range import RewardRange, reward_bound
from unswayed.learners.unknown_fraction import Auto, check_fraction_or_auto
from unswayed.names import known_keywords
from unswayed.policy import Policy
from unswayed.policy.partition import Partition
from unswayed.tallies import Tallies, tally_events
from unswayed.tallies.log_data import Phases, combined, with_log, without_action
from unswayed.visible import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A table, a path, events, or tallies.
Log = Events | Tallies | Source

#: Labels that ``repr`` shows.
_SHOWN = 6

#: Parameters that cannot change once something was decided, and what holds the others.
_FIXED_ONLINE = {"actions", "contexts", "secret", "warmup_interactions"}
_CHANGEABLE_ONLINE = ("alpha", "method", "_rewards")


@known_keywords(adversarial_fraction="alpha")
class RobustMCB(OnlineLearner):
    """Robust multitask contextual bandit: the policy that is best for the good users.

    Either online, ``decide`` → ``observe`` → ``policy``, or on a log, ``fit`` → ``predict``. Both
    end in the same estimation from the same tallies, and may be combined: ``policy`` learns from
    the logs that were fitted and from everything observed.

    Parameters
    ----------
    alpha
        The share of users that may collude, α < 1/2. Overstate rather than understate it. "auto"
        takes an upper estimate from the data; see ``unswayed.learners.unknown_fraction`` for what
        it cannot know.
    method
        How to learn: "bounded", the default, bounds every account and takes coalitions out; "paper"
        is the paper's. See ``unswayed.learners.methods``.
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
    reward_range
        Smallest and largest reward that there can be, a pair. Worst-case intervals need it, or
        ``reward_deviation``. Rewards beyond it are refused.
    reward_deviation
        Largest standard deviation that an honest user's reward can have in a context and action,
        users' tastes included.
    features, max_leaves, trusted, advice
        On a log only: attributes that contexts are learned from, and how; as ``learn_log`` takes
        them. ``fit`` learns the contexts, ``partial_fit`` keeps them.

    Notes
    -----
    Every method may be called from several threads. One lock guards what ``decide`` and ``observe``
    change; ``policy`` holds it only while it collects what was observed, and learns without it.
    `docs/reliability.md` says what the lock costs. A request that is refused changes nothing.

    ``save`` and ``load`` keep an online learner in one file. When actions are added or removed,
    assignments are drawn anew, and from then on every play is uniform over the actions there are.
    Plays from before still count; see ``unswayed.tallies.log_tallies``.

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
        How many accounts each decision withstands, and on what that rests.
    context_labels_, action_labels_, user_labels_
        What the rows and columns of these arrays stand for.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> users, actions = np.repeat(np.arange(200), 6), rng.integers(2, size=1200)
    >>> rewards = np.where(actions == 1, 0.8, 0.2) + 0.1 * rng.standard_normal(1200)
    >>> rewards[users < 20] = np.where(actions[users < 20] == 1, -50.0, 50.0)  # the coalition
    >>> log = Events.of(users, ["home"] * 1200, actions, rewards)
    >>> learner = RobustMCB(alpha=0.1)
    >>> learner.fit(log).predict(["home"])
    [1]
    >>> learner
    RobustMCB(alpha=0.1)  # learned: 1 context, 2 actions
    """

    def __init__(
        self,
        alpha: float | Auto = 0.1,
        *,
        method: str = DEFAULT_METHOD,
        actions: Sequence[Label] | None = None,
        contexts: Sequence[Label] = (),
        warmup_interactions: int = 0,
        secret: bytes | None = None,
        reward_range: RewardRange | str | None = None,
        reward_deviation: float | None = None,
        features: Sequence[str] = (),
        max_leaves: int = MAX_LEAVES,
        trusted: Sequence[str] = (),
        advice: str = "auto",
    ) -> None:
        self._rewards = reward_bound(reward_range, reward_deviation)
        self.alpha = check_fraction_or_auto(alpha)
        self.method = known_method(method)
        self._shaping = LearnOptions(
            alpha=alpha,
            method=method,
            features=features,
            max_leaves=max_leaves,
            trusted=trusted,
            advice=advice,
        )
        #: Context columns and bins of the last log, if unusual; the partition of its features.
        self._read: dict[str, Any] | None = None
        self._partition: Partition | None = None
        self._start_online(actions, contexts, warmup_interactions, secret)
        #: Logs that were fitted, and what was observed before the actions changed.
        self._phases: Phases = ()
        #: The phases that ``policy_`` was learned from, if no later play was.
        self._learned_phases: Phases | None = None

    # The habits of scikit-learn

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  # as scikit-learn
        """Return the parameters it was made with, all but the secret; actions as they are now."""
        return {
            "alpha": self.alpha,
            "method": self.method,
            "actions": None if self._actions is None else list(self._actions),
            "contexts": list(self._declared_contexts),
            "warmup_interactions": self._warmup_interactions,
            "reward_range": None if self._rewards.range is None else list(self._rewards.range),
            "reward_deviation": self._rewards.deviation if self._rewards.has_deviation else None,
            "features": list(self._shaping.features),
            "max_leaves": self._shaping.max_leaves,
            "trusted": list(self._shaping.trusted),
            "advice": self._shaping.advice,
        }

    def __repr__(self) -> str:
        defaults = signature(RobustMCB).parameters
        given = [
            f"{name}={_shortened(value)}"
            for name, value in self.get_params().items()
            if name == "alpha" or value not in (defaults[name].default, [])
        ]
        state = []
        if self._exploration is not None and self._exploration.n_events:
            state.append(f"observed: {self._exploration.n_events:,} events")
        if hasattr(self, "policy_"):
            n_contexts, n_actions = self.policy_.mean_rewards.shape
            state.append(
                f"learned: {counted(n_contexts, 'context')}, {counted(n_actions, 'action')}"
            )
        return f"RobustMCB({', '.join(given)})" + (f"  # {'; '.join(state)}" if state else "")

    def set_params(self, **changes: Any) -> RobustMCB:
        """Change parameters; what was fitted or observed stays, and ``policy`` learns anew.

        ``actions``, ``contexts`` and ``warmup_interactions`` can be changed until something was
        decided; later see ``add_action`` and ``remove_action``.
        """
        with self._lock:
            if self._exploration is not None and changes.keys() & _FIXED_ONLINE:
                raise InputError(
                    f"{', '.join(sorted(_FIXED_ONLINE))} are fixed by the first decision; use "
                    "add_action and remove_action, or make a new RobustMCB."
                )
            kept = {"secret": self._assignment.secret, **self.get_params()}
            changed = RobustMCB(**{**kept, **changes}).__dict__  # refuses what is not valid
            if self._exploration is not None:
                changed = {name: changed[name] for name in _CHANGEABLE_ONLINE}
            self.__dict__.update({**changed, "_lock": self._lock, "_phases": self._phases})
            self._learned_phases = None
        return self

    def __sklearn_clone__(self) -> RobustMCB:
        """Return an unfitted learner with the same parameters; for ``sklearn.base.clone``."""
        return RobustMCB(**self.get_params())

    def score(self, log: Source, **options: Any) -> float:
        """Return the mean reward per visit that the policy gives honest users, from a log.

        On the log that it was fitted on, the policy is cross-fitted: it is never judged by the
        rewards it was chosen on.

        Parameters
        ----------
        log, options
            As ``unswayed.evaluate_policy`` takes them; ``alpha`` is the learner's own by default.
        """
        found = evaluate_policy(log, self._fitted(), **{"alpha": self.alpha, **options})
        return found.honest.value.estimate

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw what was learned; see ``Policy.plot``."""
        return self._fitted().plot(axes)

    def _repr_html_(self) -> str:
        table = self.policy_._repr_html_() if hasattr(self, "policy_") else ""
        return f"<pre>{escape(repr(self))}</pre>{table}"

    def policy(self) -> Policy:
        """Return the policy, learned from the fitted logs and everything observed so far."""
        with self._lock:
            phases, exploration = self._phases, self._exploration
            if not phases:
                if exploration is None:
                    raise InputError(
                        "nothing to learn from yet; call fit(log), or decide and observe, first."
                    )
                tallies, design, warmup = exploration.observed()
                tallies = self._labelled(tallies)
            elif exploration is not None and exploration.n_events:
                phases = with_log(phases, self._observed(exploration))
            elif self._learned_phases is phases:
                return self.policy_
        if phases:
            return self._learn_log(combined(phases))
        return self._learn(tallies, design, warmup=warmup)

    def add_action(self, action: Label) -> None:
        """Explore one more action from now on; what was learned stays until ``policy``."""
        with self._lock:
            self._use_actions(Labels.of([*self._action_labels(), action]))

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
            self._use_actions(others)
            self._phases = without_action(self._phases, action)
            self._forget()

    def _use_actions(self, actions: Labels) -> None:
        """Continue with other actions; earlier observations are kept as a separate log."""
        observed = self._change_actions(actions)
        if observed is not None:
            self._phases = with_log(self._phases, observed)

    # In one file

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to one file, to go on later: versioned JSON and Parquet in a zip.

        The file holds the secret of the assignment: whoever reads it can predict who is asked to
        play what. Only its owner may read it.
        """
        with self._lock:
            state, users, tallies, _ = self._saved()
            tallies |= {f"phase-{place}": phase for place, phase in enumerate(self._phases)}
            parameters = self.get_params()
            # Version 1 of the file has another name for alpha.
            parameters = {"adversarial_fraction": parameters.pop("alpha"), **parameters}
            policy = getattr(self, "policy_", None)
        write_learner(path, ({"parameters": parameters, **state}, users, tallies, policy))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RobustMCB:
        """Return the learner that ``save`` wrote; it goes on where that one stopped.

        ``policy_`` is there again; ``estimates_`` and what rests on them come with ``policy``.
        """
        state, users, tallies, policy = read_learner(path)
        try:
            parameters = dict(state["parameters"])
            alpha, secret = parameters.pop("adversarial_fraction"), bytes.fromhex(state["secret"])
            learner = cls(alpha, **parameters, secret=secret)
            learner._assignment = replace(learner._assignment, epoch=int(state["epoch"]))
            learner._restore(state, users, tallies)
            learner._phases = tuple(
                part for name, part in tallies.items() if name.startswith("phase-")
            )
            if policy is not None:
                learner.policy_ = policy
                learner._partition = policy.partition
                learner._read = policy.source.get("read")
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise damaged_learner(os.fspath(path), error) from error
        return learner

    # On a log

    def fit(
        self,
        log: Log,
        *,
        design: DesignName = "auto",
        columns: Columns | None = None,
        on_bad_rows: str = "error",
        **names: Any,
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
            What to do with unusable rows of a table: "error" or "drop".
        names
            Fields of ``Columns``: ``fit(log, user="account_id", context=["country", "device"])``.
        """
        self._partition = None
        phases = (self._tallied(log, columns, on_bad_rows, names),)
        return self._fit_phases(phases, design)

    def partial_fit(
        self,
        log: Log,
        *,
        design: DesignName = "auto",
        columns: Columns | None = None,
        on_bad_rows: str = "error",
        **names: Any,
    ) -> RobustMCB:
        """Learn from a log and from those that were fitted before; parameters as for ``fit``.

        Tables of several days give the policy of all days in one table, to the last bit.
        """
        tallies = self._tallied(log, columns, on_bad_rows, names)
        phases = with_log(self._phases, tallies)
        return self._fit_phases(phases, design)

    def _fit_phases(self, phases: Phases, design: DesignName) -> RobustMCB:
        self._learn_log(combined(phases), design)
        with self._lock:
            self._phases = self._learned_phases = phases
        return self

    def _learn_log(self, log: Tallies, design: DesignName = "auto") -> Policy:
        if self._actions is not None:
            log = log.with_actions(self._actions)
        tallies = log.in_blocks().uniform()
        return self._learn(tallies, design_of_log(tallies, design))

    def _learn(self, tallies: Tallies, design: Design, *, warmup: Tallies | None = None) -> Policy:
        learned = learn_policy(
            tallies,
            replace(design, rewards=self._rewards),
            alpha=self.alpha,
            method=self.method,
            warmup=warmup,
        )
        policy = learned.policy
        if self._partition is not None:
            policy = replace(policy, partition=self._partition)
        if self._read is not None:
            policy = replace(policy, source={**policy.source, "read": self._read})
        learned = replace(learned, policy=policy)
        with self._lock:  # all of one learning, or all of another
            self.policy_, self.estimates_ = learned.policy, learned.estimates
            self.flip_bounds_, self.unknown_fraction_ = learned.flips, learned.unknown_fraction
            self._user_labels = tallies.user_labels
        return learned.policy

    def _tallied(
        self, log: Log, columns: Columns | None, on_bad_rows: str, names: dict[str, Any]
    ) -> Tallies:
        """Return the tallies of a log of any kind, in the leaves of its features if there are."""
        if names:
            others = ("design", "columns", "on_bad_rows")
            columns = (columns or Columns()).renamed(names, others=others)
        features = self._shaping.columns.features
        if isinstance(log, Tallies | Events):
            if features:
                raise InputError("features need a table or a file, which has columns for them.")
            return log if isinstance(log, Tallies) else tally_events(log)
        if features:
            columns = replace(columns or Columns(), features=features)
        reading = read_events(log, columns=columns, on_bad_rows=on_bad_rows)
        events, read = reading.events, reading.provenance
        self._read = None
        if read.columns.context not in (("context",), ()) or read.columns.bins:
            written = read.to_json()
            context = {"context": written["columns"]["context"]}
            self._read = {"columns": context, "bins": written["bins"]}
        if features:
            if self._partition is None:
                self._partition = learn_shape(events, reading.attributes, self._shaping).partition
            events = in_leaves_of(self._partition, events, reading.attributes, is_learned_from=True)
        return tally_events(events)


def _shortened(value: object) -> str:
    """Return a parameter as ``repr`` shows it, the middle of a long list left out."""
    if isinstance(value, list) and len(value) > _SHOWN:
        first = ", ".join(map(repr, value[: _SHOWN - 1]))
        return f"[{first}, … {value[-1]!r}]"
    return repr(value)
