"""A digest of a log that does not depend on how it was cut, so that none is added twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unswayed.events import Events
from unswayed.events.hashing import HashArray, bits, label_hashes, row_hashes
from unswayed.events.user_order import user_hashes
from unswayed.tallies.log_data import LogData
from unswayed.tallies.tallies import entry_users

#: Two sums of different hashes make one digest of 128 bits.
_SEEDS = (1, 2)

Digest = tuple[int, ...]


def digest_of(data: LogData) -> Digest:
    """Return sums of a hash of every row; those of parts that share no user and cell add up."""
    if isinstance(data, Events):
        users = data.users.astype(np.int64)
        contexts, actions = data.contexts.astype(np.int64), data.actions.astype(np.int64)
        numbers = [bits(data.rewards)]
        if data.propensities is not None:
            numbers.append(bits(data.propensities))
        if data.times is not None:
            numbers.append(bits(data.times))
    else:
        tallies = data.tallies
        users = entry_users(tallies.indptr)
        contexts, actions = np.divmod(tallies.cells.astype(np.int64), max(tallies.n_actions, 1))
        numbers = [bits(column) for column in (tallies.counts, tallies.sums, tallies.squares)]
    labels: list[HashArray] = [
        user_hashes(data.user_labels)[users],
        label_hashes(data.context_labels, contexts),
        label_hashes(data.action_labels, actions),
    ]
    columns = np.stack([*labels, *numbers])
    return tuple(
        int(row_hashes(columns, np.full(len(users), seed, np.uint64)).sum(dtype=np.uint64))
        for seed in _SEEDS
    )


def digest_text(parts: Sequence[Digest]) -> str:
    """Return the digest of parts together, as text."""
    return "".join(f"{sum(sums) % (1 << 64):016x}" for sums in zip(*parts, strict=True))
