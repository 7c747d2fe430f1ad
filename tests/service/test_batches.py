"""Batches take a shorter way to the same decisions."""

import socket
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.service.running import SHOP, Running
from unswayed.policy import Decider
from unswayed.service.catalogue import Campaign
from unswayed.service.deciding import PlainRequest, Serving, play_of
from unswayed.service.planning import make_plan
from unswayed.service.serving import OneWrite
from unswayed.service.settings import Settings
from unswayed.service.tokens import decode_record

MANY_CONTEXTS = msgspec.structs.replace(SHOP, contexts=("a", "b", "c", "d"))
SERVED = msgspec.structs.replace(
    SHOP, mode="serve", explore_share=0.5, control_share=0.3, is_deferred=True
)


@pytest.mark.parametrize("settings", [SHOP, MANY_CONTEXTS, SERVED])
def test_a_batch_decides_as_single_requests_do(
    settings: Settings, rng: np.random.Generator
) -> None:
    decider = Decider(make_plan("shop", settings, epoch=2), rng.bytes(16))
    served = Serving.of(Campaign("shop", settings, "active", 0, 7, 0), decider)
    asked = [
        PlainRequest(f"user {number} é", settings.contexts[number % len(settings.contexts)])
        for number in range(500)
    ]
    found = served.decided_at_once(asked, 1_700_000_000_123)
    assert found is not None
    modes = set()
    for number, (payload, request) in enumerate(zip(found.payloads, asked, strict=True)):
        record = decode_record(payload)
        ruling = decider.decide(request.user, request.context, play_of(record.id))
        assert record.id == found.ids[16 * number : 16 * number + 16]
        assert record.time_ms == 1_700_000_000_123
        assert (record.campaign, record.plan) == ("shop", 7)
        assert (record.user, record.context) == (request.user, request.context)
        assert (record.mode, record.action) == (ruling.mode, ruling.action)
        assert record.propensity == ruling.propensity
        assert record.is_deferred == settings.is_deferred
        modes.add(record.mode)
    assert modes == ({"explore", "exploit", "control"} if settings is SERVED else {"explore"})
    assert len({decode_record(payload).id for payload in found.payloads}) == len(asked)


def test_a_batch_answers_what_its_tokens_say(shop: Running) -> None:
    rows = [{"user": f"user {number}", "context": "lunch"} for number in range(50)]
    responses = shop.post("/v1/shop/decide/batch", {"decisions": rows})["decisions"]
    assert len(responses) == 50
    for number, response in enumerate(responses):
        told = shop.get(f"/v1/shop/decisions/{_rewarded(shop, response)}/explain")
        assert told["is_reproduced"]
        assert told["user"] == f"user {number}"
        assert {name: told[name] for name in ("action", "propensity", "mode")} == {
            name: response[name] for name in ("action", "propensity", "mode")
        }


def _rewarded(shop: Running, response: dict[str, Any]) -> str:
    """Reward a decision, which brings it into the store; return its id."""
    taken = shop.post("/v1/shop/reward", {"token": response["token"], "reward": 1.0})
    assert taken["id"] == response["id"]
    return str(taken["id"])


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"user": "ann", "context": "breakfast"}, "unknown_context"),
        ({"user": "a\0b", "context": "lunch"}, "bad_request"),
        ({"user": "", "context": "lunch"}, "bad_request"),
        ({"user": "ü" * 129, "context": "lunch"}, "bad_request"),
    ],
)
def test_one_bad_row_spoils_no_batch(sqlite_shop: Running, row: dict[str, Any], code: str) -> None:
    good = {"user": "bob", "context": "dinner"}
    odd = [{"user": 17, "context": "lunch"}, {"user": "é" * 128, "context": "lunch"}]
    body = {"decisions": [good, row, good, *odd]}
    responses = sqlite_shop.post("/v1/shop/decide/batch", body)["decisions"]
    assert responses[1]["error"]["code"] == code
    assert ["error" in response for response in responses] == [False, True, False, False, False]


class Recording:
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.written.append(data)

    def close(self) -> None:
        """Keep that too."""
        self.written.append(b"closed")


def test_a_head_waits_for_its_body() -> None:
    recording = Recording()
    transport = OneWrite(recording)  # type: ignore[arg-type]
    for data in (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"body", b"more"):
        transport.write(data)
    transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    transport.close()
    assert recording.written == [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nbody",
        b"more",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"closed",
    ]


def test_an_answer_comes_whole(sqlite_shop: Running) -> None:
    host, port = sqlite_shop.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        for _ in range(3):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(65_536).endswith(b'{"status":"ok"}')
        body = b'{"user":"ann","context":"lunch"}'
        connection.sendall(
            b"POST /v1/shop/decide HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert connection.recv(65_536).endswith(b'"}')
        connection.sendall(b"nonsense\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")
        assert connection.recv(65_536) == b""


def test_malformed_rows_have_errors_of_their_own(sqlite_shop: Running) -> None:
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
