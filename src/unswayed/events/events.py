"""The log in memory: one row per interaction, labels as codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.events.labels import Label, Labels

#: Ours: larger rewards are rejected. Up to this, sums of squares are finite in any log, and so are
#: the single-precision copies of some estimators.
LARGEST_REWARD = 1e30

#: Columns of events, and their names in a log.
_COLUMNS = {
    "users": "user",
    "contexts": "context",
    "actions": "action",
    "rewards": "reward",
    "propensities": "propensity",
    "times": "time",
}

#: Codes of labels, of any integer width.
Codes = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Interactions (user, context, action, reward), column by column.

    Parameters
    ----------
    users, contexts, actions
        Shape (n_events,); codes into the labels.
    rewards
        Shape (n_events,); finite.
    user_labels, context_labels, action_labels
        What the codes stand for; actions or contexts without events are allowed.
    propensities
        Shape (n_events,); the probability in (0, 1] with which the logged action was played, or
        None when every action was equally likely.
    times
        Shape (n_events,); when each happened, in seconds or any other unit, or None where that does
        not matter.

    Examples
    --------
    >>> log = Events.of(["ann", "bob"], ["home", "home"], ["tea", "milk"], [1.0, 0.0])
    >>> log.n_users, log.n_contexts, log.n_actions, len(log)
    (2, 1, 2, 2)
    """

    users: Codes
    contexts: Codes
    actions: Codes
    rewards: FloatArray
    user_labels: Labels
    context_labels: Labels
    action_labels: Labels
    propensities: FloatArray | None = None
    times: FloatArray | None = None

    def __post_init__(self) -> None:
        for name, column in self._columns().items():
            if column.shape != self.users.shape:
                raise InputError(
                    f"column {_COLUMNS[name]!r} has {len(column)} rows and column 'user' has "
                    f"{len(self.users)}; every column needs one value per row."
                )
        for name, codes, labels in (
            ("user", self.users, self.user_labels),
            ("context", self.contexts, self.context_labels),
            ("action", self.actions, self.action_labels),
        ):
            if len(codes) and (codes.min() < 0 or codes.max() >= len(labels)):
                row = int(np.flatnonzero((codes < 0) | (codes >= len(labels)))[0])
                raise InputError(
                    f"row {row}: the {name} is not among the {len(labels)} known ones."
                )
        _check_finite("reward", self.rewards)
        if len(self.rewards) and max(self.rewards.max(), -self.rewards.min()) > LARGEST_REWARD:
            row = int(np.flatnonzero(np.abs(self.rewards) > LARGEST_REWARD)[0])
            raise InputError(
                f"row {row}: reward {self.rewards[row]:g} is beyond ±{LARGEST_REWARD:g}, and sums "
                "of squares would overflow; rescale the rewards or drop the row."
            )
        if self.times is not None:
            _check_finite("time", self.times)
        if self.propensities is not None:
            _check_finite("propensity", self.propensities)
            bad = np.flatnonzero((self.propensities <= 0) | (self.propensities > 1))
            if len(bad):
                raise InputError(
                    f"row {bad[0]}: propensity {self.propensities[bad[0]]} is not in (0, 1]; it is "
                    "the probability with which the logged action was chosen."
                )

    @classmethod
    def of(
        cls,
        users: Iterable[Label],
        contexts: Iterable[Label],
        actions: Iterable[Label],
        rewards: npt.ArrayLike,
        *,
        propensities: npt.ArrayLike | None = None,
        times: npt.ArrayLike | None = None,
        context_labels: Iterable[Label] | None = None,
        action_labels: Iterable[Label] | None = None,
    ) -> Events:
        """Return events from labels; codes follow the order of first appearance.

        ``context_labels`` and ``action_labels`` fix the order, and may name labels without events.
        """
        user_codes, user_labels = _encode("user", users, None)
        context_codes, context_labels_ = _encode("context", contexts, context_labels)
        action_codes, action_labels_ = _encode("action", actions, action_labels)
        return cls(
            user_codes,
            context_codes,
            action_codes,
            _numbers("reward", rewards),
            user_labels,
            context_labels_,
            action_labels_,
            None if propensities is None else _numbers("propensity", propensities),
            None if times is None else _numbers("time", times),
        )

    def rows(self, selected: BoolArray | IntArray) -> Events:
        """Select events by a mask or by indices; codes and labels stay the same."""
        return replace(self, **{name: part[selected] for name, part in self._columns().items()})

    def _columns(self) -> dict[str, Any]:
        """Return the non-empty columns, by name."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return {name: column for name, column in columns.items() if column is not None}

    def with_used_labels(self) -> Events:
        """Return the same events without unused labels."""
        used: dict[str, Any] = {}
        for role in ("user", "context", "action"):
            codes, labels = getattr(self, f"{role}s"), getattr(self, f"{role}_labels")
            is_used = np.zeros(len(labels), np.bool_)
            is_used[codes] = True
            used[f"{role}s"] = (np.cumsum(is_used, dtype=np.int32) - np.int32(1))[codes]
            used[f"{role}_labels"] = Labels(labels.values[is_used])
        return replace(self, **used)

    def __len__(self) -> int:
        return len(self.users)

    @property
    def n_users(self) -> int:
        """Number of users, L."""
        return len(self.user_labels)

    @property
    def n_contexts(self) -> int:
        """Number of contexts, S."""
        return len(self.context_labels)

    @property
    def n_actions(self) -> int:
        """Number of actions, A."""
        return len(self.action_labels)


def _encode(
    name: str, column: Iterable[Label], known: Iterable[Label] | None
) -> tuple[IntArray, Labels]:
    listed = column.tolist() if isinstance(column, np.ndarray) else list(column)
    try:
        labels = Labels.of(dict.fromkeys(listed) if known is None else known)
        codes = labels.codes(listed)
    except TypeError as error:  # lists and dictionaries are not hashable
        raise InputError(
            f"column {name!r} holds values that cannot be labels ({error}); labels are strings, "
            "numbers, booleans or dates."
        ) from error
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        row = int(unknown[0])
        raise InputError(
            f"row {row}: {name} {listed[row]!r} is not among the {len(labels)} {name}s given."
        )
    return codes, labels


def _numbers(name: str, column: npt.ArrayLike) -> FloatArray:
    """Return a column as numbers; raise if it holds something else."""
    try:
        numbers = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"column {name!r} must hold one number per row: {error}.") from error
    if numbers.ndim != 1:
        raise InputError(
            f"column {name!r} must hold one number per row; it has {numbers.ndim} dimensions."
        )
    return numbers


def _check_finite(name: str, column: FloatArray) -> None:
    if not (is_finite := np.isfinite(column)).all():
        bad = np.flatnonzero(~is_finite)
        raise InputError(
            f"row {bad[0]}: {name} is {column[bad[0]]}; {len(bad)} of {len(column)} rows have no "
            f"finite {name}. Drop or fix them first."
        )
