"""Killed processes, full disks and lost databases: acknowledged rewards are kept, exactly once."""

from __future__ import annotations

import os
import random
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.faults.test_full_disk import room_for
from tests.postgresql import command as postgresql_command
from tests.service.conftest import new_database
from tests.service.running import SHOP, Running, command, running, serving, until
from unswayed.service.catalogue import bump
from unswayed.service.database import opened
from unswayed.service.settings import ServerSettings
from unswayed.service.upkeep import back_up

TOML = """
[campaigns.shop]
contexts = ["lunch", "dinner"]
actions = ["soup", "curry", "cola"]
reward_window = 600.0
"""


class Load:
    """Threads that decide and reward as fast as they can, and record every acknowledgement."""

    def __init__(self, address: str, n_threads: int = 6) -> None:
        self._address = address
        self._is_stopping = threading.Event()
        self.acknowledged: dict[str, tuple[float, int]] = {}
        self.n_lost_connections = 0
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop and wait."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive()

    def _run(self, number: int) -> None:
        chance = random.Random(number)
        with httpx.Client(base_url=self._address, timeout=10.0) as http:
            while not self._is_stopping.is_set():
                user = f"user-{chance.randrange(500)}"
                visit = {"user": user, "context": "lunch"}
                token = self._sent(http, "/v1/shop/decide", visit)
                if token is None:
                    continue
                reward = {"token": token["token"], "reward": float(chance.random() < 0.5)}
                taken = self._sent(http, "/v1/shop/reward", reward)
                if taken is not None:
                    again = self._sent(http, "/v1/shop/reward", reward)
                    assert again is None or again == taken
                    self.acknowledged[taken["id"]] = (taken["reward"], taken["received_ms"])

    def _sent(self, http: httpx.Client, path: str, body: dict) -> dict | None:
        """Send until there is a response; repeating a request is safe."""
        while not self._is_stopping.is_set():
            try:
                response = http.post(path, json=body)
            except httpx.TransportError:
                self.n_lost_connections += 1
                time.sleep(0.05)
                continue
            if response.status_code == 503:
                time.sleep(0.05)
                continue
            assert response.status_code == 200, response.text
            found: dict = response.json()
            return found
        return None


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    with suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def stored_rewards(store: str) -> dict[str, list[tuple[float, int]]]:
    with opened(store).connected() as connection:
        rows = connection.execute("SELECT decision, value, received_ms FROM rewards")
    found: dict[str, list[tuple[float, int]]] = {}
    for decision, value, received_ms in rows:
        found.setdefault(bytes(decision).hex(), []).append((value, received_ms))
    return found


