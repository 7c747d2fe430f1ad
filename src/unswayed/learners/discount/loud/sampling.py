"""Some users' plays side by side, without importance weights."""

from __future__ import annotations

import numpy as np

from unswayed.learners.discount.answers import entries_of
from unswayed.learners.discount.settings import SAMPLE_ENTRIES
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.tallies import BlockedTallies, Tallies


def sampled(tallies: BlockedTallies, rng: np.random.Generator) -> tuple[Tallies, IntArray | slice]:
    """Return the plays of random users, and their codes; a slice if nobody was left out."""
    n_entries = int(tallies.cell_users().sum())
    if n_entries <= SAMPLE_ENTRIES:
        everybody = [np.arange(size) for size in tallies.sizes]
        return _joined(tallies.blocks.map_blocks(_plays_of, pieces=everybody)), slice(None)
    size = max(1, int(tallies.n_users * SAMPLE_ENTRIES / n_entries))
    chosen = np.sort(rng.choice(tallies.n_users, size=size, replace=False))
    ends = np.cumsum(tallies.sizes)
    inside = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    pieces = [codes - first for codes, first in zip(inside, ends - tallies.sizes, strict=True)]
    return _joined(tallies.blocks.map_blocks(_plays_of, pieces=pieces)), chosen


def single_rewards(tallies: Tallies) -> FloatArray:
    """Return the rewards of entries whose plays all brought the same, one for each."""
    means = tallies.sums / tallies.counts
    spread = tallies.squares / tallies.counts - means * means
    is_one = (tallies.plays < 1.5) | (spread <= 1e-12 * means * means)
    return np.asarray(means[is_one])


def _plays_of(tallies: Tallies, chosen: IntArray) -> Tallies:
    indptr, entries = entries_of(tallies.indptr, chosen)
    plays = tallies.plays[entries]
    per_weight = plays / tallies.counts[entries]
    return Tallies(
        len(chosen),
        tallies.n_contexts,
        tallies.n_actions,
        indptr,
        tallies.cells[entries],
        plays,
        tallies.sums[entries] * per_weight,
        tallies.squares[entries] * per_weight,
    )


def _joined(parts: list[Tallies]) -> Tallies:
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    return Tallies(
        len(lengths),
        parts[0].n_contexts,
        parts[0].n_actions,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([part.cells for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.sums for part in parts]),
        np.concatenate([part.squares for part in parts]),
    )
