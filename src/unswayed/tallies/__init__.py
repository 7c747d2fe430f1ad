"""Per-user sums and counts, sparse and mergeable."""

from unswayed.tallies.accumulator import Accumulator
from unswayed.tallies.blocked import BlockedTallies, as_blocks
from unswayed.tallies.labelled import MIN_PROPENSITY, LabelledTallies, merged_logs, tally_events
from unswayed.tallies.summing import row_sums
from unswayed.tallies.tallies import Tallies, entry_users, merged, tally

__all__ = [
    "MIN_PROPENSITY",
    "Accumulator",
    "BlockedTallies",
    "LabelledTallies",
    "Tallies",
    "as_blocks",
    "entry_users",
    "merged",
    "merged_logs",
    "row_sums",
    "tally",
    "tally_events",
]
