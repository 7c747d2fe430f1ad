"""Users are erased on request, and exports can omit user names."""

import io
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from tests.service.running import SHOP, Running, close_windows, running, until
from tests.service.test_rewards import closed, exported
from unswayed.policy import Decider
from unswayed.service.catalogue import bump, campaign, now_ms, plan_of
from unswayed.service.deciding import DecideRequest, Serving
from unswayed.service.records import pseudonym
from unswayed.service.tokens import Signer, encode_record, signing_keys
from unswayed.service.upkeep import check_store


def test_a_forgotten_user_is_erased_and_does_not_come_back(store: str, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SHOP, reward_window=600.0)
    with running(store, tmp_path, settings) as server, running(store, tmp_path, settings) as other:
        tokens = {}
        for number in range(30):
            for user in ("ann", "bob"):
                key = f"{user} {number}" if number % 2 else ""
                tokens[user, number] = server.decide(user, idempotency_key=key)["token"]
                if number % 3 == 0:
                    body = {"token": tokens[user, number], "reward": 1.0}
                    server.post("/v1/shop/reward", body)
                elif number % 3 == 1:
                    server.post("/v1/shop/activate", {"token": tokens[user, number]})
        until(lambda: server.get("/v1/shop/status")["decisions"] == 60)
        found = server.call("DELETE", "/v1/shop/users?user=ann").json()
        assert found["deleted"] == {
            "decisions": 30,
            "rewards": 10,
            "activations": 10,
            "idempotency_keys": 15,
        }
        for one in (server, other):
            body = {"token": tokens["ann", 2], "reward": 1.0}
            assert one.refused("POST", "/v1/shop/reward", body) == (410, "forgotten")
        server.post("/v1/shop/reward", {"token": tokens["bob", 2], "reward": 1.0})
        with server.prepared.database.connected() as connection:
            for table in ("decisions", "asked", "rewards", "activations", "forgotten", "reports"):
                assert b"ann" not in repr(connection.execute(f"SELECT * FROM {table}")).encode()
        assert not check_store(store, server.prepared.secrets)["problems"]
        again = server.decide("ann")
        server.post("/v1/shop/reward", {"token": again["token"], "reward": 0.5})
        rows = closed(server)
        assert [row["user"] for row in rows.values()].count("bob") == 30
        assert [row["decision"] for row in rows.values() if row["user"] == "ann"] == [again["id"]]


def test_a_user_stays_forgotten_after_the_clock_was_set_back(shop: Running) -> None:
    """Decisions that were made while the clock was ahead are erased, too."""
    secrets = shop.prepared.secrets
    with shop.prepared.database.connected() as connection, connection.transaction():
        there = campaign(connection, "shop")
        plan, _ = plan_of(connection, "shop", there.plan_version)
        served = Serving.of(there, Decider(plan, secrets.assignment))
        early = served.decided(DecideRequest("ann", "lunch"), now_ms() + 1_800_000)
        token = Signer(signing_keys(connection, secrets)).token(encode_record(early)).decode()
        row = ("shop", pseudonym(secrets.assignment, "shop", "ann"), now_ms() + 3_600_000)
        connection.insert("forgotten", [row])
        bump(connection)
    reward = {"token": token, "reward": 1.0}
    until(lambda: shop.call("POST", "/v1/shop/reward", reward).status_code == 410)
    assert shop.call("DELETE", "/v1/shop/users?user=ann").status_code == 200
    assert shop.refused("POST", "/v1/shop/reward", reward) == (410, "forgotten")


def test_an_export_with_pseudonyms_contains_no_user_names(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path) as server:
        for user in ("ann", "bob", "ann"):
            server.decide(user)
        until(lambda: server.get("/v1/shop/status")["decisions"] == 3)
        close_windows(server)
        data = server.call("GET", "/v1/shop/export?pseudonyms=true").content
        rows = pq.read_table(io.BytesIO(data)).to_pylist()
        named = exported(server)
        assert server.refused("GET", "/v1/shop/export?pseudonyms=1") == (400, "bad_request")
    names: dict[str, set[str]] = {}
    for row in rows:
        names.setdefault(named[row["decision"]]["user"], set()).add(row["user"])
    assert {user: len(found) for user, found in names.items()} == {"ann": 1, "bob": 1}
    assert names["ann"] != names["bob"]
    assert not {"ann", "bob"} & {row["user"] for row in rows}


def test_deleting_a_user_requires_a_name(sqlite_shop: Running) -> None:
    assert sqlite_shop.refused("DELETE", "/v1/shop/users") == (422, "bad_input")
    assert sqlite_shop.refused("DELETE", "/v1/other/users?user=ann") == (404, "unknown_campaign")
