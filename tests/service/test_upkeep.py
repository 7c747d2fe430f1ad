"""Stores are checked, backed up while in use, and migrated to a new format."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.service.running import SHOP, Running, running, until
from tests.service.test_faults import Load, check_kept
from unswayed.errors import InputError
from unswayed.service.database import opened
from unswayed.service.serving import prepare
from unswayed.service.settings import Configuration
from unswayed.service.upkeep import back_up, check_store, migrate

CONFIGURATION = Configuration(campaigns={"shop": SHOP})


def unswayed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = Path(sys.executable).with_name("unswayed")
    return subprocess.run(
        [path, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_backup_of_a_store_in_use_can_be_served(store: str, tmp_path: Path) -> None:
    """It contains everything that was acknowledged before, and can be restored."""
    copy, back = f"sqlite:///{tmp_path}/copy.db", f"sqlite:///{tmp_path}/back.db"
    with running(store, tmp_path) as server:
        token = server.decide("early")["token"]
        server.post("/v1/shop/reward", {"token": token, "reward": 1.0})
        load = Load(server.address, n_threads=2)
        until(lambda: len(load.acknowledged) > 120, 60.0)
        before = dict(load.acknowledged)
        rows = back_up(store, copy)
        load.stop()
    assert len(before) <= rows["rewards"]
    load.acknowledged = before
    check_kept(load, copy)
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.glob("*copy*")] == ["copy.db"]
    assert not check_store(copy, None)["problems"]
    assert back_up(copy, back)["rewards"] == rows["rewards"]
    with running(back, tmp_path) as server:  # with the same secret: tokens stay valid
        server.post("/v1/shop/reward", {"token": token, "reward": 1.0})
    with pytest.raises(InputError, match="exists already"):
        back_up(store, copy)


def test_a_check_finds_damage(store: str, tmp_path: Path) -> None:
    with running(store, tmp_path) as server:
        for number in range(3):
            token = server.decide(f"user {number}")["token"]
            server.post("/v1/shop/reward", {"token": token, "reward": 1.0})
        until(lambda: server.get("/v1/shop/status")["decisions"] == 3)
        found = check_store(store, server.prepared.secrets)
        assert found["problems"] == []
        assert found["campaigns"] == {"shop": {"decisions": 3, "rewards": 3, "activations": 0}}
    for statement in (
        "UPDATE plans SET plan = '{}'",
        "UPDATE decisions SET n = n + 1",
        "UPDATE rewards SET decision = record",
        "UPDATE meta SET value = 'other' WHERE name = 'secret'",
    ):
        broken = f"sqlite:///{tmp_path}/{len(statement)}.db"
        back_up(store, broken)
        with opened(broken).connected() as connection:
            connection.execute(statement)
        assert len(check_store(broken, server.prepared.secrets)["problems"]) == 1, statement


def as_format_2(store: str) -> None:
    """Undo the changes that format 3 made to a store."""
    with opened(store).connected() as connection, connection.transaction():
        for table in ("reports", "forgotten"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DELETE FROM meta WHERE name IN ('secret', 'signing', 'keyed')")
        connection.execute("UPDATE meta SET value = '2' WHERE name = 'schema'")


def test_a_store_of_an_older_format_is_migrated_and_unknown_formats_are_refused(
    store: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    prepare(CONFIGURATION, store=store, secret_path=secret)
    as_format_2(store)
    with pytest.raises(InputError, match=r"format 2 .*unswayed store migrate"):
        prepare(CONFIGURATION, store=store, secret_path=secret)
    assert migrate(store) == ("2", "4")
    assert migrate(store) == ("4", "4")
    prepare(CONFIGURATION, store=store, secret_path=secret)
    for wrong in ("1", "5"):
        with opened(store).connected() as connection:
            connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", wrong)
        for refused in (migrate, lambda url: check_store(url, None)):
            with pytest.raises(InputError, match=f"format {wrong} and this version"):
                refused(store)


def test_migrating_a_store_without_attributes_keeps_its_records(store: str, tmp_path: Path) -> None:
    """Format 4 adds attributes to decisions; those of format 3 have none."""
    with running(store, tmp_path) as server:
        found = server.decide(idempotency_key="before")
    with opened(store).connected() as connection:
        connection.execute("UPDATE meta SET value = '3' WHERE name = 'schema'")
        (row,) = connection.execute("SELECT settings FROM campaigns")
        settings = json.loads(row[0])
        del settings["features"]  # format 3 does not have them
        connection.execute("UPDATE campaigns SET settings = ?", json.dumps(settings))
    assert migrate(store) == ("3", "4")
    with running(store, tmp_path) as server:
        server.post("/v1/shop/reward", {"token": found["token"], "reward": 1.0})
        assert server.decide(idempotency_key="before")["id"] == found["id"]
        told = server.get(f"/v1/shop/decisions/{found['id']}/explain")
        assert (told["is_reproduced"], len(told["rewards"])) == (True, 1)


def test_the_store_command_checks_backs_up_and_migrates(
    sqlite_shop: Running, tmp_path: Path
) -> None:
    sqlite_shop.decide()
    store = ("--store", sqlite_shop.store)

    def said(*arguments: str) -> Any:
        done = unswayed(tmp_path, "store", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    copy = f"sqlite:///{tmp_path}/copy.db"
    assert said("check", *store, "--secret", "test.secret")["is_good"]
    assert said("backup", *store, "--to", copy)["rows"]["campaigns"] == 1
    assert said("migrate", "--store", copy) == {"from": "4", "to": "4"}
    (tmp_path / "copy.db").write_bytes(b"no store")
    for arguments in (("check", "--store", copy), ("backup", *store), ("mend",)):
        done = unswayed(tmp_path, "store", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
