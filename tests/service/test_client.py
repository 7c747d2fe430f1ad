"""Clients and commands against a real server."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import unswayed
from tests.pages import ROOT, blocks_of
from tests.service.running import Running, command
from unswayed.cli.serve import serve
from unswayed.errors import InputError
from unswayed.service.client import Client, ServiceError
from unswayed.service.settings import load_configuration

UNSWAYED = Path(sys.executable).with_name("unswayed")


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line."""
    return subprocess.run(
        [UNSWAYED, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_client_decides_and_rewards(sqlite_shop: Running) -> None:
    with unswayed.Client(sqlite_shop.address, "shop") as client:
        decision = client.decide("ann", "lunch", idempotency_key="visit 1")
        assert client.decide("ann", "lunch", idempotency_key="visit 1") == decision
        first = client.reward(decision.token, 1.0)
        assert client.reward(decision.token, 1.0) == first
        later = client.decide("bob", "lunch", is_deferred=True)
        assert client.activate(later.token)["id"] == later.id
        asked = [("ann", "lunch"), ("bob", "nowhere"), ("ann", "lunch")]
        rows = client.decide_many(asked, idempotency_key="visit 2")
        assert client.decide_many(asked, idempotency_key="visit 2")[::2] == rows[::2]
        first_row, wrong, last_row = rows
        assert isinstance(first_row, type(decision))
        assert isinstance(last_row, type(decision))
        assert first_row.id != last_row.id
        assert client.decide_many(asked)[0] != first_row
        assert isinstance(wrong, ServiceError)
        assert wrong.code == "unknown_context"
        assert "error" not in client.reward_many([(first_row.token, 0.0)])[0]
        assert client.get("status")["rewards"] == 2
        with pytest.raises(ServiceError, match="already") as refused:
            client.reward(decision.token, 0.0)
        assert (refused.value.status, refused.value.code) == (409, "reward_conflict")


def test_an_async_client_does_the_same(sqlite_shop: Running) -> None:
    async def visit() -> None:
        async with unswayed.AsyncClient(sqlite_shop.address, "shop") as client:
            decisions = await asyncio.gather(
                *(client.decide(f"user {number}", "dinner") for number in range(20))
            )
            await asyncio.gather(*(client.reward(one.token, 1.0) for one in decisions))
            (row,) = await client.decide_many([("ann", "lunch")])
            assert not isinstance(row, ServiceError)
            await client.reward_many([(row.token, 1.0)])
            await client.activate(row.token)
            assert (await client.get("status"))["rewards"] == 21
            with pytest.raises(ServiceError):
                await client.post("policy/9/activate")

    asyncio.run(visit())


def test_a_client_retries_and_then_raises_an_error() -> None:
    asked: list[bytes] = []

    class Moody(BaseHTTPRequestHandler):
        """Fails every second request."""

        def do_POST(self) -> None:
            """Answer."""
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps({"id": "x", "reward": 1.0}).encode()
            self.send_response(503 if len(asked) % 2 else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Moody) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Client(f"http://127.0.0.1:{server.server_port}", "shop") as client:
            assert client.reward("token", 1.0)["reward"] == 1.0
        assert len(asked) == 2
        assert asked[0] == asked[1]
        server.shutdown()
    with (
        Client(f"http://127.0.0.1:{server.server_port}", "shop") as client,
        pytest.raises(ServiceError, match="cannot be reached"),
    ):
        client.reward("token", 1.0)


def test_a_client_ignores_unknown_fields_and_reports_errors_of_proxies() -> None:
    served = {"id": "1", "action": "soup", "propensity": 0.5, "mode": "explore", "plan": 1}
    bodies = [
        json.dumps({**served, "token": "k.x", "new": 1}).encode(),
        json.dumps({"decisions": [{**served, "token": "k.x", "new": 1}]}).encode(),
        b"<html>Sign in to the network</html>",
    ]

    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = bodies.pop(0)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Client(f"http://127.0.0.1:{server.server_port}", "shop") as client:
            decision = client.decide("ann", "lunch")
            assert decision.action == "soup"
            assert client.decide_many([("ann", "lunch")]) == [decision]
            with pytest.raises(ServiceError) as refused:
                client.reward("k.x", 1.0)
            assert refused.value.code == "no_service"
        server.shutdown()


def test_serve_without_a_configuration_has_a_demo_campaign(tmp_path: Path) -> None:
    with command(folder=tmp_path) as (_, address):
        decided = run(
            "decide", "demo", "--user", "ann", "--context", "lunch", "--address", address,
            "--json", folder=tmp_path,
        )  # fmt: skip
        assert decided.returncode == 0, decided.stderr
        token = json.loads(decided.stdout)["token"]
        told = run(
            "reward", "demo", "--token", token, "--reward", "1", "--address", address,
            folder=tmp_path,
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith("recorded: 1 ")
        again = run(
            "reward", "demo", "--token", token, "--reward", "0", "--address", address,
            folder=tmp_path,
        )  # fmt: skip
        assert again.returncode == 2
        assert "reward_conflict" in again.stderr
    assert stat.S_IMODE((tmp_path / "unswayed.db.secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "unswayed.db").stat().st_mode) == 0o600


def test_serve_refuses_to_listen_beyond_loopback_without_keys(tmp_path: Path) -> None:
    refused = run("serve", "--host", "0.0.0.0", "--port", "0", folder=tmp_path)
    assert refused.returncode == 2
    assert "--make-key" in refused.stderr
    made = run("serve", "--make-key", "*:admin", "--json", folder=tmp_path)
    assert made.returncode == 0
    key = json.loads(made.stdout)["key"]
    with command("--host", "0.0.0.0", folder=tmp_path) as (_, address):
        local = address.replace("0.0.0.0", "127.0.0.1")
        ask = ("decide", "demo", "--user", "ann", "--context", "lunch", "--address", local)
        assert run(*ask, folder=tmp_path).returncode == 2
        assert run(*ask, folder=tmp_path, UNSWAYED_KEY=key).returncode == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"store": "mysql://x"}, "--store"),
        ({"store": "sqlite:////nowhere/at/all.db"}, "cannot write the store"),
        ({"config": Path("missing.toml")}, "missing.toml"),
        ({"workers": 0}, "--workers"),
        ({"port": 99_999}, "--port"),
        ({"make_key": "demo"}, "--make-key"),
        ({"make_key": "demo:king"}, "role"),
        ({"make_key": "nobody:decide"}, "nobody"),
        ({"host": "192.0.2.1"}, "--make-key"),
    ],
)
def test_serve_reports_an_error_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        serve(**options)
    assert word in refused.value.on_command_line
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[campaigns", "TOML"),
        ("[campaigns.shop]\ncontexts = ['a']", "actions"),
        ("[campaigns.Shop]\ncontexts = ['a']\nactions = ['x', 'y']", "Shop"),
        ("[campaigns.shop]\ncontexts = ['a']\nactions = ['x', 'y']\nalpha = 0.7", "alpha"),
        ("[server]\ncolour = 'red'", "colour"),
        ("[server]\nmax_batch = 0", "max_batch is 0: it must be at least 1"),
        ("[server]\nmax_batch = 'many'", "max_batch: expected `int`"),
        ("[campaign.shop]\ncontexts = ['a']", "did you mean campaigns"),
        ("[campaigns]\nshop = 3", "'shop': expected"),
        ("[policies]\nshop = 'policy.json'", "unknown table 'policies'"),
        ("campaigns = 3", r"write \[campaigns.NAME\]"),
        ("[campaigns.shop]\nrewards_window = 3.0", "'shop': .*did you mean reward_window"),
        ("[campaigns.shop]\ncontexts = ['a']\nactions = ['x', 'x']", "'x' is given twice"),
    ],
)
def test_an_invalid_configuration_is_reported(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=word):
        load_configuration(path)


