"""Between reading and learning: tallies of events, and merging them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unswayed.defaults import MIN_PROPENSITY
from unswayed.errors import InputError, option
from unswayed.events import Events, Labels, Provenance, Reading
from unswayed.events.hashing import bits, label_hashes, row_hashes, union_of_users, user_hashes
from unswayed.events.thinning import capped, forgotten
from unswayed.tallies.summing import row_sums
from unswayed.tallies.tallies import Tallies, UserTallies, entry_users, relabelled, tally

# Ours: to measure the length of a phase, a user's plays are capped at this multiple of the median
MOST_ACTIVE = 3.0
_SEEDS = (1, 2)  # Seeds of the two 64-bit hash sums that make up a digest


def tally_events(events: Events, *, min_propensity: float = MIN_PROPENSITY) -> Tallies:
    """Return the tallies of a log, importance-weighted if it has propensities.

    ``min_propensity`` clips the weights, which bounds the influence of each event at the price of a
    bias: very rare actions get too little weight.
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
    return tallies.labelled(events.user_labels, events.context_labels, events.action_labels)


def check_min_propensity(value: float) -> None:
    """Reject values that are not probabilities above 0."""
    if not 0.0 < value <= 1.0:
        raise InputError(
            f"{option('--min-propensity')} is {value}: it must be above 0 and at most 1."
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedLog:
    """A tallied log, or a part of one, with statistics of its reading; input of learning."""

    tallies: UserTallies  # weighted as if actions were uniform
    provenance: Provenance
    n_clipped: int | None = None  # propensities that were raised; None without propensities
    n_users_capped: int = 0
    n_events_capped: int = 0  # number of events dropped by a cap
    n_events_forgotten: int = 0  # number of events dropped by a half-life
    windows: tuple[Tallies, Tallies] | None = None  # tallies before and within the last half-life
    n_logs: int | None = None  # number of logs in the folder of tallies, if there is one
    is_new: bool = True  # whether a log was read besides the folder of tallies
    shape: Any = None  # how contexts were learned from features (``learners.features``)

    @property
    def times(self) -> tuple[str | None, str | None]:
        """First and last time; unknown for several logs together."""
        if self.n_logs not in (None, 1):
            return None, None
        return self.provenance.first_time, self.provenance.last_time


def prepared(
    reading: Reading,
    *,
    min_propensity: float,
    max_interactions_per_user: int | None = None,
    half_life: float | None = None,
) -> PreparedLog:
    """Apply the half-life and the cap; return the tallies, and how many events were dropped."""
    events, propensities = reading.events, reading.events.propensities
    windows = None if half_life is None else windows_of(events, half_life)
    n_read, n_capped = len(events), 0
    if half_life is not None:
        events = forgotten(events, half_life=half_life)
    n_remembered = len(events)
    if max_interactions_per_user is not None:
        n_capped = int((np.bincount(events.users) > max_interactions_per_user).sum())
        events = capped(events, max_interactions=max_interactions_per_user)
    return PreparedLog(
        tallies=tally_events(events, min_propensity=min_propensity),
        provenance=reading.provenance,
        n_clipped=None if propensities is None else int((propensities < min_propensity).sum()),
        n_users_capped=n_capped,
        n_events_capped=n_remembered - len(events),
        n_events_forgotten=n_read - n_remembered,
        windows=windows,
    )


def merged_logs(
    parts: Sequence[Tallies],
    *,
    context_labels: Labels | None = None,
    action_labels: Labels | None = None,
) -> Tallies:
    """Return the tallies of several logs together, exactly as if they had been read as one.

    ``context_labels`` and ``action_labels`` define the codes, if there are more labels than in
    these parts. Labels are in the order in which ``read_events`` codes them, and sums are exact
    (see ``summing.grouped_sums``), so the result depends neither on how the log was divided nor on
    the order of the parts.
    """
    if not parts:
        raise InputError("there are no tallies to add up.")
    users, user_codes = union_of_users([part.user_labels for part in parts])
    if context_labels is None:
        context_labels = sorted_union([part.context_labels for part in parts], "contexts")
    if action_labels is None:
        action_labels = sorted_union([part.action_labels for part in parts], "actions")
    return relabelled(parts, user_codes, (users, context_labels, action_labels))


def sorted_union(parts: Sequence[Labels], role: str) -> Labels:
    """Return the sorted labels of all parts, in the order in which ``read_events`` codes them."""
    kinds = {part.type_name for part in parts if len(part)}
    if len(kinds) > 1:
        raise InputError(
            f"{role} are of different types ({', '.join(sorted(kinds))}) in logs that should be "
            "added up; write them all as strings."
        )
    return Labels.of(sorted({label for part in parts for label in part}))


def windows_of(events: Events, half_life: float) -> tuple[Tallies, Tallies] | None:
    """Return the tallies before and within the last half-life; None if nothing was before it."""
    assert events.times is not None  # reading rejects a half-life without times
    is_after = events.times > events.times.max(initial=-np.inf) - half_life
    if is_after.all():
        return None
    return tally_events(events.rows(~is_after)), tally_events(events.rows(is_after))


def digest_of(data: Tallies | Events) -> tuple[int, ...]:
    """Digest of a log: two sums of row hashes, which do not depend on the order of the rows."""
    if isinstance(data, Events):
        users = data.users.astype(np.int64)
        contexts, actions = data.contexts.astype(np.int64), data.actions.astype(np.int64)
        numbers = [data.rewards, data.propensities, data.times]
    else:
        users = entry_users(data.indptr)
        contexts, actions = np.divmod(data.cells.astype(np.int64), max(data.n_actions, 1))
        numbers = [data.counts, data.sums, data.squares]
    columns = np.stack(
        [
            user_hashes(data.user_labels)[users],
            label_hashes(data.context_labels, contexts),
            label_hashes(data.action_labels, actions),
            *(bits(column) for column in numbers if column is not None),
        ]
    )
    return tuple(
        int(row_hashes(columns, np.full(len(users), seed, np.uint64)).sum(dtype=np.uint64))
        for seed in _SEEDS
    )


Phases = tuple[Tallies, ...]


def with_log(phases: Phases, log: Tallies) -> Phases:
    """Return the phases with one more log; logs with the same actions become one phase."""
    for place, phase in enumerate(phases):
        if phase.is_weighted == log.is_weighted and set(phase.action_labels) == set(
            log.action_labels
        ):
            together = merged_logs([phase, log])
            return (*phases[:place], together, *phases[place + 1 :])
    return (*phases, log)


def without_action(phases: Phases, action: object) -> Phases:
    """Return the phases without the plays of one action."""
    kept: Phases = ()
    for phase in phases:
        others = Labels.of(label for label in phase.action_labels if label != action)
        kept = with_log(kept, phase.with_actions(others))
    return kept


def combined(phases: Phases) -> Tallies:
    """Combine phases with different actions into one log.

    An action that was added late could not be played before, so weights by the probability within a
    phase would give it too small a share. By the balance heuristic (Veach & Guibas 1995) a play has
    the weight 1/p̄, where p̄ is its action's probability averaged over all plays of all phases.
    That is unbiased if contexts are equally frequent in every phase.
    """
    if len(phases) == 1:
        return phases[0]
    actions = sorted_union([phase.action_labels for phase in phases], "actions")
    codes = [actions.codes(phase.action_labels) for phase in phases]
    expected = np.zeros(len(actions))
    for phase, own in zip(phases, codes, strict=True):
        plays = row_sums(phase.indptr, phase.plays)
        active = plays[plays > 0]
        if len(active):  # very active users count up to a cap
            length = np.minimum(active, MOST_ACTIVE * np.median(active)).sum()
            expected[own] += length / len(own)
    likely = expected / expected.sum()
    return merged_logs(
        [
            phase.uniform().scaled((1.0 / likely[own])[phase.cells % phase.n_actions])
            for phase, own in zip(phases, codes, strict=True)
        ]
    )
