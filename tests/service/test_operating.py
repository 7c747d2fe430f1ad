"""Operation under stress: slow and hostile clients, restarts, lost secrets."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.service.learned import learned_policy
from tests.service.running import SHOP, Running, command, running, until
from tests.service.test_faults import children
from tests.service.test_upkeep import unswayed
from unswayed import Client
from unswayed.errors import InputError
from unswayed.policy import new_secret
from unswayed.service.catalogue import campaigns, plan_of
from unswayed.service.database import opened
from unswayed.service.serving import prepare
from unswayed.service.settings import (
    Configuration,
    FeatureSettings,
    ServerSettings,
    Settings,
    load_configuration,
)
from unswayed.service.supervisor import MOST_FAILURES, Supervisor
from unswayed.service.tokens import Secrets

TOML = """
[server]
log_format = "json"
log_requests = {log_requests}
[campaigns.shop]
contexts = ["lunch", "dinner"]
actions = ["soup", "curry", "cola"]
"""


def connected(server: Running) -> socket.socket:
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def health_seconds(server: Running) -> float:
    start = time.perf_counter()
    assert server.call("GET", "/healthz").status_code == 200
    return time.perf_counter() - start


def test_head_requests_get_an_immediate_response(sqlite_shop: Running) -> None:
    with connected(sqlite_shop) as connection:
        connection.settimeout(3.0)
        for path in (b"/healthz", b"/console/login"):
            connection.sendall(b"HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("route", ["export", "report", "audit"])
def test_head_requests_start_no_background_task(sqlite_shop: Running, route: str) -> None:
    start = time.perf_counter()
    # With GET, an audit without decisions would get status 422.
    assert sqlite_shop.call("HEAD", f"/v1/shop/{route}").status_code == 200
    # A background process would need longer than that for its imports.
    assert time.perf_counter() - start < 0.5
    assert sqlite_shop.call("HEAD", f"/v1/nobody/{route}").status_code == 404


def request(method: str, path: str, body: object = None, headers: str = "") -> bytes:
    """Return a request as sent over the wire."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
    return f"{head}{headers}\r\n".encode() + data


def responses(connection: socket.socket) -> list[tuple[int, bytes]]:
    """Return status and body of all responses until the connection is closed."""
    data = b"".join(iter(lambda: connection.recv(65_536), b""))
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        found.append((int(head.split()[1]), data[:length]))
        data = data[length:]
    return found


@pytest.mark.parametrize("size", [1_000_000, 97, 1])
def test_requests_are_answered_in_order_however_they_are_split(tmp_path: Path, size: int) -> None:
    """Decisions and rewards that arrive in one piece take a faster path."""
    limits = ServerSettings(keep_alive_seconds=1, max_request_bytes=2_000)
    with (
        running(f"sqlite:///{tmp_path}/shop.db", tmp_path, server=limits) as server,
        connected(server) as connection,
    ):
        token = server.decide()["token"]
        ann = {"user": "ann", "context": "lunch"}
        sent = [
            (request("POST", "/v1/shop/reward", {"token": token, "reward": 1.0}), 200),
            (request("GET", "/healthz"), 200),
            (request("POST", "/v1/shop/decide", ann), 200),
            (request("POST", "/v1/shop/reward", {"token": token, "reward": 2.0}), 409),
            (request("POST", "/v1/shop/decide", {**ann, "top": 10**30}), 200),
            (request("POST", "/v1/shop/decide", {**ann, "user": 3_000 * "a"}), 413),
            (request("POST", "/v1/shop/decide?x=1", ann), 400),
            (request("POST", "/v1/shop/decide", {**ann, "idempotency_key": "k"}), 200),
            (request("POST", "/v1/other/decide", ann), 404),
            (request("POST", "/v1/shop/reward", {"token": token, "reward": 1.0}), 200),
        ]
        data = b"".join(one for one, _ in sent)
        for start in range(0, len(data), size):
            connection.sendall(data[start : start + size])
        # The server closes the connection after it was idle for a second.
        found = responses(connection)
    assert [status for status, _ in found] == [status for _, status in sent]
    assert json.loads(found[0][1]) == json.loads(found[-1][1])
    assert sorted(json.loads(found[4][1])["ranked"]) == sorted(SHOP.actions)


