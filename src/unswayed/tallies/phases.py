"""Logs with different actions, together: each play weighs by how likely it was over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.tallies.log_tallies import LogTallies, merged_logs, sorted_union
from unswayed.tallies.summing import row_sums

MOST_ACTIVE = 3.0
"""Ours: a user counts with at most this many times the median user's plays for the length of a
phase, so that no user can stretch one by volume."""

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
    """Return how many plays a phase had, very active users cut down."""
    plays = row_sums(phase.tallies.indptr, phase.tallies.plays)
    active = plays[plays > 0]
    return float(np.minimum(active, MOST_ACTIVE * np.median(active)).sum()) if len(active) else 0.0


def _weighted(phase: LogTallies, likely: Sequence[float] | FloatArray) -> LogTallies:
    """Return a phase whose plays weigh by the inverse probability of their action."""
    tallies = phase.uniform()
    weights = (1.0 / np.asarray(likely))[tallies.cells % tallies.n_actions]
    return replace(phase, tallies=tallies.scaled(weights))
