"""Tallies with labels, so that logs of different days, or with different actions, add up."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.events import UNKNOWN, Events, Labels
from unswayed.events.hashing import text_hash, union_of_users, user_hashes
from unswayed.tallies.summing import row_sums
from unswayed.tallies.tallies import Tallies, entry_users, summed, tally

#: Ours. Smaller propensities count as this one, so that no event weighs more than a hundred.
MIN_PROPENSITY = 0.01

#: Ours: target number of events per block: fits a worker's memory, and amortises the overhead of
#: a task.
EVENTS_PER_BLOCK = 1 << 21

#: Ours: maximum number of blocks; larger logs get larger blocks.
MAX_BLOCKS = 256

MOST_ACTIVE = 3.0
"""Ours: cap on a user's plays, in multiples of the median, when a phase is measured."""


@dataclass(frozen=True, slots=True, eq=False)
class LogTallies:
    """Tallies with the labels of their users, contexts and actions.

    With propensities an event weighs 1/propensity. That does not depend on the number of actions,
    so logs add up even when a later one brings new actions; ``uniform`` gives the tallies that a
    log of uniform plays would have given on average.
    """

    tallies: Tallies
    user_labels: Labels
    context_labels: Labels
    action_labels: Labels

    def uniform(self) -> Tallies:
        """Return the tallies as if every action had been played with probability 1/A."""
        if not self.tallies.is_weighted:
            return self.tallies
        return self.tallies.scaled(1.0 / self.tallies.n_actions)

    def without_action(self, action: object) -> LogTallies:
        """Return the tallies without the plays of one action, as if it had never been there.

        >>> log = Events.of(["ann", "ann"], ["home"] * 2, ["tea", "milk"], [1.0, 0.0])
        >>> tally_events(log).without_action("milk").tallies.counts.tolist()
        [1.0]
        """
        n_actions, removed = self.tallies.n_actions, self.action_labels.code(action)
        kept = self.tallies.of_entries(self.tallies.cells % n_actions != removed)
        contexts, actions = np.divmod(kept.cells, n_actions)
        cells = contexts * (n_actions - 1) + actions - (actions > removed)
        tallies = replace(kept, n_actions=n_actions - 1, cells=cells)
        others = Labels.of(label for label in self.action_labels if label != action)
        return replace(self, tallies=tallies, action_labels=others)

    def in_blocks(self, n_events: int | None = None) -> LogTallies:
        """Return the same tallies cut into blocks of users, as the number of events decides.

        ``n_events`` counts those too that a cap left out; None takes what is in the tallies.
        """
        if self.tallies.bounds:
            return self
        n_blocks = n_blocks_for(int(self.tallies.plays.sum()) if n_events is None else n_events)
        bounds = tuple(user_bounds(self.user_labels, n_blocks))
        return replace(self, tallies=replace(self.tallies, bounds=bounds))

    def with_actions(self, action_labels: Labels) -> LogTallies:
        """Return the same tallies with the given actions, in their order, more or as many."""
        codes = action_labels.codes(self.action_labels)
        if (codes == UNKNOWN).any():
            unknown = self.action_labels[int(np.flatnonzero(codes == UNKNOWN)[0])]
            raise InputError(f"the log has action {unknown!r}, which is not among `actions`.")
        contexts, actions = np.divmod(self.tallies.cells, self.tallies.n_actions)
        cells = contexts * np.int32(len(action_labels)) + codes.astype(np.int32)[actions]
        users = entry_users(self.tallies.indptr).astype(np.int32)
        shape = (self.tallies.n_users, self.tallies.n_contexts, len(action_labels))
        tallies = summed([self.tallies], [users], [cells], *shape)
        return replace(self, tallies=tallies, action_labels=action_labels)


def tally_events(events: Events, *, min_propensity: float = MIN_PROPENSITY) -> LogTallies:
    """Return the tallies of a log; importance-weighted when it has propensities.

    ``min_propensity`` clips the weights: it trades a bias, towards too small weights of very rare
    actions, for a bounded influence of each event.
    """
    check_min_propensity(min_propensity)
    weights = None
    if events.propensities is not None:
        weights = 1.0 / np.maximum(events.propensities, min_propensity)
    tallies = tally(
        events.users,
        events.contexts,
        events.actions,
        events.rewards,
        n_users=events.n_users,
        n_contexts=events.n_contexts,
        n_actions=events.n_actions,
        weights=weights,
    )
    if weights is not None and not (
        np.isfinite(tallies.counts).all() and np.isfinite(tallies.squares).all()
    ):
        raise InputError(
            f"the weighted sums of rewards overflow: raise {option('--min-propensity')} or rescale "
            "the rewards."
        )
    return LogTallies(tallies, events.user_labels, events.context_labels, events.action_labels)


def check_min_propensity(value: float) -> None:
    """Reject what is no probability above 0."""
    if not 0.0 < value <= 1.0:
        raise InputError(
            f"{option('--min-propensity')} is {value}: it must be above 0 and at most 1."
        )