def kill_under_load(store: str, folder: Path, n_kills: int, chance: random.Random) -> Load:
    """Kill the server or one of its workers repeatedly under load."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "shop.toml").write_text(TOML)
    options = ["--config", "shop.toml", "--store", store, "--workers", "2", "--port", str(port)]
    options += ["--secret", str(folder / "shop.secret")]
    load, n_done = None, 0
    try:
        while n_done < n_kills:
            with command(*options, folder=folder) as (process, address):
                load = load or Load(address)
                while n_done < n_kills:
                    wait_for_more(load)
                    time.sleep(chance.random() * 0.2)
                    workers = children(process.pid)
                    victim = chance.choice([process.pid, *workers, *workers])
                    with suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
                        n_done += 1
                    if victim == process.pid:
                        until(lambda pids=workers: not any(map(is_running, pids)), 10.0)
                        break
        with command(*options, folder=folder):
            assert load is not None
            wait_for_more(load)
    finally:
        if load is not None:
            load.stop()
    assert load is not None
    return load


def wait_for_more(load: Load) -> None:
    """Wait until rewards are acknowledged again."""
    before = len(load.acknowledged)
    until(lambda: len(load.acknowledged) > before + 40, 60.0)


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def check_kept(load: Load, store: str) -> None:
    """Check that every acknowledged reward is stored once, with the acknowledged value."""
    stored = stored_rewards(store)
    assert len(load.acknowledged) > 100
    missing = [id_ for id_ in load.acknowledged if id_ not in stored]
    assert missing == []
    for id_, acknowledged in load.acknowledged.items():
        assert stored[id_] == [acknowledged]


def test_acknowledged_rewards_survive_kills(store: str, tmp_path: Path) -> None:
    check_kept(kill_under_load(store, tmp_path, 2, random.Random(0)), store)


@pytest.mark.slow
def test_acknowledged_rewards_survive_fifty_kills(store: str, tmp_path: Path) -> None:
    load = kill_under_load(store, tmp_path, 50, random.Random(1))
    assert load.n_lost_connections > 0
    check_kept(load, store)


def test_the_check_detects_a_lost_reward(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/shop.db"
    with running(store, tmp_path) as server:
        load = Load(server.address, n_threads=2)
        until(lambda: len(load.acknowledged) > 110, 60.0)
        load.stop()
        check_kept(load, store)
        with server.prepared.database.connected() as connection:
            connection.execute(
                "DELETE FROM rewards WHERE decision = ?",
                bytes.fromhex(next(iter(load.acknowledged))),
            )
        with pytest.raises(AssertionError):
            check_kept(load, store)


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    largest = max(file.stat().st_size for file in folder.glob("shop.db*"))
    with room_for(largest):
        yield


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_full_disk_gives_503_and_the_service_recovers_by_itself(
    tmp_path: Path, goes_on: bool
) -> None:
    limits = ServerSettings(decide_without_store=goes_on)
    store = f"sqlite:///{tmp_path}/shop.db"
    with running(store, tmp_path, server=limits) as server:
        early = server.decide("ann")["token"]
        body = {"token": early, "reward": 1.0}
        until(lambda: server.get("/v1/shop/status")["decisions"] == 1)
        with full_disk(tmp_path):
            # Room may be left in the write-ahead log; many rewards use it up.
            refused = 0
            for number in range(400):
                if refused == 3:
                    break
                response = server.call(
                    "POST", "/v1/shop/decide", {"user": str(number), "context": "lunch"}
                )
                if response.status_code == 200:
                    told = {"token": response.json()["token"], "reward": 1.0}
                    refused += server.call("POST", "/v1/shop/reward", told).status_code == 503
                else:
                    assert response.status_code == 503
                    assert not goes_on
                    refused += 1
            assert refused == 3
            assert server.refused("POST", "/v1/shop/reward", body) == (503, "store_unavailable")
            assert server.refused("GET", "/readyz")[0] == 503
            assert server.call("GET", "/healthz").status_code == 200
            visit = {"user": "bob", "context": "lunch"}
            assert server.call("POST", "/v1/shop/decide", visit).status_code == (
                200 if goes_on else 503
            )
            with sqlite3.connect(tmp_path / "shop.db") as looking:
                n_before = looking.execute("SELECT COUNT(*) FROM rewards").fetchone()[0]
            looking.close()
        until(lambda: server.call("GET", "/readyz").status_code == 200)
        server.post("/v1/shop/reward", body)
        server.decide("cleo")
        assert len(stored_rewards(store)) == n_before + 1


def test_a_store_that_becomes_read_only_gives_503_until_it_can_be_written(
    sqlite_shop: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a disk is remounted, writes to open files fail first, and then it opens read-only."""
    body = {"token": sqlite_shop.decide()["token"], "reward": 1.0}
    until(lambda: sqlite_shop.get("/v1/shop/status")["decisions"] == 1)
    connect = sqlite3.connect

    def read_only(address: str, **more: Any) -> Any:
        return connect(address.replace("mode=rw", "mode=ro"), **more)

    with room_for(0):
        assert sqlite_shop.refused("POST", "/v1/shop/reward", body) == (503, "store_unavailable")
        monkeypatch.setattr(sqlite3, "connect", read_only)
    for _ in range(3):
        assert sqlite_shop.refused("POST", "/v1/shop/reward", body) == (503, "store_unavailable")
    assert sqlite_shop.refused("POST", "/v1/shop/learn") == (503, "store_unavailable")
    assert sqlite_shop.get("/v1/shop/status")["rewards"] == 0  # the data can be read
    time.sleep(1.0)  # it retries meanwhile
    assert sqlite_shop.refused("GET", "/readyz") == (503, "not_ready")
    with serving(sqlite_shop.prepared, sqlite_shop.folder) as worker:  # started meanwhile
        assert worker.refused("GET", "/readyz") == (503, "not_ready")
    monkeypatch.undo()
    until(lambda: sqlite_shop.call("GET", "/readyz").status_code == 200)
    sqlite_shop.post("/v1/shop/reward", body)
    assert len(stored_rewards(sqlite_shop.store)) == 1


def test_a_backup_that_replaces_the_store_is_served(sqlite_shop: Running) -> None:
    back_up(sqlite_shop.store, f"sqlite:///{sqlite_shop.folder}/copy.db")
    sqlite_shop.post("/v1/shop/archive")
    visit = {"user": "ann", "context": "lunch"}
    assert sqlite_shop.refused("POST", "/v1/shop/decide", visit) == (409, "archived")
    for name in ("shop.db-wal", "shop.db-shm"):
        (sqlite_shop.folder / name).unlink()
    (sqlite_shop.folder / "copy.db").replace(sqlite_shop.folder / "shop.db")
    until(lambda: sqlite_shop.call("POST", "/v1/shop/decide", visit).status_code == 200)
    reward = {"token": sqlite_shop.decide()["token"], "reward": 1.0}
    until(lambda: sqlite_shop.call("POST", "/v1/shop/reward", reward).status_code == 200)