def test_a_stop_waits_for_open_requests(tmp_path: Path) -> None:
    """A part of each body is sent before the stop; small and large bodies take different paths."""
    (tmp_path / "shop.toml").write_text(TOML.format(log_requests="false"))
    ann = {"user": "ann", "context": "lunch"}
    with (
        command("--config", "shop.toml", folder=tmp_path) as (process, address),
        ExitStack() as all_,
    ):
        host, port = address.removeprefix("http://").split(":")
        halves = []
        for sent in (
            request("POST", "/v1/shop/decide", ann),
            request("POST", "/v1/shop/decide/batch", {"decisions": [ann] * 900}),
        ):
            connection = all_.enter_context(socket.create_connection((host, int(port)), timeout=30))
            connection.sendall(sent[:-20])
            halves.append((connection, sent[-20:]))
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        time.sleep(1.0)
        for connection, rest in halves:
            connection.sendall(rest)
            ((status, _),) = responses(connection)
            assert status == 200
        assert process.wait(timeout=20) == 0


def test_a_connection_is_closed_if_the_client_asks_for_it(sqlite_shop: Running) -> None:
    for path in ("/healthz", "/v1/shop/decide"):
        with connected(sqlite_shop) as connection:
            body = {"user": "ann", "context": "lunch"}
            connection.sendall(request("POST", path, body, "Connection: close\r\n"))
            (found,) = responses(connection)
            assert found[0] == (200 if "decide" in path else 405)


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "not_http"),
        (b"GET /healthz HTTP/1.1\r\nX-Long: " + 70_000 * b"a", 431, "headers_too_large"),
    ],
)
def test_malformed_requests_get_the_common_error_format(
    sqlite_shop: Running, sent: bytes, status: int, code: str
) -> None:
    """Connections that have served other requests are no exception."""
    for first in ("", "/healthz", "/readyz"):
        with connected(sqlite_shop) as connection:
            if first:
                connection.sendall(request("GET", first))
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
            connection.sendall(sent)
            ((found, body),) = responses(connection)
            assert (found, json.loads(body)["error"]["code"]) == (status, code)


@pytest.mark.parametrize("start", [b"X-Long: ", b""])
def test_endless_headers_are_refused(sqlite_shop: Running, start: bytes) -> None:
    """So are endless trailers of a chunked body."""
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    if not start:
        first = b"POST /v1/shop/decide HTTP/1.1\r\nHost: localhost\r\n"
        start = b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX-Long: "
    sent = 0
    with connected(sqlite_shop) as connection:
        connection.sendall(first + start)
        piece = b"a" * 1_000_000
        try:
            while sent < 20 * len(piece):
                connection.sendall(piece)
                sent += len(piece)
                assert health_seconds(sqlite_shop) < 2.0
        except OSError:
            pass
    assert sent < 20 * len(piece)
    with connected(sqlite_shop) as connection:
        connection.sendall(first + start + b"a" * 70_000)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"GET /healthz HTT",
        b"POST /v1/shop/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\n{",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n",
    ],
)
def test_clients_that_do_not_finish_are_cut_off(tmp_path: Path, part: bytes) -> None:
    limits = ServerSettings(request_seconds=1.0, keep_alive_seconds=2)
    with (
        running(f"sqlite:///{tmp_path}/shop.db", tmp_path, server=limits) as server,
        connected(server) as connection,
    ):
        connection.sendall(part)
        while connection.recv(65_536):
            pass  # it ends, or the socket's own limit fails the test


def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    limits = ServerSettings(request_seconds=1.0)
    start = time.monotonic()
    with (
        running(f"sqlite:///{tmp_path}/shop.db", tmp_path, server=limits) as server,
        socket.socket() as connection,
    ):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = server.address.removeprefix("http://").split(":")
        connection.connect((host, int(port)))
        connection.setblocking(False)
        asking = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200
        end = time.monotonic() + 30.0
        is_cut = False
        while not is_cut:
            assert time.monotonic() < end
            try:
                connection.send(asking)
            except BlockingIOError:
                time.sleep(0.05)
            except ConnectionError:
                is_cut = True
        assert time.monotonic() > start + 1.0


