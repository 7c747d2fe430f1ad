"""Stores for the tests of the service, on SQLite and on PostgreSQL."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.service.running import Running, running
from unswayed.service.settings import DEMO


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    return new_database(request.getfixturevalue("postgresql"))


def new_database(server: str) -> str:
    """Return the address of a new database on a server."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.rpartition("/")[0] + f"/{name}"


@pytest.fixture
def shop(store: str, tmp_path: Path) -> Iterator[Running]:
    """Yield a server with one campaign, on each database."""
    with running(store, tmp_path) as server:
        yield server


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Iterator[Running]:
    """Yield a server with one campaign on SQLite, for tests that do not depend on the database."""
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path) as server:
        yield server


@pytest.fixture
def sqlite_demo(tmp_path: Path) -> Iterator[Running]:
    """Yield a server with the campaign that exists without a configuration."""
    settings = DEMO.campaigns["demo"]
    with running(f"sqlite:///{tmp_path}/demo.db", tmp_path, settings, name="demo") as server:
        yield server
