"""Exploration while data are collected: lines 1–10 of Algorithm 2."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.events import Label, Labels, check_list
from unswayed.events.labels import as_label_array
from unswayed.learners.design import Design
from unswayed.learners.paper import (
    estimate_context_probabilities,
    frequent_contexts,
    split_contexts,
)
from unswayed.policy import Assignment
from unswayed.policy.assignment import siphash_of_four, uniform_index
from unswayed.tallies import Accumulator, Tallies


class GrowingLabels:
    """Distinct labels, in the order of their first appearance.

    >>> seen = GrowingLabels()
    >>> seen.codes(["ann", "bob", "ann"]).tolist(), list(seen.labels())
    ([0, 1, 0], ['ann', 'bob'])
    """

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        self._codes: dict[Label, int] = {}
        self._type: type[Label] | None = None
        self.codes(labels)

    def __len__(self) -> int:
        return len(self._codes)

    def checked(self, labels: Iterable[object]) -> list[Label]:
        """Return labels as a list; raise if they do not fit the known ones.

        Nothing is registered yet, so a batch can be rejected as a whole.
        """
        check_list(labels, "a column of labels")
        listed: list[Any] = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        # Rejects mixed types, and labels that cannot be hashed or serialised
        as_label_array(listed)
        if listed and type(listed[0]) not in ((str, int) if self._type is None else (self._type,)):
            raise InputError(
                f"label {listed[0]!r} does not fit: labels must be all strings or all integers."
            )
        return listed

    def known(self, label: object) -> int | None:
        """Return the code of a label, or None if it is unknown."""
        return self._codes.get(label) if type(label) is self._type else None

    def codes(self, labels: Iterable[Label]) -> IntArray:
        """Return the codes of labels; new labels get the next free codes."""
        listed = self.checked(labels)
        if listed and self._type is None:
            self._type = type(listed[0])
        codes = self._codes
        return np.array([codes.setdefault(label, len(codes)) for label in listed], dtype=np.int64)

    def since(self, code: int) -> list[Label]:
        """Return the labels whose code is at least ``code``."""
        newest_first = islice(reversed(self._codes), len(self._codes) - code)
        return list(newest_first)[::-1]

    def labels(self) -> Labels:
        """Return the current labels."""
        return Labels.of(self._codes)


class Exploration:
    """Chooses actions by keyed hash and accumulates their rewards.

    For the first ``warmup_interactions`` (T₀ of Algorithm 1) every play is uniform. Then the
    frequent contexts are fixed: there a user keeps one action a_{i,s}, elsewhere plays stay
    uniform. Without a warm-up, the contexts given at the start are sticky if there are no more of
    them than actions (base case 1); all other plays are uniform (base case 2).

    Users, contexts and actions are codes; labels are used by the hash only. ``is_split`` chooses
    the frequent contexts by ``split_contexts``, as the method "paper" does.
    """

    def __init__(
        self,
        *,
        n_actions: int,
        contexts: Iterable[Label],
        assignment: Assignment,
        warmup_interactions: int,
        alpha: float,
        is_split: bool = False,
    ) -> None:
        self.n_actions = n_actions
        self.assignment = assignment
        self.warmup_interactions = warmup_interactions
        self.alpha = alpha
        self._choose_frequent = split_contexts if is_split else frequent_contexts
        # These arrays grow, so NumPy views of them must be released before the next label is added.
        self._users, self._contexts, self._plays = array("q"), array("q"), array("q")
        self._is_sticky: array[int] | None = None
        self._key = (*assignment.key, assignment.epoch, n_actions)
        self._warmup = Accumulator(n_actions=n_actions)
        self._main = Accumulator(n_actions=n_actions)
        self.add_contexts(contexts)
        if not warmup_interactions:
            self._is_sticky = array("b", [self.n_contexts <= n_actions] * self.n_contexts)

    @property
    def n_users(self) -> int:
        """Number of users so far."""
        return len(self._users)

    @property
    def n_contexts(self) -> int:
        """Number of contexts so far."""
        return len(self._contexts)

    @property
    def warmup_left(self) -> int:
        """Observations left until the frequent contexts are fixed."""
        return max(self.warmup_interactions - self._warmup.n_events, 0)

    def add_users(self, labels: Iterable[Label]) -> None:
        """Register new users; codes continue from the existing ones."""
        self._users.frombytes(self.assignment.digests("user", labels).tobytes())
        self._plays.extend([0] * (len(self._users) - len(self._plays)))

    def add_contexts(self, labels: Iterable[Label]) -> None:
        """Register new contexts; contexts added after the warm-up are treated as rare."""
        self._contexts.frombytes(self.assignment.digests("context", labels).tobytes())
        if self._is_sticky is not None:
            self._is_sticky.extend([False] * (len(self._contexts) - len(self._is_sticky)))

    def decide(self, users: IntArray, contexts: IntArray) -> IntArray:
        """Return the actions to play, in the order of arrival; shape (n_arrivals,)."""
        self._check_codes(users, contexts)
        plays = next_plays(np.asarray(self._plays), users)
        uniform = self._drawn(users, contexts, plays)
        if self.warmup_left:
            return uniform  # Algorithm 1, line 3
        is_sticky = self._sticky()[contexts]  # Algorithm 2, line 5
        # Line 6 for frequent contexts, line 8 for the others.
        return np.where(is_sticky, self._drawn(users, contexts), uniform)

    def decide_one(self, user: int, context: int) -> int | None:
        """``decide`` for one arrival, without arrays; None if a code is not registered."""
        if not (0 <= user < len(self._users) and 0 <= context < len(self._contexts)):
            return None
        if self._is_sticky is None and not self.warmup_left:
            self._sticky()
        self._plays[user] += 1
        is_sticky = self._is_sticky is not None and self._is_sticky[context]
        play = 0 if is_sticky else self._plays[user]
        return _drawn_one(*self._key, self._users[user], self._contexts[context], play)

    def observe(
        self, users: IntArray, contexts: IntArray, actions: IntArray, rewards: FloatArray
    ) -> None:
        """Record the rewards of played actions; each argument has shape (n_events,)."""
        self._check_codes(users, contexts)
        check_bounds(actions, self.n_actions, "action")
        left = self.warmup_left
        if 0 < left < len(users):  # frequent contexts are fixed after the warm-up
            for part in (slice(left), slice(left, None)):
                self.observe(users[part], contexts[part], actions[part], rewards[part])
            return
        in_warmup = np.arange(len(users)) < self.warmup_left
        if not in_warmup.all():
            # A play of an action other than the assigned one was decided before the frequent
            # contexts were fixed; it belongs to the warm-up, even if its reward arrives later.
            is_sticky = self._sticky()[contexts]
            is_other = is_sticky & (actions != self._drawn(users, contexts))
            if not self.warmup_interactions and is_other.any():
                # Without a warm-up, users always get the assigned action, so the play is forged or
                # mistaken.
                raise InputError(
                    f"row {int(np.flatnonzero(is_other)[0])}: this user is never asked to play "
                    "that action in that context; give the action that was decided."
                )
            in_warmup |= is_other
        for phase, chosen in ((self._warmup, in_warmup), (self._main, ~in_warmup)):
            if chosen.any():
                phase.add(users[chosen], contexts[chosen], actions[chosen], rewards[chosen])

    def _check_codes(self, users: IntArray, contexts: IntArray) -> None:
        """Raise if codes are out of bounds, which compiled loops do not check."""
        check_bounds(users, self.n_users, "user")
        check_bounds(contexts, self.n_contexts, "context")

    @property
    def n_events(self) -> int:
        """Observations so far, including those of the warm-up."""
        return self._warmup.n_events + self._main.n_events

    def phases(self) -> dict[str, Tallies]:
        """Return the tallies of the warm-up and of the main phase."""
        shape = {"n_users": self.n_users, "n_contexts": self.n_contexts}
        return {"warmup": self._warmup.tallies(**shape), "main": self._main.tallies(**shape)}

    def to_json(self) -> dict[str, Any]:
        """Return what ``restore`` needs in addition to the tallies, as plain JSON values."""
        return {
            "warmup_interactions": self.warmup_interactions,
            "adversarial_fraction": self.alpha,
            "sticky": None if self._is_sticky is None else [*map(bool, self._is_sticky)],
        }

    @property
    def plays(self) -> IntArray:
        """Number of decisions for each user; shape (n_users,)."""
        return np.array(self._plays)

    def restore(
        self, sticky: list[bool] | None, plays: IntArray, phases: Mapping[str, Tallies]
    ) -> None:
        """Restore the state of ``to_json``, ``plays`` and ``phases``; labels must be registered."""
        if len(plays) != self.n_users or (plays < 0).any():
            raise ValueError("there must be one non-negative number of plays for each user")
        if sticky is not None and len(sticky) != self.n_contexts:
            raise ValueError("the flags of frequent contexts do not have one entry per context")
        self._is_sticky = None if sticky is None else array("b", sticky)
        self._plays = array("q", plays.tolist())
        self._warmup = Accumulator.of(phases["warmup"])
        self._main = Accumulator.of(phases["main"])

    def observed(self) -> tuple[Tallies, Design, Tallies | None]:
        """Return tallies and design of the main phase, and the tallies of the warm-up if any.

        During the warm-up, its tallies are returned as those of the main phase.
        """
        phases = self.phases()
        main, warmup = phases["main"], phases["warmup"]
        if not self._warmup.n_events:
            return main, self._design(main, self._sticky()), None
        if not self._main.n_events:
            return warmup, self._design(warmup, np.zeros(self.n_contexts, np.bool_)), None
        return main, self._design(main, self._sticky()), warmup

    def _design(self, tallies: Tallies, is_sticky: BoolArray) -> Design:
        """Return the design with the sizes of the groups I_{s,a} of line 2 (active users only)."""
        active = np.flatnonzero(np.diff(tallies.indptr) > 0)
        sizes = np.zeros((self.n_contexts, self.n_actions), np.int64)
        for context in np.flatnonzero(is_sticky):
            actions = self._drawn(active, np.full(len(active), context))
            sizes[context] = np.bincount(actions, minlength=self.n_actions)
        return Design(is_sticky, sizes)

    def _sticky(self) -> BoolArray:
        if self._is_sticky is None:
            # Line 1: the frequent contexts from Algorithm 1.
            estimate = estimate_context_probabilities(self.phases()["warmup"], alpha=self.alpha)
            is_frequent = self._choose_frequent(
                estimate.context_probabilities, n_actions=self.n_actions
            )
            self._is_sticky = array("b", is_frequent.tolist())
        return np.array(self._is_sticky, np.bool_)

    def _drawn(
        self, users: IntArray, contexts: IntArray, plays: IntArray | None = None
    ) -> IntArray:
        return self.assignment.actions(
            np.asarray(self._users)[users],
            np.asarray(self._contexts)[contexts],
            n_actions=self.n_actions,
            plays=plays,
        )


def check_bounds(codes: IntArray, n_codes: int, role: str) -> None:
    """Raise IndexError if a code is not in 0, …, n_codes − 1."""
    if len(codes) and (codes.min() < 0 or codes.max() >= n_codes):
        bad = int(codes[(codes < 0) | (codes >= n_codes)][0])
        raise IndexError(f"{role} code {bad} is not among the {n_codes} known ones")


@compiled
def next_plays(plays: IntArray, users: IntArray) -> IntArray:
    """Return, for each arrival, the user's earlier plays; updates the counters ``plays`` in place.

    Users' codes must be within bounds, which ``Exploration.decide`` checks.
    """
    numbers = np.empty(len(users), np.int64)
    for arrival in range(len(users)):
        numbers[arrival] = plays[users[arrival]]
        plays[users[arrival]] += 1
    return numbers


@compiled
def _drawn_one(
    low: int, high: int, epoch: int, n_actions: int, user: int, context: int, play: int
) -> int:
    """Return the action drawn for one arrival."""
    hashed = siphash_of_four((low, high), user, context, epoch, play)
    return np.int64(uniform_index(hashed, np.uint64(n_actions)))  # type: ignore[return-value]  # numba's integers