def test_a_damaged_plan_is_logged_once_while_the_previous_one_is_served(
    shop: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with shop.prepared.database.connected() as connection, connection.transaction():
        columns = "campaign, version + 1, created_ms, reason, policy, '{}'"
        connection.execute(f"INSERT INTO plans SELECT {columns} FROM plans")
        connection.execute("UPDATE campaigns SET plan = plan + 1")
        bump(connection)
    time.sleep(1.5)
    assert shop.decide()["plan"] == 1
    assert [one.getMessage() for one in caplog.records] == ["a periodic task failed"]


def test_a_lost_sqlite_file_gives_503_and_is_not_created_anew(
    sqlite_shop: Running,
) -> None:
    body = {"token": sqlite_shop.decide()["token"], "reward": 1.0}
    until(lambda: sqlite_shop.get("/v1/shop/status")["decisions"] == 1)
    names = ("shop.db", "shop.db-wal", "shop.db-shm")
    away = sqlite_shop.folder / "away"
    away.mkdir()
    for name in names:
        (sqlite_shop.folder / name).rename(away / name)
    for _ in range(3):
        assert sqlite_shop.refused("POST", "/v1/shop/reward", body) == (503, "store_unavailable")
    assert not (sqlite_shop.folder / "shop.db").exists()
    (sqlite_shop.folder / "shop.db").touch()  # an empty file in its place is not used
    for _ in range(3):
        assert sqlite_shop.refused("POST", "/v1/shop/reward", body) == (503, "store_unavailable")
    for name in names:
        if (away / name).exists():
            (away / name).rename(sqlite_shop.folder / name)
    until(lambda: sqlite_shop.call("GET", "/readyz").status_code == 200)
    sqlite_shop.post("/v1/shop/reward", body)


def test_a_sqlite_file_that_was_replaced_is_noticed(sqlite_shop: Running) -> None:
    body = {"token": sqlite_shop.decide()["token"], "reward": 1.0}
    until(lambda: sqlite_shop.get("/v1/shop/status")["decisions"] == 1)
    copy = sqlite_shop.folder / "copy.db"
    copy.touch()
    copy.replace(sqlite_shop.folder / "shop.db")
    assert sqlite_shop.refused("POST", "/v1/shop/reward", body) == (503, "store_unavailable")


def test_a_lost_postgresql_server_gives_503_until_it_is_back(tmp_path: Path) -> None:
    from tests.postgresql import running_server

    with running_server() as address:
        limits = ServerSettings(decide_without_store=True)
        with running(address, tmp_path, server=limits) as server:
            body = {"token": server.decide()["token"], "reward": 1.0}
            data = data_folder(address)
            postgresql_command("pg_ctl", "-D", data, "-m", "immediate", "stop")
            assert server.refused("POST", "/v1/shop/reward", body) == (503, "store_unavailable")
            assert server.refused("GET", "/v1/shop/status") == (503, "store_unavailable")
            lonely = server.decide("zoe")  # from the last plan
            postgresql_command("pg_ctl", "-D", data, "-o", options_of(data), "-w", "start")
            until(lambda: server.call("GET", "/readyz").status_code == 200, 20.0)
            server.post("/v1/shop/reward", body)
            server.post("/v1/shop/reward", {"token": lonely["token"], "reward": 0.0})
            until(lambda: server.get("/v1/shop/status")["decisions"] == 2)


def test_a_store_that_hangs_blocks_no_other_request(postgresql: str, tmp_path: Path) -> None:
    """Tokens with unknown keys cause a lookup in the store, and anybody can send them."""
    store = new_database(postgresql)
    pixel = "/v1/shop/shown.gif?token=kdeadbeef.x"
    with running(store, tmp_path) as server, psycopg.connect(store) as other:
        other.execute("LOCK TABLE meta IN ACCESS EXCLUSIVE MODE")
        with ThreadPoolExecutor() as callers:
            calls = [callers.submit(httpx.get, server.address + pixel, timeout=30) for _ in "abc"]
            time.sleep(0.5)
            start = time.monotonic()
            assert server.call("GET", "/healthz").status_code == 200
            assert server.decide()["action"] in SHOP.actions
            assert time.monotonic() < start + 5.0
            assert not any(one.done() for one in calls)
            other.rollback()
            assert [one.result().status_code for one in calls] == [403, 403, 403]


def data_folder(address: str) -> str:
    port = address.rsplit(":", 1)[1].split("/")[0]
    found = subprocess.run(
        ["pgrep", "-af", f"postgres.*-p {port}"], capture_output=True, text=True, check=True
    ).stdout
    words = found.splitlines()[0].split()
    return words[words.index("-D") + 1]


def options_of(data: str) -> str:
    words = Path(data, "postmaster.opts").read_text().replace('"', "").split()
    return " ".join(words[words.index("-D") + 2 :])