def test_a_crowd_of_slow_clients_shuts_nobody_out(tmp_path: Path) -> None:
    limits = ServerSettings(max_connections=20, request_seconds=60.0)
    with (
        running(f"sqlite:///{tmp_path}/shop.db", tmp_path, server=limits) as server,
        ExitStack() as open_,
    ):
        crowd = [open_.enter_context(connected(server)) for _ in range(100)]
        for one in crowd:
            try:
                one.sendall(b"POST /v1/shop/decide HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
            except OSError:
                continue
        for name in ("healthz", "readyz", "healthz"):
            with httpx.Client(base_url=server.address, timeout=5.0) as fresh:
                assert fresh.get(f"/{name}").status_code == 200
        assert server.decide()["action"] in SHOP.actions
        n_open = 0
        for one in crowd:
            one.setblocking(False)
            with suppress(ConnectionError):
                try:
                    one.recv(1)
                except BlockingIOError:
                    n_open += 1
        assert n_open <= limits.max_connections


def test_a_worker_accepts_no_more_connections_than_it_has_descriptors(tmp_path: Path) -> None:
    with (
        command(*configured(tmp_path), folder=tmp_path, most_files=250) as (_, address),
        ExitStack() as open_,
    ):
        host, port = address.removeprefix("http://").split(":")
        for _ in range(300):
            open_.enter_context(socket.create_connection((host, int(port)), timeout=10.0))
        assert httpx.get(f"{address}/healthz", timeout=10.0).status_code == 200


def test_unfinished_bodies_hold_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    limits = ServerSettings(max_request_bytes=20_000, request_seconds=60.0)
    head = b"POST /v1/shop/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n"
    large = {"decisions": [{"user": "a" * 200, "context": "lunch"}] * 75}
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, server=limits) as server:
        with ExitStack() as open_:
            crowd = [open_.enter_context(connected(server)) for _ in range(80)]
            for one in crowd:  # 80 times 18,000 bytes are more than 64 times 20,000
                one.sendall(head + b" " * 18_000)
            (answered, *_), _, _ = select.select(crowd, [], [], 20.0)
            response = answered.recv(65_536)
            assert response.startswith(b"HTTP/1.1 503 ")
            assert b'"busy"' in response
        # Requests whose clients left use no memory.
        path = "/v1/shop/decide/batch"
        until(lambda: server.call("POST", path, large).status_code == 200)


def logged(process: subprocess.Popen[str], n: int = 1) -> list[dict[str, object]]:
    """Return the next lines of the log."""
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(n)]


def configured(tmp_path: Path, *, log_requests: bool = False) -> list[str]:
    (tmp_path / "shop.toml").write_text(TOML.format(log_requests=str(log_requests).lower()))
    return ["--config", "shop.toml", "--store", f"sqlite:///{tmp_path}/shop.db"]


