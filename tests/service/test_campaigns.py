"""Campaigns, plans and keys."""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.service.running import SHOP, Running, running, until
from unswayed.service.keys import make_key
from unswayed.service.metrics import Lines
from unswayed.service.records import GRACE_MS, export_batches
from unswayed.service.settings import ServerSettings


def test_campaigns_are_created_archived_restored_and_deleted(shop: Running) -> None:
    body = {"name": "spring", "settings": {"contexts": ["home"], "actions": ["a", "b"]}}
    made = shop.post("/v1/campaigns", body)
    assert shop.post("/v1/campaigns", body) == made
    other = {"name": "spring", "settings": {"contexts": ["home"], "actions": ["a", "c"]}}
    assert shop.refused("POST", "/v1/campaigns", other) == (409, "campaign_exists")
    visit = {"user": "ann", "context": "home"}
    token = shop.post("/v1/spring/decide", visit)["token"]
    shop.post("/v1/spring/archive")
    assert shop.refused("POST", "/v1/spring/decide", visit) == (409, "archived")
    shop.post("/v1/spring/reward", {"token": token, "reward": 1.0})  # for an earlier decision
    shop.post("/v1/spring/restore")
    token = shop.post("/v1/spring/decide", visit)["token"]
    assert shop.refused("DELETE", "/v1/spring") == (400, "not_confirmed")
    assert shop.refused("DELETE", "/v1/spring?confirm=winter") == (400, "not_confirmed")
    assert shop.call("DELETE", "/v1/spring?confirm=spring").status_code == 200
    assert shop.refused("POST", "/v1/spring/decide", visit) == (404, "unknown_campaign")
    time.sleep(0.01)
    shop.post("/v1/campaigns", body)  # another campaign of the same name
    taken = {"token": token, "reward": 1.0}
    assert shop.refused("POST", "/v1/spring/reward", taken) == (403, "other_campaign")
    names = [campaign["name"] for campaign in shop.get("/v1/campaigns")["campaigns"]]
    assert names == ["shop", "spring"]


def test_labels_are_added_while_running_and_unknown_ones_are_refused(shop: Running) -> None:
    brunch = {"user": "ann", "context": "brunch"}
    assert shop.refused("POST", "/v1/shop/decide", brunch) == (422, "unknown_context")
    before = shop.decide()
    shop.post("/v1/shop/contexts", {"labels": ["brunch", "lunch"]})
    shop.post("/v1/shop/actions", {"labels": ["tea"]})
    shop.post("/v1/shop/decide", brunch)
    found = shop.get("/v1/shop")["settings"]
    assert found["contexts"] == ["lunch", "dinner", "brunch"]
    assert found["actions"] == ["soup", "curry", "cola", "tea"]
    shop.post("/v1/shop/reward", {"token": before["token"], "reward": 1.0})
    assert shop.decide(user="zoe")["propensity"] == 0.25
    gone = {"actions": ["soup", "tea"]}
    assert shop.refused("PATCH", "/v1/shop", gone) == (422, "bad_input")


def test_servers_with_one_store_decide_alike_and_see_changes_within_a_second(
    store: str, tmp_path: Path
) -> None:
    with running(store, tmp_path) as one, running(store, tmp_path) as other:
        users = [f"user {number}" for number in range(30)]
        assert [one.decide(user)["action"] for user in users] == [
            other.decide(user)["action"] for user in users
        ]
        token = one.decide()["token"]
        first = other.post("/v1/shop/reward", {"token": token, "reward": 1.0})
        assert one.post("/v1/shop/reward", {"token": token, "reward": 1.0}) == first
        seconds = []
        for number in range(5):
            plan = one.call("PATCH", "/v1/shop", {"default_reward": number + 1.0}).json()["plan"]
            start = time.monotonic()
            until(lambda plan=plan: other.decide()["plan"] == plan)
            seconds.append(time.monotonic() - start)
        assert statistics.median(seconds) < 1.0


