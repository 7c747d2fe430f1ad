"""Batches take a faster path to the same decisions."""

import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.service.running import SHOP, Running, running
from unswayed.service.settings import Settings

MANY_CONTEXTS = msgspec.structs.replace(SHOP, contexts=("a", "b", "c", "d"))
SERVED = msgspec.structs.replace(
    SHOP, mode="serve", explore_share=0.5, control_share=0.3, is_deferred=True
)


@pytest.mark.parametrize("settings", [SHOP, MANY_CONTEXTS, SERVED])
def test_a_batch_makes_the_same_decisions_as_single_requests(
    tmp_path: Path, settings: Settings
) -> None:
    """An explanation recomputes the decision as a single request would."""
    rows = [
        {"user": f"user {number} é", "context": settings.contexts[number % len(settings.contexts)]}
        for number in range(60)
    ]
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as shop:
        found = shop.post("/v1/shop/decide/batch", {"decisions": rows})["decisions"]
        for row, response in zip(rows, found, strict=True):
            told = shop.get(f"/v1/shop/decisions/{_rewarded(shop, response)}/explain")
            assert told["is_reproduced"]
            assert told["is_deferred"] == settings.is_deferred
            shown = {**row, **{name: response[name] for name in ("action", "propensity", "mode")}}
            assert {name: told[name] for name in shown} == shown
    modes = {"explore", "exploit", "control"} if settings is SERVED else {"explore"}
    assert {response["mode"] for response in found} == modes
    assert len({response["id"] for response in found}) == len(rows)


def _rewarded(shop: Running, response: dict[str, Any]) -> str:
    """Reward a decision, which writes it to the store; return its id."""
    taken = shop.post("/v1/shop/reward", {"token": response["token"], "reward": 1.0})
    assert taken["id"] == response["id"]
    return str(taken["id"])


def receive(connection: socket.socket, end: bytes) -> None:
    """Receive until the data end with these bytes."""
    found = b""
    while not found.endswith(end):
        part = connection.recv(65_536)
        assert part
        found += part


def test_invalid_data_end_the_responses(sqlite_shop: Running) -> None:
    host, port = sqlite_shop.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        for _ in range(3):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            receive(connection, b'{"status":"ok"}')
        body = b'{"user":"ann","context":"lunch"}'
        connection.sendall(
            b"POST /v1/shop/decide HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        receive(connection, b'"}')
        connection.sendall(b"nonsense\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")
        assert connection.recv(65_536) == b""


@pytest.mark.parametrize("row", [b"1", b'{"x":1}'])
def test_only_as_many_malformed_rows_are_read_as_a_batch_may_have(
    sqlite_shop: Running, row: bytes
) -> None:
    """Otherwise a body of a megabyte could keep a worker busy for a minute."""
    body = b'{"decisions":[' + b",".join([row] * (900_000 // len(row) // 2)) + b"]}"
    start = time.process_time()
    response = sqlite_shop.http.post("/v1/shop/decide/batch", content=body)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
    assert time.process_time() - start < 2.0


def test_every_malformed_row_gets_its_own_error(sqlite_shop: Running) -> None:
    good = {"user": "bob", "context": "dinner"}
    rows = [good, {"usr": "bob"}, "soup", {**good, "idempotency_key": 5}, None, good]
    responses = sqlite_shop.post("/v1/shop/decide/batch", {"decisions": rows})["decisions"]
    assert [one.get("error", {}).get("code") for one in responses] == [
        None,
        *["bad_body"] * 4,
        None,
    ]
    assert responses[1]["error"]["message"] == "the body has no field 'usr'; did you mean 'user'?"
    rewards = [
        {"token": responses[0]["token"], "reward": 1.0},
        {"token": responses[0]["token"], "reward": "much"},
        {"token": responses[5]["token"], "reward": 0.0},
    ]
    taken = sqlite_shop.post("/v1/shop/reward/batch", {"rewards": rewards})["rewards"]
    assert ["error" in one for one in taken] == [False, True, False]
    wrongs: list[Any] = [{"decisions": 5}, {"decision": []}, [], {"decisions": [good], "more": []}]
    for wrong in wrongs:
        assert sqlite_shop.refused("POST", "/v1/shop/decide/batch", wrong) == (422, "bad_body")
    # Lone surrogate after a malformed row: the whole body is invalid JSON.
    raw = b'{"decisions": [1, {"user": "\\ud800", "context": "lunch"}]}'
    response = sqlite_shop.http.post("/v1/shop/decide/batch", content=raw)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "not_json")
