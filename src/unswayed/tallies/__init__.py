"""Per-user sums and counts, sparse and mergeable."""

from unswayed.defaults import MIN_PROPENSITY
from unswayed.tallies.log_data import merged_logs, tally_events
from unswayed.tallies.summing import row_sums
from unswayed.tallies.tallies import (
    Accumulator,
    Tallies,
    UserRows,
    UserTallies,
    entries_of,
    entry_users,
    joined,
    merged,
    tally,
)

__all__ = [
    "MIN_PROPENSITY",
    "Accumulator",
    "Tallies",
    "UserRows",
    "UserTallies",
    "entries_of",
    "entry_users",
    "joined",
    "merged",
    "merged_logs",
    "row_sums",
    "tally",
    "tally_events",
]
