"""Old decisions are deleted with their rewards and keys, and nothing else is deleted."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.service.running import SHOP, Running, running, until
from unswayed.errors import InputError
from unswayed.policy import Decider
from unswayed.service.catalogue import campaign, now_ms
from unswayed.service.database import Connection
from unswayed.service.deciding import DecideRequest, Serving
from unswayed.service.planning import make_plan
from unswayed.service.records import delete_old, export_batches
from unswayed.service.settings import parsed_settings
from unswayed.service.tokens import encode_record
from unswayed.service.writing import (
    Report,
    write_activations,
    write_asked,
    write_rewards,
)

SHORT = msgspec.structs.replace(SHOP, reward_window=0.5, retention=3600.0)
TABLES = ("asked", "rewards", "activations", "decisions")


def remember(server: Running, ages_ms: list[int]) -> None:
    """Write a decision of each age, with an idempotency key, an activation and a reward."""
    with server.prepared.database.connected() as connection, connection.transaction():
        there = campaign(connection, "shop")
        served = Serving.of(there, Decider(make_plan("shop", there.settings), bytes(16)))
        for number, age in enumerate(ages_ms):
            when = now_ms() - age
            one = served.decided(DecideRequest(f"user {number}", "lunch"), when)
            payload = encode_record(one)
            report = Report(one, payload, when, is_late=False, value=1.0)
            write_asked(connection, [("shop", f"key {number}", when, payload)], Counter())
            write_activations(connection, [report], Counter())
            write_rewards(connection, [report], Counter())


def exported_users(connection: Connection) -> list[str]:
    batches = export_batches(connection, "shop")
    return [row["user"] for batch in batches for row in batch.to_pylist()]


def n_rows(connection: Connection) -> dict[str, int]:
    return {
        table: int(connection.execute(f"SELECT COUNT(*) FROM {table}")[0][0]) for table in TABLES
    }


def test_decisions_older_than_the_retention_are_deleted(store: str, tmp_path: Path) -> None:
    with running(store, tmp_path, SHOP) as server:
        hour = 3_600_000
        with server.prepared.database.connected() as connection, connection.transaction():
            connection.execute("UPDATE campaigns SET created_ms = ?", now_ms() - 10 * hour)
        remember(server, [9 * hour, 8 * hour, 2 * hour, hour // 2, 5_000])
    with running(store, tmp_path, SHORT) as server:
        database = server.prepared.database

        def left() -> dict[str, int]:
            with database.connected() as connection:
                return n_rows(connection)

        until(lambda: set(left().values()) == {2}, 30.0)
        with database.connected() as connection:
            kept = exported_users(connection)
        assert kept == ["user 3", "user 4"]


def test_decisions_being_deleted_are_not_learned_from(tmp_path: Path) -> None:
    """Deletion takes time, and may delete decisions before their rewards or after them."""
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, SHOP) as server:
        with server.prepared.database.connected() as connection, connection.transaction():
            connection.execute("UPDATE campaigns SET created_ms = 0")
        remember(server, [3_630_000, 3_500_000])
        changed = msgspec.json.encode(SHORT).decode()
        with server.prepared.database.connected() as connection:
            connection.execute("UPDATE campaigns SET settings = ?", changed)
            kept = exported_users(connection)
    assert kept == ["user 1"]


def test_other_campaigns_keep_their_decisions(sqlite_shop: Running) -> None:
    remember(sqlite_shop, [7_200_000])
    database = sqlite_shop.prepared.database
    assert delete_old(database, "other", now_ms())
    with database.connected() as connection:
        assert set(n_rows(connection).values()) == {1}
    assert delete_old(database, "shop", now_ms() - 3_600_000)
    with database.connected() as connection:
        assert set(n_rows(connection).values()) == {0}


def test_retention_must_exceed_the_reward_window() -> None:
    plain = {"contexts": ["a"], "actions": ["x", "y"], "reward_window": 100.0}
    assert parsed_settings({**plain, "retention": 160.0}, "shop").retention == 160.0
    for wrong in (159.0, -1.0):
        with pytest.raises(InputError, match="retention"):
            parsed_settings({**plain, "retention": wrong}, "shop")
