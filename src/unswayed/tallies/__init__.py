"""Per-user sums and counts, sparse and mergeable."""

from unswayed.tallies.accumulator import Accumulator
from unswayed.tallies.log_tallies import MIN_PROPENSITY, LogTallies, merged_logs, tally_events
from unswayed.tallies.summing import row_sums
from unswayed.tallies.tallies import Tallies, entry_users, merged, tally
from unswayed.tallies.user_tallies import UserTallies

__all__ = [
    "MIN_PROPENSITY",
    "Accumulator",
    "LogTallies",
    "Tallies",
    "UserTallies",
    "entry_users",
    "merged",
    "merged_logs",
    "row_sums",
    "tally",
    "tally_events",
]
