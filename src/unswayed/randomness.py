"""The only place that creates random generators."""

from __future__ import annotations

import zlib

import numpy as np

from unswayed.errors import InputError, option


def generator(seed: int, *path: int | str) -> np.random.Generator:
    """Return the generator of one named stream under a seed.

    Streams with different paths are independent. A stream depends on its seed and path only, not
    on the process or on other streams.

    >>> first = generator(0, "rewards", 3).random()
    >>> first == generator(0, "rewards", 3).random()
    True
    >>> first == generator(0, "rewards", 4).random()
    False
    """
    if seed < 0:
        raise InputError(f"{option('--seed')} is {seed}: it must be 0 or larger.")
    key = tuple(
        # A leading 1 distinguishes names from plain numbers.
        (1 << 32) | zlib.crc32(part.encode()) if isinstance(part, str) else part
        for part in path
    )
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
