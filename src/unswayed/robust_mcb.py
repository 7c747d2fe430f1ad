"""The public learner: decide and observe online, or fit a log, with labels in and out."""

from __future__ import annotations

import json
import os
import threading
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.arrays import FloatArray, IntArray
from unswayed.defaults import DEFAULT_METHOD, MAX_LEAVES
from unswayed.errors import InputError, Note
from unswayed.evaluation import evaluate_policy
from unswayed.events import Columns, Events, Label, Labels, Provenance, check_list
from unswayed.events.sources import Source
from unswayed.learners.design import Design, DesignName, RewardRange, design_of_log
from unswayed.learners.estimates import Estimates
from unswayed.learners.exploration import Exploration, GrowingLabels
from unswayed.learners.features.shape import Shape
from unswayed.learners.flips import FlipBounds
from unswayed.learners.from_log import read_log
from unswayed.learners.learning import check_actions, learn_policy
from unswayed.learners.options import LearnOptions
from unswayed.learners.unknown_fraction import (
    SEARCHED_FRACTION,
    Auto,
    UnknownFraction,
)
from unswayed.names import known_keywords
from unswayed.policy import Assignment, Policy, new_secret
from unswayed.policy.partition import Partition
from unswayed.policy.policy import Context, is_table, read_codes
from unswayed.storage import temporary_folder, whole_file
from unswayed.tallies import Tallies, merged, tally_events
from unswayed.tallies.log_data import Phases, combined, with_log, without_action
from unswayed.tallies.store import load_piece, write_piece
from unswayed.visible import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A table, a path, events, or tallies.
Log = Events | Tallies | Source

_SHOWN = 6  # Number of labels that ``repr`` shows

#: Parameters that are fixed after the first decision.
_FIXED_ONLINE = {"actions", "contexts", "secret", "warmup_interactions"}

_FORMAT = "unswayed-learner"
_VERSION = 1

_STATE, _USERS, _POLICY = "learner.json", "users.parquet", "policy.json"

_MODE = 0o600  # Ours: the file holds the secret of the assignment, so only its owner may read it

#: Exceptions that reading a damaged file may raise.
_DAMAGED = (
    *(zipfile.BadZipFile, ValueError, KeyError, TypeError, NotImplementedError),
    *(AttributeError, RecursionError, IndexError, pa.ArrowException, RuntimeError),
)

Mode = Literal["explore", "policy"]


def _rows_and_codes(policy: Policy, contexts: Any) -> tuple[Any, IntArray]:
    """Return contexts, or the context columns of a table's rows, and their codes."""
    if isinstance(contexts, Mapping):
        raise InputError(
            "contexts is one mapping; give a list with one for each visit, or a table."
        )
    if not is_table(contexts):
        check_list(contexts, "contexts")
        listed = list(contexts)
        return listed, policy.codes_of(listed)
    rows, codes = read_codes(policy, contexts)
    partition = policy.partition
    names = policy.context_columns[0] if partition is None else partition.names
    return list(zip(*(rows[name].to_pylist() for name in names), strict=True)), codes


class _Contexts(NamedTuple):
    """How the contexts of the fitted logs were made, unless they are the column ``context``."""

    partition: Partition | None = None  # the contexts, as leaves of attributes
    read: dict[str, Any] | None = None  # columns and bins, as recorded in a policy's source

    @classmethod
    def of(cls, log: Provenance, shape: Shape | None) -> _Contexts:
        """Return the contexts of a log that was read."""
        if shape is not None:
            return cls(shape.partition)
        if log.columns.context in (("context",), ()) and not log.columns.bins:
            return cls()
        written = log.to_json()
        context = {"context": written["columns"]["context"]}
        return cls(None, {"columns": context, "bins": written["bins"]})