def test_a_slow_worker_is_left_alone_and_a_dead_one_is_replaced(
    tmp_path: Path,
) -> None:
    options = [*configured(tmp_path), "--workers", "2"]
    with command(*options, folder=tmp_path) as (process, address):
        until(lambda: len(children(process.pid)) == 2)
        held, other = children(process.pid)
        os.kill(held, signal.SIGSTOP)
        time.sleep(6.0)  # uvicorn's own supervisor gives a worker five seconds
        os.kill(held, signal.SIGCONT)
        assert sorted(children(process.pid)) == sorted((held, other))
        os.kill(other, signal.SIGKILL)
        (line,) = logged(process)
        assert line["message"] == (f"worker {other} was ended by signal 9; another one is started.")
        until(lambda: len(children(process.pid)) == 2)
        until(lambda: "unswayed_worker_restarts_total 1" in httpx.get(f"{address}/metrics").text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_workers_that_do_not_start_are_reported_in_one_sentence() -> None:
    def work(_: object) -> None:
        os._exit(7)

    restarts: list[int] = []
    supervisor = Supervisor(work, 1, on_restart=lambda: restarts.append(1))
    with pytest.raises(InputError, match="ended one after another before they served"):
        supervisor.run()
    assert len(restarts) == MOST_FAILURES


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sighup_reloads_the_configuration_and_loses_no_request(
    tmp_path: Path, workers: str
) -> None:
    options = [*configured(tmp_path), "--workers", workers]
    with command(*options, folder=tmp_path) as (process, address):
        until(lambda: len(children(process.pid)) == int(workers))
        before = children(process.pid)
        path = tmp_path / "shop.toml"
        path.write_text(path.read_text() + "nonsense = 1\n")
        process.send_signal(signal.SIGHUP)
        (line,) = logged(process)
        assert str(line["message"]).startswith("not reloaded: ")
        assert "nonsense" in str(line["message"])
        for broken in ('[campaigns.shop]\npolicy = "a\\u0000b"\n', f"server = {'[' * 100_000}"):
            path.write_text(broken)
            process.send_signal(signal.SIGHUP)
            (line,) = logged(process)
            assert str(line["message"]).startswith("not reloaded: ")
        assert children(process.pid) == before
        configured(tmp_path, log_requests=True)
        path.write_text(path.read_text() + "alpha = 0.25\n")
        statuses: list[int] = []
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.is_set():
                # A new connection each: idle ones are closed with their worker.
                statuses.append(httpx.get(f"{address}/healthz").status_code)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            process.send_signal(signal.SIGHUP)
            until(lambda: not any(pid in before for pid in children(process.pid)), 30.0)
        finally:
            is_over.set()
            asking.join()
        assert set(statuses) == {200}
        assert len(children(process.pid)) == int(workers)
        assert httpx.get(f"{address}/v1/shop").json()["settings"]["alpha"] == 0.25
        changed = httpx.patch(f"{address}/v1/shop", json={"alpha": 0.1}).json()
        assert "overrides it at the next start" in changed["note"]
        httpx.get(
            f"{address}/v1/shop/decisions",
            params={"user": "ann-the-user"},
            headers={"X-Request-Id": "night-1"},
        )
        lines: list[dict[str, object]] = []
        while not any(one.get("request_id") == "night-1" for one in lines):
            lines += logged(process)
        assert any(one["message"] == "reloaded" for one in lines)
        assert lines[-1]["route"] == "/v1/{campaign}/decisions"
        assert lines[-1]["status"] == 200
        assert "ann-the-user" not in json.dumps(lines)


def test_a_store_is_bound_to_its_secret(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = Configuration(campaigns={"shop": SHOP})
    made = prepare(configuration, store=store, secret_path=tmp_path / "first").secrets
    with pytest.raises(InputError, match=r"was made with a secret .* does not exist"):
        prepare(configuration, store=store, secret_path=tmp_path / "second")
    assert not (tmp_path / "second").exists()
    Secrets(new_secret()).save(tmp_path / "second")
    with pytest.raises(InputError, match="belongs to the secret with fingerprint"):
        prepare(configuration, store=store, secret_path=tmp_path / "second")
    monkeypatch.setenv("UNSWAYED_SECRET", "11" * 16)
    with pytest.raises(InputError, match="belongs to the secret with fingerprint"):
        prepare(configuration, store=store, secret_path=None)
    monkeypatch.setenv("UNSWAYED_SECRET", "soup")
    with pytest.raises(InputError, match="UNSWAYED_SECRET"):
        prepare(configuration, store=store, secret_path=None)
    monkeypatch.setenv("UNSWAYED_SECRET", made.assignment.hex())
    assert prepare(configuration, store=store, secret_path=None).secrets == made
    (tmp_path / "hex").write_text(made.assignment.hex() + "\n")
    (tmp_path / "hex").chmod(0o600)
    assert prepare(configuration, store=store, secret_path=tmp_path / "hex").secrets == made


def test_a_store_whose_last_key_was_removed_stays_closed(sqlite_shop: Running) -> None:
    assert sqlite_shop.call("GET", "/v1/campaigns").status_code == 200
    key = sqlite_shop.post("/v1/keys", {"role": "admin"})["key"]
    number = sqlite_shop.call("GET", "/v1/keys", key=key).json()["keys"][0]["id"]
    assert sqlite_shop.call("DELETE", f"/v1/keys/{number}", key=key).status_code == 200
    assert sqlite_shop.refused("GET", "/v1/campaigns") == (401, "no_key")
    page = sqlite_shop.http.get("/", headers={"Accept": "text/html"})
    assert page.headers["location"] == "/console/login"


def test_making_a_key_creates_no_campaign(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/prod.db"
    prepared = prepare(Configuration(campaigns={"shop": SHOP}), store=store, secret_path=None)
    made = unswayed(tmp_path, "serve", "--store", store, "--make-key", "shop:decide")
    assert made.returncode == 0, made.stderr
    # Serving this store without a configuration does not create the demo campaign either.
    assert prepare(None, store=store, secret_path=None).names == prepared.names == ("shop",)
    refused = unswayed(tmp_path, "serve", "--store", store, "--make-key", "demo:decide")
    assert (refused.returncode, "no campaign 'demo'" in refused.stderr) == (2, True)
    new = f"sqlite:///{tmp_path}/new.db"
    assert unswayed(tmp_path, "serve", "--store", new, "--make-key", "*:admin").returncode == 0
    assert prepare(Configuration(), store=new, secret_path=None).names == ()


def test_a_policy_learned_from_a_log_is_served(tmp_path: Path) -> None:
    policy = learned_policy((1, 2), ("soup", "curry", "cola"))
    replace(policy, source={}).save(tmp_path / "Week.json")
    for _ in range(2):  # a restart continues with it
        with (
            command("--policy", "Week.json", "--store", "sqlite:///w.db", folder=tmp_path) as (
                _,
                address,
            ),
            Client(address, "week") as client,
        ):
            decisions = [client.decide(f"user-{n}", "2") for n in range(20)]
            assert {one.action for one in decisions if one.mode == "exploit"} == {"curry"}
            assert client.get("policy")["version"] == 1
            page = httpx.get(f"{address}/console/c/week/audit", headers={"accept": "text/html"})
            assert "The service did not learn this policy" in page.text
            client.post("policy/0/activate")
            client.post("policy/1/activate")


def test_a_configuration_gives_a_campaign_its_initial_policy(tmp_path: Path) -> None:
    policy = learned_policy(("lunch", "dinner"), ("soup", "curry", "cola"))
    policy.save(tmp_path / "policy.json")
    file = tmp_path / "shop.toml"
    file.write_text("[campaigns.shop]\npolicy = 'policy.json'\nalpha = 0.05\n")
    found = load_configuration(file)
    assert found.campaigns["shop"].contexts == ("lunch", "dinner")
    assert found.campaigns["shop"].alpha == 0.05
    prepared = prepare(found, store=f"sqlite:///{tmp_path}/shop.db", secret_path=None)
    with prepared.database.connected() as connection:
        plan, version = plan_of(connection, "shop", 2)
    assert (plan.rule("lunch").action, version) == ("soup", 1)
    file.write_text("[campaigns.shop]\npolicy = 'gone.json'\n")
    with pytest.raises(InputError, match=r"campaign 'shop': .*gone.json"):
        load_configuration(file)


def test_the_file_takes_precedence_and_changes_are_reported(
    store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    changed = msgspec.structs.replace(SHOP, alpha=0.3)
    for settings in (SHOP, changed, changed):
        configuration = Configuration(campaigns={"shop": settings})
        prepare(configuration, store=store, secret_path=secret)
    assert caplog.messages == [
        "campaign 'shop': the configuration file changed settings: alpha 0.1 -> 0.3."
    ]


def test_log_lines_written_before_serving_are_json(tmp_path: Path) -> None:
    options = configured(tmp_path)
    (tmp_path / "shop.toml").write_text(f"{(tmp_path / 'shop.toml').read_text()}alpha = 0.2\n")
    before = load_configuration(tmp_path / "shop.toml")
    prepare(before, store=options[-1], secret_path=None)
    configured(tmp_path)
    made = unswayed(tmp_path, "serve", *options, "--make-key", "*:admin")
    assert made.returncode == 0, made.stderr
    (line,) = made.stderr.splitlines()
    assert json.loads(line)["message"].endswith("file changed settings: alpha 0.2 -> 0.1.")


def test_a_configuration_that_conflicts_with_the_store_changes_nothing(
    store: str, tmp_path: Path
) -> None:
    age = {"age": FeatureSettings(type="number")}
    by_age = Settings(actions=("soup", "curry"), features=age)
    first = Configuration(campaigns={"shop": SHOP, "visits": by_age})
    prepare(first, store=store, secret_path=tmp_path / "secret")
    wrong = Configuration(
        campaigns={
            "new": SHOP,
            "shop": msgspec.structs.replace(SHOP, alpha=0.3),
            "visits": msgspec.structs.replace(by_age, features={"age": FeatureSettings()}),
        }
    )
    with pytest.raises(InputError, match="feature 'age' cannot be removed"):
        prepare(wrong, store=store, secret_path=tmp_path / "secret")
    with opened(store).connected() as connection:
        found = {one.name: one.settings.alpha for one in campaigns(connection)}
    assert found == {"shop": SHOP.alpha, "visits": SHOP.alpha}