def test_keys_grant_what_their_role_allows_and_nothing_else(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, needs_keys=True) as server:
        visit = {"user": "ann", "context": "lunch"}
        assert server.refused("POST", "/v1/shop/decide", visit) == (401, "no_key")
        with server.prepared.database.connected() as connection, connection.transaction():
            root = make_key(connection, "*", "admin")
        until(lambda: server.call("GET", "/v1/shop", key=root).status_code == 200)
        created = {"name": "other", "settings": SHOP}
        assert server.call("POST", "/v1/campaigns", created, key=root).status_code == 200
        made = {
            role: server.call("POST", "/v1/shop/keys", {"role": role}, key=root).json()["key"]
            for role in ("decide", "reward", "admin")
        }
        decide = server.call("POST", "/v1/shop/decide", visit, key=made["decide"])
        assert decide.status_code == 200
        reward = {"token": decide.json()["token"], "reward": 1.0}
        for role, method, path, body, status in (
            ("decide", "POST", "/v1/shop/reward", reward, 403),
            ("reward", "POST", "/v1/shop/decide", visit, 403),
            ("decide", "POST", "/v1/shop/activate", {"token": reward["token"]}, 200),
            ("reward", "POST", "/v1/shop/reward", reward, 200),
            ("decide", "GET", "/v1/shop/policy", None, 403),
            ("reward", "GET", "/v1/shop/export", None, 403),
            ("decide", "POST", "/v1/shop/learn", None, 403),
            ("admin", "GET", "/v1/shop/policy", None, 200),
            ("admin", "POST", "/v1/shop/decide", visit, 200),
            ("admin", "POST", "/v1/other/decide", visit, 403),
            ("admin", "GET", "/v1/other/policy", None, 403),
            ("admin", "POST", "/v1/campaigns", created, 403),
            ("admin", "POST", "/v1/signing-keys", None, 403),
            ("admin", "GET", "/metrics", None, 403),
        ):
            response = server.call(method, path, body, key=made[role])
            assert response.status_code == status, (role, path, response.text)
        for wrong in ("usk_x_y", made["decide"][:-1], made["decide"] + "x", "Bearer"):
            response = server.call("POST", "/v1/shop/decide", visit, key=wrong)
            assert response.status_code == 401
        key_id = made["decide"].split("_")[1]
        path = f"/v1/shop/keys/{key_id}"
        assert server.call("DELETE", path, key=made["admin"]).status_code == 200
        assert server.refused("POST", "/v1/shop/decide", visit, key=made["decide"])[0] == 401
        for public in ("/healthz", "/readyz", "/openapi.json", "/"):
            assert server.call("GET", public).status_code == 200
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("shop.db*"))
    assert all(key.encode() not in stored for key in (root, *made.values()))


def test_large_and_frequent_requests_are_refused(tmp_path: Path) -> None:
    limits = ServerSettings(max_request_bytes=2_000, max_batch=3, requests_per_second=5.0)
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, server=limits) as server:
        large = {"user": "a" * 3_000, "context": "lunch"}
        assert server.refused("POST", "/v1/shop/decide", large) == (413, "too_large")

        pieces = (b" " * 1_000 for _ in range(10))  # sent without a length
        response = server.http.post("/v1/shop/decide", content=pieces)
        assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
        rows = [{"user": "ann", "context": "lunch"}] * 4
        batch = {"decisions": rows}
        assert server.refused("POST", "/v1/shop/decide/batch", batch) == (413, "too_large")
        found = {server.call("GET", "/v1/shop").status_code for _ in range(120)}
        assert found == {200, 429}
        # Pages report shown decisions without a key, but at a limited rate.
        pixels = {server.call("GET", "/v1/shop/shown.gif?token=x").status_code for _ in range(60)}
        assert 429 in pixels
        assert {server.call("GET", "/healthz").status_code for _ in range(60)} == {200}


