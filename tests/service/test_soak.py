"""A soak test of half an hour: learning, kills, reloads, restarts, slow and hostile clients."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.service.running import until
from tests.service.test_faults import Load, check_kept, children, wait_for_more
from unswayed.service.upkeep import check_store

TOML = """
[server]
request_seconds = 5.0
max_connections = 100
[campaigns.shop]
contexts = ["lunch", "dinner"]
actions = ["soup", "curry", "cola"]
reward_window = 120.0
learn_every = 60.0
"""

#: Length in minutes, and seconds between events.
MINUTES = float(os.environ.get("UNSWAYED_SOAK_MINUTES", "30"))
KILL_SECONDS, RELOAD_SECONDS, RESTART_SECONDS = 15.0, 70.0, 200.0

HOSTILE = (
    b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 200_000,
    b"\x00\xff\r\n\r\n",
    b"POST /v1/shop/decide HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST /v1/shop/reward HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 30\r\n\r\n"
    b'{"token":"k.AAAA","reward":1.}',
    b"POST /v1/shop/decide HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
)


class Crowd:
    """Clients that never finish a request, and clients that send invalid data."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_stopping = threading.Event()
        self.n_connections = 0
        self._threads = [threading.Thread(target=one) for one in (self._slow, self._hostile)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop and wait."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join(timeout=30)

    def _open(self) -> socket.socket:
        self.n_connections += 1
        return socket.create_connection(("127.0.0.1", self._port), timeout=2)

    def _slow(self) -> None:
        held: list[socket.socket] = []
        while not self._is_stopping.wait(0.05):
            with suppress(OSError):
                held.append(self._open())
                held[-1].sendall(b"POST /v1/shop/decide HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
            if len(held) > 150:
                held.pop(0).close()
        for one in held:
            one.close()

    def _hostile(self) -> None:
        chance = random.Random(2)
        while not self._is_stopping.wait(0.2):
            with suppress(OSError), self._open() as one:
                one.sendall(chance.choice(HOSTILE))
                one.recv(1_000)


class Watch:
    """Polls the server's health on new connections, and the memory of its workers."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_stopping = threading.Event()
        self.pid = 0
        self.seconds: list[float] = []
        self.n_refused = 0
        self.megabytes: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait."""
        self._is_stopping.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._is_stopping.wait(0.5):
            start = time.monotonic()
            try:
                assert httpx.get(f"{self._address}/healthz", timeout=20.0).status_code == 200
                self.seconds.append(time.monotonic() - start)
            except httpx.TransportError:
                self.n_refused += 1  # it is being restarted
            with suppress(OSError, IndexError):
                pages = [
                    int(Path(f"/proc/{worker}/statm").read_text().split()[1])
                    for worker in children(self.pid)
                ]
                self.megabytes += [max(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6] if pages else []


@contextmanager
def served(folder: Path, port: int, store: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command; its log goes to a file."""
    command = [str(Path(sys.executable).with_name("unswayed")), "serve", "--config", "shop.toml"]
    command += ["--store", store, "--workers", "2", "--port", str(port)]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        until(lambda: is_ready(port) or process.poll() is not None, 120.0)
        assert process.poll() is None
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=30)


def is_ready(port: int) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5.0).status_code == 200
    return False


@pytest.mark.slow
def test_half_an_hour_of_faults_loses_no_reward(tmp_path: Path) -> None:
    store, chance = f"sqlite:///{tmp_path}/shop.db", random.Random(3)
    (tmp_path / "shop.toml").write_text(TOML)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    counts = {"worker kills": 0, "server kills": 0, "stops": 0, "reloads": 0}
    end = time.monotonic() + 60.0 * MINUTES
    load, crowd, watch = None, Crowd(port), Watch(address)
    try:
        while time.monotonic() < end:
            with served(tmp_path, port, store) as process:
                watch.pid = process.pid
                load = load or Load(address, n_threads=3)
                leave = time.monotonic() + RESTART_SECONDS
                reload_at = time.monotonic() + RELOAD_SECONDS
                while time.monotonic() < min(leave, end):
                    time.sleep(KILL_SECONDS * chance.random() * 2)
                    with suppress(OSError, IndexError):
                        os.kill(chance.choice(children(process.pid)), signal.SIGKILL)
                        counts["worker kills"] += 1
                    if time.monotonic() > reload_at:
                        process.send_signal(signal.SIGHUP)
                        counts["reloads"] += 1
                        reload_at = time.monotonic() + RELOAD_SECONDS
                    wait_for_more(load)
                if chance.random() < 0.5:
                    counts["server kills"] += 1
                    process.kill()
                else:
                    counts["stops"] += 1
                    process.terminate()
                process.wait(timeout=30)
        with served(tmp_path, port, store):
            assert load is not None
            wait_for_more(load)
            jobs = httpx.get(f"{address}/v1/shop/learn").json()["jobs"]
    finally:
        for one in (load, crowd, watch):
            if one is not None:
                one.stop()
    assert load is not None
    check_kept(load, store)
    problems = check_store(store, None)["problems"]
    states = [job["state"] for job in jobs]
    third = len(watch.megabytes) // 3
    early = statistics.median(watch.megabytes[:third])
    late = statistics.median(watch.megabytes[-third:])
    found = {
        "minutes": MINUTES,
        **counts,
        "learned": states.count("done"),
        "learning lost": states.count("lost"),
        "rewards acknowledged": len(load.acknowledged),
        "slow and hostile connections": crowd.n_connections,
        "health checks": len(watch.seconds),
        "health 99th percentile, s": statistics.quantiles(watch.seconds, n=100)[98],
        "health longest, s": max(watch.seconds),
        "memory of a worker, first third, MB": early,
        "memory of a worker, last third, MB": late,
        "problems": problems,
    }
    (Path(os.environ.get("UNSWAYED_SOAK_FOLDER", tmp_path)) / "soak.json").write_text(
        json.dumps(found, indent=1)
    )
    assert problems == []
    assert "Traceback" not in (tmp_path / "log").read_text()
    # There is nothing to learn from before the first window has closed.
    while states and states[-1] == "failed":
        states.pop()
    assert "failed" not in states
    assert states.count("done") >= MINUTES / 10
    assert late < 1.5 * early
