"""Fixtures shared by all tests; all seeds come from here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import settings

from tests.postgresql import running_server
from unswayed.randomness import generator

# Compiling a kernel takes longer than any deadline, and tests must be deterministic.
settings.register_profile("unswayed", deadline=None, derandomize=True)
settings.load_profile("unswayed")


@pytest.fixture(
    params=[int(seed) for seed in os.environ.get("UNSWAYED_TEST_SEEDS", "0").split(",")]
)
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of this run; UNSWAYED_TEST_SEEDS=0,1,2 runs every such test thrice."""
    value: int = request.param
    return value


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a random generator that depends only on the seed and on the name of the test."""
    return generator(seed, request.node.originalname)


@pytest.fixture
def streams(seed: int, request: pytest.FixtureRequest) -> Callable[..., np.random.Generator]:
    """Return a function that makes further named generators, for tests that need several."""
    return lambda *path: generator(seed, request.node.originalname, *path)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Yield the address of a PostgreSQL server."""
    with running_server() as address:
        yield address