def test_concurrent_changes_of_settings_are_all_kept(shop: Running) -> None:
    labels = {f"brunch {number}" for number in range(24)}

    def add(label: str) -> httpx.Response:
        address = f"{shop.address}/v1/shop/contexts"
        return httpx.post(address, json={"labels": [label]}, timeout=60.0)

    with ThreadPoolExecutor(8) as pool:
        assert {response.status_code for response in pool.map(add, sorted(labels))} == {200}
    assert set(shop.get("/v1/shop")["settings"]["contexts"]) == labels | set(SHOP.contexts)


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/nothing", None, (404, "no_route")),
        ("GET", "/v1/shop/decide", None, (405, "wrong_method")),
        ("POST", "/v1/shop/decide", {"user": "ann"}, (422, "bad_body")),
        ("POST", "/v1/shop/decide", {"user": None, "context": "lunch"}, (422, "bad_body")),
        ("POST", "/v1/shop/decide", {"user": "a", "context": "lunch", "x": 1}, (422, "bad_body")),
        (
            "POST",
            "/v1/shop/decide",
            {"user": "ann", "context": "lunch", "action": "soup"},
            (400, "bad_request"),
        ),
        ("POST", "/v1/nobody/decide", {"user": "a", "context": "b"}, (404, "unknown_campaign")),
        ("GET", "/v1/shop/policy/x", None, (400, "bad_request")),
        ("GET", "/v1/shop/policy/7", None, (404, "unknown_policy")),
        ("POST", "/v1/shop/policy/7/activate", None, (404, "unknown_policy")),
        ("GET", "/v1/shop/learn/x", None, (404, "unknown_job")),
        ("GET", "/v1/shop/export?since_ms=x", None, (400, "bad_request")),
        ("GET", "/v1/shop/export?colour=red", None, (400, "bad_request")),
        ("POST", "/v1/campaigns", {"name": "No!", "settings": SHOP}, (422, "bad_input")),
        ("PATCH", "/v1/shop", {"mode": "guess"}, (422, "bad_input")),
    ],
)
def test_every_error_has_the_common_format(
    sqlite_shop: Running, method: str, path: str, body: object, expected: tuple[int, str]
) -> None:
    assert sqlite_shop.refused(method, path, body) == expected


def test_an_address_cannot_forge_a_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = ServerSettings(log_requests=True)
    store = f"sqlite:///{tmp_path}/shop.db"
    with (
        running(store, tmp_path, server=server) as shop,
        caplog.at_level("INFO", "unswayed.service"),
    ):
        for name in ("shop", "x%0a2026-01-01%20error%20forged"):
            shop.call("GET", f"/v1/{name}/status")
    text = [Lines(is_json=False).format(record) for record in caplog.records]
    assert ["campaign=shop" in line for line in text] == [True, False]
    assert "forged" not in "".join(text)


def test_invalid_json_is_refused(sqlite_shop: Running) -> None:
    for raw in (b"", b"{", b"\xff", b'{"user": "\\ud800", "context": "lunch"}'):
        response = sqlite_shop.http.post("/v1/shop/decide", content=raw)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "not_json"), raw
    deep = b'{"mode": ' + b"[" * 50_000
    response = sqlite_shop.http.patch("/v1/shop", content=deep)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "not_json")


def test_metrics_count_events_and_name_no_user(sqlite_shop: Running) -> None:
    for number in range(5):
        token = sqlite_shop.decide(f"secret-user-{number}")["token"]
        sqlite_shop.post("/v1/shop/reward", {"token": token, "reward": 1.0})
    text = sqlite_shop.call("GET", "/metrics").text
    assert 'unswayed_decisions_total{campaign="shop",mode="explore"} 5' in text
    assert 'unswayed_rewards_total{campaign="shop"} 5' in text
    assert 'unswayed_requests_total{route="/v1/{campaign}/reward",status="200"} 5' in text
    assert "unswayed_store_healthy 1" in text
    assert "secret-user" not in text


def test_without_keys_cross_site_requests_are_refused(sqlite_shop: Running) -> None:
    """Web pages can make a local browser send requests, also under a name for this machine."""
    host = sqlite_shop.address.removeprefix("http://")
    for headers, status in (
        ({}, 200),
        ({"Origin": f"http://{host}"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example:8321"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost"}, 200),
    ):
        response = sqlite_shop.http.get("/v1/shop", headers=headers)
        assert response.status_code == status, headers


def test_a_campaign_created_again_has_no_old_decisions(sqlite_shop: Running) -> None:
    sqlite_shop.decide("old")
    assert sqlite_shop.call("DELETE", "/v1/shop?confirm=shop").status_code == 200
    time.sleep(0.5)  # until the queued decision is recorded
    quick = msgspec.structs.replace(SHOP, reward_window=0.001)
    sqlite_shop.post("/v1/campaigns", {"name": "shop", "settings": quick})
    new = sqlite_shop.decide("new")["id"]
    time.sleep(GRACE_MS / 1000.0 + 0.5)
    with sqlite_shop.prepared.database.connected() as connection:
        batches = list(export_batches(connection, "shop"))
    assert [row["decision"] for batch in batches for row in batch.to_pylist()] == [new]
