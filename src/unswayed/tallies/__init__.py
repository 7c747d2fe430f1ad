"""Per-user sums and counts, sparse and mergeable."""

from unswayed.tallies.accumulator import Accumulator
from unswayed.tallies.tallies import Tallies, entry_users, merged, row_sums, tally

__all__ = ["Accumulator", "Tallies", "entry_users", "merged", "row_sums", "tally"]
