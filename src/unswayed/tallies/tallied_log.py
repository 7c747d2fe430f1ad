"""A log as it is learned from, wherever it was tallied."""

from __future__ import annotations

from dataclasses import dataclass

from unswayed.events import Labels, Provenance
from unswayed.tallies.log_tallies import LogTallies
from unswayed.tallies.user_tallies import UserTallies


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TalliedLog:
    """Tallies, what their codes stand for, and what reading the log showed.

    Attributes
    ----------
    tallies
        As if every action had been played with probability 1/A.
    user_labels, context_labels, action_labels
        What the codes stand for. The users may be left out, where their labels lie elsewhere.
    provenance
        What was read.
    clipped_share
        Share of the propensities that were raised; None without propensities.
    n_users_capped, n_events_dropped
        What a cap on interactions left out.
    n_events_forgotten
        What a half-life left out.
    windows
        With a half-life, tallies of all events before the last one and in it, if there are any.
    n_logs
        Logs in the folder of tallies; None without a folder.
    """

    tallies: UserTallies
    user_labels: Labels
    context_labels: Labels
    action_labels: Labels
    provenance: Provenance
    clipped_share: float | None = None
    n_users_capped: int = 0
    n_events_dropped: int = 0
    n_events_forgotten: int = 0
    windows: tuple[LogTallies, LogTallies] | None = None
    n_logs: int | None = None