@known_keywords(adversarial_fraction="alpha")
class RobustMCB:
    """Robust multitask contextual bandit: the policy that is best for the good users.

    Either online, ``decide`` → ``observe`` → ``policy``, or on a log, ``fit`` → ``predict``. Both
    end in the same estimation from the same tallies, and may be combined: ``policy`` learns from
    the fitted logs and from all observations.

    Parameters
    ----------
    alpha
        The share of users that may collude, α < 1/2. Overstate rather than understate it. "auto"
        takes an upper estimate from the data; see ``unswayed.learners.unknown_fraction`` for what
        it cannot know.
    method, reward_range, reward_deviation, features, max_leaves, trusted, advice
        As ``LearnOptions`` has them; features on a log only. ``fit`` learns the contexts from them,
        ``partial_fit`` keeps these.
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

    Notes ----- Every method may be called from several threads: one lock guards what ``decide`` and
    ``observe`` change, and ``policy`` learns without it (`docs/reliability.md`). A rejected call
    changes nothing. When actions are added or removed, assignments are drawn again, and all later
    plays are uniform; earlier plays still count (``unswayed.tallies.log_data``).

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
    >>> rng = np.random.default_rng(0)
    >>> users, actions = np.repeat(np.arange(200), 6), rng.integers(2, size=1200)
    >>> rewards = np.where(actions == 1, 0.8, 0.2) + 0.1 * rng.standard_normal(1200)
    >>> rewards[users < 20] = np.where(actions[users < 20] == 1, -50.0, 50.0)  # the coalition
    >>> learner = RobustMCB(alpha=0.1)
    >>> learner.fit(Events.of(users, ["home"] * 1200, actions, rewards)).predict(["home"])
    [1]
    >>> learner
    RobustMCB(alpha=0.1)  # learned: 1 context, 2 actions
    """

    policy_: Policy
    estimates_: Estimates
    flip_bounds_: FlipBounds
    unknown_fraction_: UnknownFraction | None

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
        self._options = LearnOptions(
            alpha=alpha,
            method=method,
            reward_range=reward_range,
            reward_deviation=reward_deviation,
            features=features,
            max_leaves=max_leaves,
            trusted=trusted,
            advice=advice,
        )
        self._origin = _Contexts()
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
        self._lock = threading.RLock()
        #: Logs that were fitted, and observations made before the actions changed.
        self._phases: Phases = ()
        #: The phases from which ``policy_`` was learned; None once further plays were observed.
        self._learned_phases: Phases | None = None

    @property
    def alpha(self) -> float | Auto:
        """The assumed share of colluders."""
        return self._options.alpha

    @property
    def method(self) -> str:
        """The name of the method."""
        return self._options.method

    # Online

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def decide(self, user: Label, context: Label, *, mode: Mode = "explore") -> Label:
        """Return the action to play for a user in a context; see ``decide_many``."""
        user_code, context_code = self._users.known(user), self._contexts.known(context)
        if mode == "explore" and user_code is not None and context_code is not None:
            with self._lock:
                # Codes missing after an interrupted call are added by ``decide_many``.
                if self._exploration is not None:
                    action = self._exploration.decide_one(user_code, context_code)
                    if action is not None:
                        return self._action_names[action]
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

    def observe(self, user: Label, context: Label, action: Label, reward: float) -> None:
        """Record the reward of one play.

        Every call counts: a reward reported twice counts twice. In a frequent context an action
        that was not assigned to the user is rejected, or counts as a play of the warm-up; in other
        contexts every action is accepted, because any of them may have been decided. Where callers
        cannot be trusted to report each decision once, use the service, whose decisions have ids.
        """
        self.observe_many([user], [context], [action], [reward])

    def observe_many(
        self,
        users: Sequence[Label],
        contexts: Sequence[Label],
        actions: Sequence[Label],
        rewards: Sequence[float] | FloatArray,
    ) -> None:
        """Record the rewards of many plays, or none of them if one row is bad."""
        events = Events.of(
            users, contexts, actions, rewards, action_labels=list(self._action_labels())
        )
        self._options.rewards.check(events.rewards)
        with self._lock:
            exploration, user_codes, context_codes = self._explore(users, contexts)
            exploration.observe(
                user_codes, context_codes, events.actions.astype(np.int64), events.rewards
            )

    def _action_labels(self) -> Labels:
        if self._actions is None:
            raise InputError("to decide online, give the labels of the actions: actions=[…].")
        return self._actions

    def _explore(
        self, users: Sequence[Label], contexts: Sequence[Label]
    ) -> tuple[Exploration, IntArray, IntArray]:
        """Register new users and contexts; return the exploration, and the codes of all of them."""
        if len(users) != len(contexts):
            raise InputError(f"{len(users)} users but {len(contexts)} contexts; give one for each.")
        # All labels are checked before any of them is registered.
        users, contexts = self._users.checked(users), self._contexts.checked(contexts)
        if self._exploration is None:
            self._exploration = self._new_exploration(
                self._declared_contexts, warmup_interactions=self._warmup_interactions
            )
        user_codes, context_codes = self._users.codes(users), self._contexts.codes(contexts)
        # Add all that are missing, so that codes and digests stay aligned even if an earlier call
        # was interrupted between registering labels and adding them.
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
            # There are no observations yet from which to estimate a share.
            alpha=(SEARCHED_FRACTION if self.alpha == "auto" else self.alpha),
            is_split=self.method == "paper",
        )

    def _labelled(self, tallies: Tallies) -> Tallies:
        return tallies.labelled(
            self._users.labels(), self._contexts.labels(), self._action_labels()
        )

    def _observed(self, exploration: Exploration) -> Tallies:
        """Return the tallies of all observations since the current actions were set."""
        phases = exploration.phases()
        return self._labelled(merged(phases["main"], phases["warmup"]))

    # Results of learning

    def predict(self, contexts: Iterable[Context] | Source) -> list[Label]:
        """Return the learned action of each context.

        Contexts are labels, tuples or mappings, as ``Policy.decide`` takes them, or a table of
        pandas, Polars or pyarrow with the columns of the log: its context columns or features.
        Unknown contexts get the default action, with a warning (``unswayed.errors.Note``);
        ``policy_.decide_many`` also returns which contexts are known.
        """
        policy = self._fitted()
        rows, codes = _rows_and_codes(policy, contexts)
        actions, is_known = policy.decide_codes(codes)
        if not is_known.all():
            unknown = [rows[row] for row in np.flatnonzero(~is_known)]
            warnings.warn(policy.words_on_unknown(unknown), Note, stacklevel=2)
        return actions

    def predict_expectations(self, contexts: Iterable[Context] | Source) -> FloatArray:
        """Return mean rewards, shape (n, n_actions); NaN if nothing was learned."""
        policy = self._fitted()
        table = np.vstack([policy.mean_rewards, np.full(len(policy.action_labels), np.nan)])
        return np.asarray(table[_rows_and_codes(policy, contexts)[1]])

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
        is_frequent = self._estimated().frequent_contexts
        return [label for label, yes in zip(self.context_labels_, is_frequent, strict=True) if yes]

    @property
    def user_weights_(self) -> FloatArray:
        """Remaining weight of each user, in [0, 1]; shape (n_users,)."""
        return self._estimated().user_weights

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
        self._estimated()
        return self._user_labels

    def _fitted(self) -> Policy:
        if not hasattr(self, "policy_"):
            raise InputError("nothing was learned yet; call fit(log) or policy() first.")
        return self.policy_

    def _estimated(self) -> Estimates:
        self._fitted()
        if not hasattr(self, "estimates_"):
            raise InputError("a loaded learner has its policy only; call policy() to learn again.")
        return self.estimates_

    # The conventions of scikit-learn

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  # as scikit-learn
        """Return the constructor's parameters without the secret, with the current ``actions``."""
        own = {
            "actions": None if self._actions is None else list(self._actions),
            "contexts": list(self._declared_contexts),
            "warmup_interactions": self._warmup_interactions,
        }
        names = [name for name in signature(RobustMCB).parameters if name != "secret"]
        values = {name: own.get(name, getattr(self._options, name, None)) for name in names}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
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
        """Change parameters; fitted logs and observations stay, and ``policy`` learns again.

        ``actions``, ``contexts`` and ``warmup_interactions`` can be changed until the first
        decision; later use ``add_action`` and ``remove_action``.
        """
        with self._lock:
            if self._exploration is not None and changes.keys() & _FIXED_ONLINE:
                raise InputError(
                    f"{', '.join(sorted(_FIXED_ONLINE))} are fixed by the first decision; use "
                    "add_action and remove_action, or make a new RobustMCB."
                )
            kept = {"secret": self._assignment.secret, **self.get_params()}
            changed = RobustMCB(**{**kept, **changes}).__dict__  # raises if a parameter is invalid
            if self._exploration is not None:
                changed = {"_options": changed["_options"]}
            kept = {name: getattr(self, name) for name in ("_lock", "_phases", "_origin")}
            self.__dict__.update({**changed, **kept, "_learned_phases": None})
        return self

    def __sklearn_clone__(self) -> RobustMCB:
        """Return an unfitted learner with the same parameters; for ``sklearn.base.clone``."""
        return RobustMCB(**self.get_params())

    def score(self, log: Source, **options: Any) -> float:
        """Return the mean reward per visit that the policy gives honest users, from a log.

        On the log that it was fitted on, the policy is cross-fitted: it is never evaluated on the
        rewards that it was chosen on.

        Parameters
        ----------
        log, options
            As ``unswayed.evaluate_policy`` takes them; ``alpha`` is the learner's own by default.
        """
        found = evaluate_policy(log, self._fitted(), **{"alpha": self.alpha, **options})
        return found.honest.value.estimate

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the learned estimates; see ``Policy.plot``."""
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
            return self._learn_log(combined(phases), self._origin)
        return self._learn(tallies, design, self._origin, warmup)

    def add_action(self, action: Label) -> None:
        """Explore one more action from now on; the policy stays until ``policy`` is called."""
        with self._lock:
            self._use_actions(Labels.of([*self._action_labels(), action]))

    def remove_action(self, action: Label) -> None:
        """Never play an action again: its plays no longer count, and ``policy`` learns again.

        Later rewards for it are rejected.
        """
        with self._lock:
            actions = self._action_labels()
            if action not in actions:
                raise InputError(f"there is no action {action!r} to remove; see `action_labels_`.")
            others = Labels.of(label for label in actions if label != action)
            check_actions(len(others))
            self._use_actions(others)
            self._phases = without_action(self._phases, action)
            for name in ("policy_", "estimates_", "flip_bounds_", "unknown_fraction_"):
                self.__dict__.pop(name, None)

    def _use_actions(self, actions: Labels) -> None:
        """Continue with other actions, new draws and uniform play.

        Earlier observations are kept as a separate log.
        """
        if self._exploration is not None and self._exploration.n_events:
            self._phases = with_log(self._phases, self._observed(self._exploration))
        self._assignment = replace(self._assignment, epoch=self._assignment.epoch + 1)
        self._actions, self._action_names = actions, tuple(actions)
        self._exploration = self._new_exploration((), warmup_interactions=0)
        self._exploration.add_users(self._users.since(0))
        self._exploration.add_contexts(self._contexts.since(0))

    # Saving and loading

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to one file, to continue later: versioned JSON and Parquet in a zip.

        The file holds the secret of the assignment: whoever reads it can predict which action each
        user is assigned. Only its owner may read it.
        """
        with self._lock:
            parameters, exploration = self.get_params(), self._exploration
            users, contexts = self._users.labels(), self._contexts.labels()
            phases = {} if exploration is None else exploration.phases()
            plays = np.zeros(len(users), np.int64) if exploration is None else exploration.plays
            state = {
                "format": _FORMAT,
                "version": _VERSION,
                # Version 1 of the file has another name for alpha.
                "parameters": {"adversarial_fraction": parameters.pop("alpha"), **parameters},
                "secret": self._assignment.secret.hex(),
                "epoch": self._assignment.epoch,
                "contexts": list(contexts),
                "exploration": None if exploration is None else exploration.to_json(),
            }
            tallies = {name: self._labelled(part) for name, part in phases.items()}
            tallies |= {f"phase-{place}": phase for place, phase in enumerate(self._phases)}
            policy = getattr(self, "policy_", None)
        state["pieces"] = {
            name: {"contexts": list(part.context_labels), "actions": list(part.action_labels)}
            for name, part in tallies.items()
        }
        with temporary_folder() as folder:
            content = folder / "learner"
            content.mkdir()
            (content / _STATE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
            pq.write_table(
                pa.table({"user": pa.array(users.values), "plays": plays}), content / _USERS
            )
            for name, part in tallies.items():
                write_piece(content, name, part)
            if policy is not None:
                policy.save(content / _POLICY)
            with whole_file(path) as draft:
                draft.chmod(_MODE)
                with zipfile.ZipFile(draft, "w") as archive:
                    for file in sorted(content.iterdir()):
                        archive.write(file, file.name)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RobustMCB:
        """Return the learner that ``save`` wrote, to continue where it stopped.

        ``policy_`` is restored; ``estimates_`` and attributes derived from it require a call of
        ``policy``.
        """
        name = os.fspath(path)
        with temporary_folder() as folder:
            content = folder / "learner"
            try:
                with zipfile.ZipFile(path) as archive:
                    archive.extractall(content)
                state = json.loads((content / _STATE).read_text(encoding="utf-8"))
                if state["format"] != _FORMAT:
                    raise ValueError(f"its format is {state['format']!r}")
                if state["version"] == _VERSION:
                    return cls._unpacked(state, content)
            except OSError as error:
                reason = error.strerror or error
                raise InputError(f"cannot read the learner {name}: {reason}.") from error
            except _DAMAGED as error:
                raise InputError(
                    f"{name} holds no learner, or is damaged ({error}); save the learner again."
                ) from error
        raise InputError(
            f"{name} has version {state['version']}, and this program reads version {_VERSION}; "
            "use the program that wrote it."
        )

    @classmethod
    def _unpacked(cls, state: dict[str, Any], content: Path) -> RobustMCB:
        """Return the learner that is stored in a folder."""
        try:
            tallies = {
                name: load_piece(content, name, *map(Labels.of, labels.values()))
                for name, labels in state["pieces"].items()
            }
            policy = Policy.load(content / _POLICY) if (content / _POLICY).exists() else None
        except InputError as error:  # its text names a temporary folder
            raise ValueError("its tallies or its policy cannot be read") from error
        known = pq.read_table(content / _USERS)
        users = known["user"].to_pylist()
        parameters = dict(state["parameters"])
        alpha, secret = parameters.pop("adversarial_fraction"), bytes.fromhex(state["secret"])
        learner = cls(alpha, **parameters, secret=secret)
        learner._assignment = replace(learner._assignment, epoch=int(state["epoch"]))
        learner._users.codes(users)
        learner._contexts.codes(state["contexts"])
        if (written := state["exploration"]) is not None:
            learner._exploration = exploration = learner._new_exploration(
                (), warmup_interactions=int(written["warmup_interactions"])
            )
            exploration.add_users(users)
            exploration.add_contexts(state["contexts"])
            exploration.alpha = float(written["adversarial_fraction"])
            plays = known["plays"].to_numpy().astype(np.int64)
            exploration.restore(written["sticky"], plays, tallies)
        learner._phases = tuple(part for name, part in tallies.items() if name.startswith("phase-"))
        if policy is not None:
            learner.policy_ = policy
            learner._origin = _Contexts(policy.partition, policy.source.get("read"))
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
        """Learn from a log, discarding earlier fits.

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
        options = {"design": design, "columns": columns, "on_bad_rows": on_bad_rows, **names}
        return self._fit((), _Contexts(), log, **options)

    def partial_fit(self, log: Log, **options: Any) -> RobustMCB:
        """Learn from a log in addition to those fitted before; parameters as for ``fit``.

        Tables of several days give the policy of all days in one table, to the last bit.
        """
        return self._fit(self._phases, self._origin, log, **options)

    def _fit(
        self,
        before: Phases,
        origin: _Contexts,
        log: Log,
        *,
        design: DesignName = "auto",
        columns: Columns | None = None,
        on_bad_rows: str = "error",
        **names: Any,
    ) -> RobustMCB:
        columns = columns or Columns()
        if names:
            columns = columns.renamed(names, others=("design", "columns", "on_bad_rows"))
        options = self._options.changed(columns=columns, on_bad_rows=on_bad_rows)
        if isinstance(log, Events):
            log = tally_events(log)
        if not isinstance(log, Tallies):
            shape = None
            if origin.partition is not None:
                shape = Shape(origin.partition, "learned before")
            if before and options.columns.features != (shape.partition.names if shape else ()):
                raise InputError(
                    "earlier logs were fitted with other features; call fit to start again."
                )
            reading, shape = read_log(log, options, shape)
            origin = _Contexts.of(reading.provenance, shape)
            log = tally_events(reading.events)
        elif options.features:
            raise InputError("features need a table or a file, which has columns for them.")
        phases = with_log(before, log)
        self._learn_log(combined(phases), origin, design)
        with self._lock:
            self._phases = self._learned_phases = phases
        return self

    def _learn_log(self, log: Tallies, origin: _Contexts, design: DesignName = "auto") -> Policy:
        if self._actions is not None:
            unknown = [label for label in log.action_labels if label not in self._actions]
            if unknown:
                raise InputError(
                    f"the log has action {unknown[0]!r}, which is not among `actions`."
                )
            log = log.with_actions(self._actions)
        tallies = log.in_blocks().uniform()
        return self._learn(tallies, design_of_log(tallies, design), origin)

    def _learn(
        self, tallies: Tallies, design: Design, origin: _Contexts, warmup: Tallies | None = None
    ) -> Policy:
        learned = learn_policy(
            tallies,
            replace(design, rewards=self._options.rewards),
            alpha=self.alpha,
            method=self.method,
            warmup=warmup,
        )
        policy = replace(
            learned.policy,
            partition=origin.partition,
            source={**learned.policy.source, **({"read": origin.read} if origin.read else {})},
        )
        with self._lock:  # other threads see no partial results
            self._origin = origin
            self.policy_, self.estimates_ = policy, learned.estimates
            self.flip_bounds_, self.unknown_fraction_ = learned.flips, learned.unknown_fraction
            self._user_labels = tallies.user_labels
        return policy


def _shortened(value: object) -> str:
    """Return the ``repr`` of a parameter; the middle of a long list is left out."""
    if isinstance(value, list) and len(value) > _SHOWN:
        first = ", ".join(map(repr, value[: _SHOWN - 1]))
        return f"[{first}, … {value[-1]!r}]"
    return repr(value)
