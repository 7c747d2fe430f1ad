"""Deciding and observing online: the state of a learner, and its file."""

from __future__ import annotations

import json
import os
import threading
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError, Note
from unswayed.events import Events, Label, Labels, check_list
from unswayed.events.sources import Source
from unswayed.learners.estimates import Estimates
from unswayed.learners.exploration import Exploration, GrowingLabels
from unswayed.learners.flips import FlipBounds
from unswayed.learners.learning import check_actions
from unswayed.learners.reward_range import RewardBound
from unswayed.learners.unknown_fraction import SEARCHED_FRACTION, Auto, UnknownFraction
from unswayed.policy import Assignment, Policy, new_secret
from unswayed.policy.policy import Context, is_table, read_codes
from unswayed.storage import temporary_folder, whole_file
from unswayed.tallies import Tallies, merged
from unswayed.tallies.store import load_piece, write_piece

FORMAT = "unswayed-learner"
VERSION = 1

_STATE, _USERS, _POLICY = "learner.json", "users.parquet", "policy.json"

#: Ours: the file holds the secret of the assignment, so only its owner may read it.
_MODE = 0o600

#: What reading a damaged file comes to.
_DAMAGED = (
    *(zipfile.BadZipFile, ValueError, KeyError, TypeError, NotImplementedError),
    *(AttributeError, RecursionError, pa.ArrowException, RuntimeError),
)


#: State as plain JSON values; users and their plays; tallies by name; what was learned last.
Saved = tuple[dict[str, Any], pa.Table, dict[str, Tallies], Policy | None]