def test_the_curl_example_of_the_readme_works(sqlite_demo: Running, tmp_path: Path) -> None:
    (block,) = [b for b in blocks_of(ROOT / "README.md") if b.text.startswith("unswayed serve &")]
    rest = block.text.splitlines()[1:]
    port = sqlite_demo.address.rsplit(":", 1)[1]
    script = "\n".join(rest).replace("8321", port)
    script = script.replace("unswayed ", f"{UNSWAYED} ").replace(
        "decide demo", f"decide demo --address {sqlite_demo.address}"
    )
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    reward = json.loads(next(line for line in result.stdout.splitlines() if '"reward"' in line))
    assert reward["reward"] == 1.0
    assert "propensity" in result.stdout
    assert sqlite_demo.get("/v1/demo/status")["rewards"] == 1


@pytest.mark.parametrize(
    ("package", "extra", "ask"),
    [
        ("msgspec", "service", "serve"),
        ("httpx", "service", "decide demo --user ann --context lunch"),
        ("matplotlib", "plots", "demo"),
        ("distributed", "cluster", "learn log.csv --engine dask"),
        ("psycopg", "postgresql", "learn postgresql://ann@host/shop --query SELECT"),
    ],
)
def test_a_missing_extra_is_reported_in_one_sentence(
    tmp_path: Path, package: str, extra: str, ask: str
) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError(name={package!r})")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    result = run(*ask.split(), folder=tmp_path, PYTHONPATH=path)
    assert result.returncode == 2
    assert result.stderr.endswith(f"install unswayed with the extra '{extra}'.\n")
    assert result.stderr.count("\n") == 1
