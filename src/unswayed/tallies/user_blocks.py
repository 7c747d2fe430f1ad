"""How users are cut into blocks: by a hash of their label, and by the size of the log alone."""

from __future__ import annotations

import bisect

import numpy as np

from unswayed.events import Labels
from unswayed.events.hashing import text_hash
from unswayed.events.user_order import user_hashes

#: Ours: blocks hold about as many events at most. Small enough for a worker's memory and to keep
#: all cores busy, large enough that sending functions to them costs little.
EVENTS_PER_BLOCK = 1 << 21

#: Ours: beyond, blocks grow instead: every pass sends a vector to each block and gets one back.
MAX_BLOCKS = 256


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