def write_learner(path: str | os.PathLike[str], saved: Saved) -> None:
    """Write a learner to one file, whole or not at all; only the owner may read it."""
    state, users, tallies, policy = saved
    pieces = {
        name: {"contexts": list(part.context_labels), "actions": list(part.action_labels)}
        for name, part in tallies.items()
    }
    state = {"format": FORMAT, "version": VERSION, **state, "pieces": pieces}
    with temporary_folder() as folder:
        content = folder / "learner"
        content.mkdir()
        (content / _STATE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
        pq.write_table(users, content / _USERS)
        for name, part in tallies.items():
            write_piece(content, name, part)
        if policy is not None:
            policy.save(content / _POLICY)
        with whole_file(path) as draft:
            draft.chmod(_MODE)
            with zipfile.ZipFile(draft, "w") as archive:
                for file in sorted(content.iterdir()):
                    archive.write(file, file.name)


def read_learner(path: str | os.PathLike[str]) -> Saved:
    """Return what ``write_learner`` wrote; refuse anything else."""
    name = os.fspath(path)
    try:
        with temporary_folder() as folder, zipfile.ZipFile(path) as archive:
            content = folder / "learner"
            content.mkdir()
            for member in archive.namelist():
                (content / Path(member).name).write_bytes(archive.read(member))
            return _read(content, name)
    except OSError as error:
        raise InputError(f"cannot read the learner {name}: {error.strerror or error}.") from error
    except InputError:
        raise
    except _DAMAGED as error:
        raise damaged_learner(name, error) from error


def damaged_learner(name: str, error: Exception) -> InputError:
    """Return the error for a file that holds no learner."""
    return InputError(f"{name} holds no learner, or is damaged ({error}); save the learner again.")


def _read(content: Path, name: str) -> Saved:
    state = json.loads((content / _STATE).read_text(encoding="utf-8"))
    if state["format"] != FORMAT:
        raise ValueError(f"its format is {state['format']!r}")
    if state["version"] != VERSION:
        raise InputError(
            f"{name} has version {state['version']}, and this program reads version {VERSION}; use "
            "the program that wrote it."
        )
    tallies = {}
    try:
        for piece, labels in state["pieces"].items():
            contexts, actions = Labels.of(labels["contexts"]), Labels.of(labels["actions"])
            tallies[str(piece)] = load_piece(content, str(piece), contexts, actions)
        policy = Policy.load(content / _POLICY) if (content / _POLICY).exists() else None
    except InputError as error:  # names the folder it was unpacked to, which is gone by now
        raise ValueError("its tallies or its policy cannot be read") from error
    return state, pq.read_table(content / _USERS), tallies, policy


Mode = Literal["explore", "policy"]


def _rows_and_codes(policy: Policy, contexts: Any) -> tuple[Any, IntArray]:
    """Return contexts, or the parts of those of a table's rows, and their codes."""
    if not is_table(contexts):
        return contexts, policy.codes_of(contexts)
    rows, codes = read_codes(policy, contexts)
    partition = policy.partition
    names = policy.context_columns[0] if partition is None else partition.names
    return list(zip(*(rows[name].to_pylist() for name in names), strict=True)), codes


def _as_label(context: Any) -> Label:
    """Return a context as a label for a message."""
    if isinstance(context, Mapping):
        context = tuple(context.values())
    if isinstance(context, tuple):
        return str(context[0]) if len(context) == 1 else ", ".join(map(str, context))
    label: Label = context
    return label


class OnlineLearner:
    """The online half of ``RobustMCB``: labels in, actions out, and rewards back in.

    One lock guards all that deciding and observing change. A request that is refused changes
    nothing.
    """

    alpha: float | Auto
    method: str
    policy_: Policy
    estimates_: Estimates
    flip_bounds_: FlipBounds
    unknown_fraction_: UnknownFraction | None
    _user_labels: Labels
    _rewards: RewardBound

    def _start_online(
        self,
        actions: Sequence[Label] | None,
        contexts: Sequence[Label],
        warmup_interactions: int,
        secret: bytes | None,
    ) -> None:
        """Initialise the online state; parameters as for ``RobustMCB``."""
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
                # Codes that an earlier call, stopped short, did not pass on are added below.
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
        """Take in the reward of one play.

        Every call counts: a reward reported twice counts twice. In a frequent context an action
        that the user is never asked to play is refused, or counts as a play of the warm-up; in
        other contexts any action may have been decided, so all are taken. Where callers cannot be
        trusted to report each decision once, use the service, whose decisions have ids.
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
        self._rewards.check(events.rewards)
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
        """Return the exploration and codes; registers new users and contexts."""
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
            alpha=(SEARCHED_FRACTION if self.alpha == "auto" else self.alpha),
            is_split=self.method == "paper",
        )

    def _labelled(self, tallies: Tallies) -> Tallies:
        return tallies.labelled(
            self._users.labels(), self._contexts.labels(), self._action_labels()
        )

    def _observed(self, exploration: Exploration) -> Tallies:
        """Return all that was observed with the actions that there are."""
        phases = exploration.phases()
        return self._labelled(merged(phases["main"], phases["warmup"]))

    def _change_actions(self, actions: Labels) -> Tallies | None:
        """Change the actions: new draws, uniform play; return what was observed before."""
        exploration, observed = self._exploration, None
        if exploration is not None and exploration.n_events:
            observed = self._observed(exploration)
        self._assignment = replace(self._assignment, epoch=self._assignment.epoch + 1)
        self._actions, self._action_names = actions, tuple(actions)
        self._exploration = self._new_exploration((), warmup_interactions=0)
        self._exploration.add_users(self._users.since(0))
        self._exploration.add_contexts(self._contexts.since(0))
        return observed

    def _saved(self) -> Saved:
        """Return the state to save; the caller holds the lock."""
        exploration = self._exploration
        users, contexts = self._users.labels(), self._contexts.labels()
        plays = np.zeros(len(users), np.int64)
        phases = {} if exploration is None else exploration.phases()
        if exploration is not None:
            plays[:] = exploration.plays
        state = {
            "secret": self._assignment.secret.hex(),
            "epoch": self._assignment.epoch,
            "contexts": list(contexts),
            "exploration": None if exploration is None else exploration.to_json(),
        }
        tallies = {name: self._labelled(part) for name, part in phases.items()}
        return state, pa.table({"user": pa.array(users.values), "plays": plays}), tallies, None

    def _restore(self, state: Mapping[str, Any], known: pa.Table, tallies: Any) -> None:
        """Take over the state of a saved learner."""
        users = known["user"].to_pylist()
        self._users.codes(users)
        self._contexts.codes(state["contexts"])
        if (written := state["exploration"]) is not None:
            self._exploration = exploration = self._new_exploration(
                (), warmup_interactions=int(written["warmup_interactions"])
            )
            exploration.add_users(users)
            exploration.add_contexts(state["contexts"])
            exploration.alpha = float(written["adversarial_fraction"])
            plays = known["plays"].to_numpy().astype(np.int64)
            exploration.restore(written["sticky"], plays, tallies)

    # What was learned

    def predict(self, contexts: Iterable[Context] | Source) -> list[Label]:
        """Return the learned action of each context.

        Contexts are labels, tuples or mappings, as ``Policy.decide`` takes them, or a table of
        pandas, Polars or pyarrow with the columns of the log: its context columns or features.
        Unknown contexts get the default action, with a warning (``unswayed.errors.Note``);
        ``policy_.decide_many`` also returns which contexts are known.
        """
        policy = self._fitted()
        given: Any = contexts
        if not is_table(given):
            check_list(given, "contexts")
            given = list(given)
        rows, codes = _rows_and_codes(policy, given)
        actions, is_known = policy.decide_codes(codes)
        if not is_known.all():
            unknown = [_as_label(rows[row]) for row in np.flatnonzero(~is_known)]
            warnings.warn(policy.words_on_unknown(unknown), Note, stacklevel=2)
        return actions

    def predict_expectations(self, contexts: Iterable[Context] | Source) -> FloatArray:
        """Return mean rewards, shape (n, n_actions); NaN for what was not learned."""
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
        """How much of each user was kept, in [0, 1]; shape (n_users,)."""
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

    def _forget(self) -> None:
        """Discard what was learned."""
        for name in ("policy_", "estimates_", "flip_bounds_", "unknown_fraction_"):
            self.__dict__.pop(name, None)
