"""Real servers for tests: in a thread of this process, or as a command."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec

from unswayed.service.records import GRACE_MS
from unswayed.service.service import Service
from unswayed.service.serving import Prepared, Server, create_app, prepare
from unswayed.service.settings import Configuration, ServerSettings, Settings
from unswayed.service.tokens import Secrets

#: Two contexts and three actions, and a short reward window.
SHOP = Settings(contexts=("lunch", "dinner"), actions=("soup", "curry", "cola"), reward_window=60.0)


@dataclass
class Running:
    """A running server."""

    address: str
    store: str
    prepared: Prepared
    folder: Path
    http: httpx.Client = field(repr=False)

    def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None
    ) -> httpx.Response:
        """Send a request, and return the response whatever its status."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return self.http.request(
            method,
            path,
            content=None if body is None else msgspec.json.encode(body),
            headers=headers,
        )

    def get(self, path: str) -> Any:
        """Send a GET request, and return the response, which must have status 200."""
        response = self.call("GET", path)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        """Send a POST request, and return the response, which must have the expected status."""
        response = self.call("POST", path, body)
        assert response.status_code == status, response.text
        return response.json()

    def decide(self, user: str = "ann", context: str = "lunch", **more: Any) -> dict[str, Any]:
        """Return one decision in the shop."""
        found: dict[str, Any] = self.post(
            "/v1/shop/decide", {"user": user, "context": context, **more}
        )
        return found

    def refused(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        """Return status and code of an error, which must have the common format."""
        response = self.call(method, path, body, **more)
        error = response.json()["error"]
        assert set(error) == {"code", "message"}
        assert error["message"]
        return response.status_code, error["code"]


@contextmanager
def running(
    store: str,
    folder: Path,
    settings: Settings = SHOP,
    *,
    server: ServerSettings | None = None,
    needs_keys: bool = False,
    name: str = "shop",
) -> Iterator[Running]:
    """Serve from a thread of this process, on a free port of loopback."""
    configuration = Configuration(
        server=server or ServerSettings(), campaigns={name: settings.checked()}
    )
    if not (folder / "test.secret").exists():
        # The explorers are always the same users, so that tests are deterministic.
        Secrets(b"sixteen bytes ok").save(folder / "test.secret")
    prepared = prepare(configuration, store=store, secret_path=folder / "test.secret")
    with serving(prepared, folder, configuration.server, needs_keys=needs_keys) as found:
        yield found


@contextmanager
def serving(
    prepared: Prepared,
    folder: Path,
    limits: ServerSettings | None = None,
    *,
    needs_keys: bool = False,
) -> Iterator[Running]:
    """Serve an existing store from a thread of this process."""
    limits = limits or ServerSettings()
    (folder / "metrics").mkdir(exist_ok=True)
    begin = partial(
        Service,
        prepared.database,
        prepared.secrets,
        folder / "metrics",
        limits,
        is_public=needs_keys,
    )
    listening = socket.create_server(("127.0.0.1", 0))
    uvicorn_server = Server(create_app(begin), limits, beat=lambda: None)
    thread = threading.Thread(target=uvicorn_server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        while not uvicorn_server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with httpx.Client(base_url=address, timeout=60.0) as http:
            yield Running(address, prepared.database.url, prepared, folder, http)
    finally:
        uvicorn_server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


def close_windows(server: Running) -> None:
    """Shorten the shop's reward window, and wait until the windows of all decisions are closed."""
    server.call("PATCH", "/v1/shop", {"reward_window": 0.001}).raise_for_status()
    time.sleep(GRACE_MS / 1000.0 + 0.2)


@contextmanager
def command(
    *arguments: str, folder: Path, most_files: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `unswayed serve` with a free port; yield the process and its address when it is ready."""
    limit = "" if most_files is None else f"ulimit -n {most_files} &&"
    program = Path(sys.executable).with_name("unswayed")
    process = subprocess.Popen(
        ["sh", "-c", f'{limit} exec "$@"', "sh", program, "serve", "--port", "0", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = ""
        while " at http://" not in line:
            line = process.stdout.readline()
            assert line, "the server ended before it was ready"
        yield process, line.split(" at ")[1].split(";")[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=20)
        assert process.stdout is not None
        process.stdout.close()


def until(condition: Any, seconds: float = 10.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)