def merged_logs(
    parts: Sequence[LogTallies],
    *,
    context_labels: Labels | None = None,
    action_labels: Labels | None = None,
) -> LogTallies:
    """Return the tallies of several logs together, exactly as if they had been read as one.

    Parameters
    ----------
    parts
        The tallies of each log.
    context_labels, action_labels
        What to code them by, when there are more than these parts know.

    Notes
    -----
    Labels are put in the order in which ``read_events`` codes them, and sums are exact (see
    ``summing.grouped_sums``), so the result depends neither on how the log was cut nor on the
    order of the parts.
    """
    if not parts:
        raise InputError("there are no tallies to add up.")
    user_labels, user_codes = union_of_users([part.user_labels for part in parts])
    if context_labels is None:
        context_labels = sorted_union([part.context_labels for part in parts], "contexts")
    if action_labels is None:
        action_labels = sorted_union([part.action_labels for part in parts], "actions")
    users, cells = [], []
    for part, codes in zip(parts, user_codes, strict=True):
        users.append(codes[entry_users(part.tallies.indptr)])
        contexts = context_labels.codes(part.context_labels).astype(np.int32)
        actions = action_labels.codes(part.action_labels).astype(np.int32)
        old_contexts, old_actions = np.divmod(part.tallies.cells, part.tallies.n_actions)
        cells.append(contexts[old_contexts] * np.int32(len(action_labels)) + actions[old_actions])
    shape = (len(user_labels), len(context_labels), len(action_labels))
    tallies = summed([part.tallies for part in parts], users, cells, *shape)
    return LogTallies(tallies, user_labels, context_labels, action_labels)


def sorted_union(parts: Sequence[Labels], role: str) -> Labels:
    """Return the labels of all parts in their own order, in which ``read_events`` codes them."""
    kinds = {part.type_name for part in parts if len(part)}
    if len(kinds) > 1:
        raise InputError(
            f"{role} are of different types ({', '.join(sorted(kinds))}) in logs that should be "
            "added up; write them all as strings."
        )
    return Labels.of(sorted({label for part in parts for label in part}))


def n_blocks_for(n_events: int) -> int:
    """Return how many blocks a log is cut into: a power of two that its size alone decides.

    >>> n_blocks_for(1_000), n_blocks_for(20_000_000)
    (1, 16)
    """
    n_blocks = 1
    while n_blocks < MAX_BLOCKS and n_blocks * EVENTS_PER_BLOCK < n_events:
        n_blocks *= 2
    return n_blocks


def user_bounds(users: Labels, n_blocks: int) -> list[int]:
    """Return where the blocks begin among users in their order, and where the last one ends.

    Block b of B holds the users whose hash is in [b·2^64/B, (b+1)·2^64/B), whoever else there is.
    """
    limits = [(block << 64) // n_blocks for block in range(1, n_blocks)]
    if limits and users.type_name not in ("string", "integer"):
        hashes = user_hashes(users)
        return [0, *np.searchsorted(hashes, np.array(limits, np.uint64)).tolist(), len(users)]
    bounds = [0]
    for limit in limits:  # a few hundred hashes instead of one for every user
        bounds.append(
            bisect.bisect_left(
                range(len(users)),
                limit,
                lo=bounds[-1],
                key=lambda code: text_hash(str(users[code])),
            )
        )
    return [*bounds, len(users)]


Phases = tuple[LogTallies, ...]


def with_log(phases: Phases, log: LogTallies) -> Phases:
    """Return the phases with one more log; logs with the same actions become one phase."""
    for place, phase in enumerate(phases):
        if phase.tallies.is_weighted == log.tallies.is_weighted and set(phase.action_labels) == set(
            log.action_labels
        ):
            together = merged_logs([phase, log])
            return (*phases[:place], together, *phases[place + 1 :])
    return (*phases, log)


def without_action(phases: Phases, action: object) -> Phases:
    """Return the phases without the plays of one action."""
    kept: Phases = ()
    for phase in phases:
        others = phase.without_action(action) if action in phase.action_labels else phase
        kept = with_log(kept, others)
    return kept


def combined(phases: Phases) -> LogTallies:
    """Return one log of several phases.

    Notes
    -----
    An action that was added late could not be played before, and would look worse than it is if
    plays weighed by the probability within their phase. By the balance heuristic (Veach & Guibas
    1995) a play weighs 1/p̄, its action's probability averaged over all plays of all phases. That is
    right if contexts are as frequent in every phase.
    """
    if len(phases) == 1:
        return phases[0]
    actions = sorted_union([phase.action_labels for phase in phases], "actions")
    expected = np.zeros(len(actions))
    for phase in phases:
        codes = actions.codes(phase.action_labels)
        expected[codes] += _length(phase) / len(codes)
    likely = expected / expected.sum()
    return merged_logs(
        [_weighted(phase, likely[actions.codes(phase.action_labels)]) for phase in phases]
    )


def _length(phase: LogTallies) -> float:
    """Return the number of plays in a phase, with very active users capped."""
    plays = row_sums(phase.tallies.indptr, phase.tallies.plays)
    active = plays[plays > 0]
    return float(np.minimum(active, MOST_ACTIVE * np.median(active)).sum()) if len(active) else 0.0


def _weighted(phase: LogTallies, likely: Sequence[float] | FloatArray) -> LogTallies:
    """Return a phase whose plays weigh by the inverse probability of their action."""
    tallies = phase.uniform()
    weights = (1.0 / np.asarray(likely))[tallies.cells % tallies.n_actions]
    return replace(phase, tallies=tallies.scaled(weights))
