"""Decisions, and accepted and refused rewards, on both databases."""

import io
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from tests.service.running import SHOP, Running, close_windows, running, until
from unswayed.service.client import Client
from unswayed.service.offline import learnable
from unswayed.service.records import export_batches
from unswayed.service.settings import Settings


def exported(server: Running) -> dict[str, dict[str, Any]]:
    """Return the learnable decisions by id."""
    with server.prepared.database.connected() as connection:
        rows = [row for batch in export_batches(connection, "shop") for row in batch.to_pylist()]
    assert len({row["decision"] for row in rows}) == len(rows)
    return {row["decision"]: row for row in rows}


def closed(server: Running) -> dict[str, dict[str, Any]]:
    """Shorten the window, wait until it has closed, and return the learnable decisions."""
    close_windows(server)
    return exported(server)


def test_a_reward_counts_once_and_a_repetition_gets_the_first_response(shop: Running) -> None:
    decision = shop.decide()
    body = {"token": decision["token"], "reward": 1.0}
    first = shop.post("/v1/shop/reward", body)
    assert first["id"] == decision["id"]
    for _ in range(3):
        assert shop.post("/v1/shop/reward", body) == first
    other = {"token": decision["token"], "reward": 0.5}
    assert shop.refused("POST", "/v1/shop/reward", other) == (409, "reward_conflict")
    row = closed(shop)[decision["id"]]
    assert (row["reward"], row["n_rewards"], row["user"]) == (1.0, 1, "ann")
    response = shop.call("GET", "/v1/shop/export")
    assert pq.read_table(io.BytesIO(response.content)).to_pylist() == [row]


def test_only_issued_tokens_are_accepted(shop: Running) -> None:
    token = shop.decide()["token"]
    for position in range(len(token)):
        changed = "A" if token[position] != "A" else "B"
        forged = token[:position] + changed + token[position + 1 :]
        body = {"token": forged, "reward": 1.0}
        assert shop.refused("POST", "/v1/shop/reward", body) == (403, "bad_token")


def test_a_token_of_another_campaign_is_refused(shop: Running) -> None:
    shop.post("/v1/campaigns", {"name": "other", "settings": SHOP})
    token = shop.decide()["token"]
    body = {"token": token, "reward": 1.0}
    assert shop.refused("POST", "/v1/other/reward", body) == (403, "other_campaign")
    assert shop.refused("POST", "/v1/other/activate", {"token": token}) == (403, "other_campaign")
    assert shop.get("/v1/other/status")["rewards"] == 0


def test_a_reward_after_its_window_is_refused_unless_it_repeats_one(
    store: str, tmp_path: Path
) -> None:
    with running(store, tmp_path) as server:
        early, late = server.decide(), server.decide("bob")
        first = server.post("/v1/shop/reward", {"token": early["token"], "reward": 1.0})
        close_windows(server)
        repeated = server.post("/v1/shop/reward", {"token": early["token"], "reward": 1.0})
        assert repeated == first
        body = {"token": late["token"], "reward": 1.0}
        assert server.refused("POST", "/v1/shop/reward", body) == (410, "window_closed")
        assert exported(server)[late["id"]]["n_rewards"] == 0


def test_nothing_is_learned_before_the_window_closes(shop: Running) -> None:
    token = shop.decide()["token"]
    shop.post("/v1/shop/reward", {"token": token, "reward": 1.0})
    assert exported(shop) == {}
    assert len(closed(shop)) == 1


@pytest.mark.parametrize(("aggregation", "expected"), [("first", None), ("sum", 2.5), ("max", 1.5)])
def test_rewards_within_the_window_are_aggregated(
    store: str, tmp_path: Path, aggregation: Any, expected: float | None
) -> None:
    settings = msgspec.structs.replace(SHOP, aggregation=aggregation)
    with running(store, tmp_path, settings) as server:
        decision = server.decide()
        body = {"token": decision["token"], "reward": 1.0, "reward_id": "a"}
        server.post("/v1/shop/reward", body)
        server.post("/v1/shop/reward", body)
        more = {"token": decision["token"], "reward": 1.5, "reward_id": "b"}
        if expected is None:
            assert server.refused("POST", "/v1/shop/reward", more) == (409, "reward_conflict")
            assert closed(server)[decision["id"]]["reward"] == 1.0
        else:
            server.post("/v1/shop/reward", more)
            changed = {**more, "reward": 9.0}
            assert server.refused("POST", "/v1/shop/reward", changed) == (409, "reward_conflict")
            assert closed(server)[decision["id"]]["reward"] == expected


def test_a_decision_without_a_reward_gets_the_default(store: str, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SHOP, default_reward=-0.25)
    with running(store, tmp_path, settings) as server:
        decision = server.decide()
        until(lambda: server.get("/v1/shop/status")["decisions"] == 1)
        row = closed(server)[decision["id"]]
    assert (row["reward"], row["n_rewards"]) == (-0.25, 0)


def test_a_deferred_decision_counts_only_when_it_was_shown(shop: Running) -> None:
    never = shop.decide("ann", is_deferred=True)
    shown = shop.decide("bob", is_deferred=True)
    rewarded = shop.decide("cleo", is_deferred=True)
    first = shop.post("/v1/shop/activate", {"token": shown["token"]})
    assert shop.post("/v1/shop/activate", {"token": shown["token"]}) == first
    shop.post("/v1/shop/reward", {"token": rewarded["token"], "reward": 1.0})
    until(lambda: shop.get("/v1/shop/status")["decisions"] == 3)
    rows = closed(shop)
    assert set(rows) == {shown["id"], rewarded["id"]}
    assert rows[shown["id"]]["n_rewards"] == 0
    late = {"token": never["token"]}
    assert shop.refused("POST", "/v1/shop/activate", late) == (410, "window_closed")


def test_an_idempotency_key_gets_the_first_decision_again(shop: Running) -> None:
    first = shop.decide(idempotency_key="visit 7")
    shop.post("/v1/shop/contexts", {"labels": ["brunch"]})  # another plan is served by now
    assert shop.decide(idempotency_key="visit 7") == first
    assert shop.decide(idempotency_key="visit 8")["id"] != first["id"]
    for body in (
        {"user": "bob", "context": "lunch", "idempotency_key": "visit 7"},
        {"user": "ann", "context": "dinner", "idempotency_key": "visit 7"},
    ):
        assert shop.refused("POST", "/v1/shop/decide", body) == (409, "idempotency_conflict")
    assert len(closed(shop)) == 2


def test_every_row_of_a_batch_gets_its_own_response(shop: Running) -> None:
    rows = [
        {"user": "ann", "context": "lunch"},
        {"user": "bob", "context": "tea"},
        {"user": "", "context": "lunch"},
        {"user": 7, "context": "dinner"},
        {"user": "a\0b", "context": "lunch"},
        {"user": "ü" * 129, "context": "lunch"},
        {"user": "ü" * 128, "context": "lunch"},
        {"user": "ann", "context": "lunch", "idempotency_key": "\0"},
    ]
    responses = shop.post("/v1/shop/decide/batch", {"decisions": rows})["decisions"]
    assert [response.get("error", {}).get("code") for response in responses] == [
        None,
        "unknown_context",
        "bad_request",
        None,
        "bad_request",
        "bad_request",
        None,
        "bad_request",
    ]
    rewards = [
        {"token": responses[0]["token"], "reward": 1.0},
        {"token": responses[0]["token"], "reward": 2.0},
        {"token": "no token", "reward": 1.0},
        {"token": responses[3]["token"], "reward": 0.0},
    ]
    taken = shop.post("/v1/shop/reward/batch", {"rewards": rewards})["rewards"]
    assert [response.get("error", {}).get("code") for response in taken] == [
        None,
        "reward_conflict",
        "bad_token",
        None,
    ]


def test_rewards_outside_the_stated_range_are_refused(store: str, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SHOP, lowest_reward=0.0, highest_reward=1.0)
    with running(store, tmp_path, settings) as server:
        token = server.decide()["token"]
        for reward in (-0.1, 1.1, 1e300):
            body = {"token": token, "reward": reward}
            assert server.refused("POST", "/v1/shop/reward", body) == (422, "bad_reward")


def test_the_reward_of_an_unrecorded_decision_restores_it(shop: Running) -> None:
    """After a crash, only the token may contain the decision."""
    decision = shop.decide("dora", "dinner")
    until(lambda: shop.get("/v1/shop/status")["decisions"] == 1)
    with shop.prepared.database.connected() as connection:
        connection.execute("DELETE FROM decisions")
    shop.post("/v1/shop/reward", {"token": decision["token"], "reward": 1.0})
    row = closed(shop)[decision["id"]]
    assert (row["user"], row["context"], row["action"]) == ("dora", "dinner", decision["action"])
    assert row["propensity"] == decision["propensity"]


def test_every_decision_can_be_explained_and_recomputed(store: str, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(
        SHOP, mode="serve", explore_share=0.5, control_share=0.3, baseline="curry"
    )
    modes = set()
    with running(store, tmp_path, settings) as server:
        decisions = [server.decide(f"user {number}") for number in range(30)]
        until(lambda: server.get("/v1/shop/status")["decisions"] == 30)
        for decision in decisions:
            why = server.get(f"/v1/shop/decisions/{decision['id']}/explain")
            assert why["is_reproduced"]
            assert (why["action"], why["mode"]) == (decision["action"], decision["mode"])
            modes.add(why["mode"])
        nobody = "0" * 32
        path = f"/v1/shop/decisions/{nobody}/explain"
        assert server.refused("GET", path) == (404, "unknown_decision")
    assert modes == {"explore", "exploit", "control"}


def test_shadow_mode_returns_the_callers_action_and_counts_matches(
    store: str, tmp_path: Path
) -> None:
    settings = msgspec.structs.replace(SHOP, mode="shadow", explore_share=0.0, baseline="curry")
    with running(store, tmp_path, settings) as server:
        responses = [server.decide(f"u{n}", action="curry", propensity=0.5) for n in range(3)]
        responses.append(server.decide("v", action="soup"))
        assert [response["action"] for response in responses] == ["curry"] * 3 + ["soup"]
        assert {response["mode"] for response in responses} == {"shadow"}
        body = {"user": "ann", "context": "lunch"}
        assert server.refused("POST", "/v1/shop/decide", body) == (400, "bad_request")
        unknown = {**body, "action": "pizza"}
        assert server.refused("POST", "/v1/shop/decide", unknown) == (422, "unknown_action")
        until(lambda: server.get("/v1/shop/status")["match_rate"] == 0.75)
        rows = closed(server)
        assert server.get("/v1/shop/report")["shadow"] == {"decisions": 4, "match_rate": 0.75}
    assert {row["planned_action"] for row in rows.values()} == {"curry"}
    assert [rows[response["id"]]["propensity"] for response in responses] == [0.5, 0.5, 0.5, None]


def test_errors_name_the_invalid_setting() -> None:
    good = {"contexts": ["a"], "actions": ["x", "y"]}
    from unswayed.errors import InputError
    from unswayed.service.settings import parsed_settings

    assert parsed_settings(good, "here") == Settings(contexts=("a",), actions=("x", "y"))
    for change, word in (
        ({"alpha": 0.5}, "alpha"),
        ({"control_share": 0.6}, "control_share"),
        ({"explore_share": -0.1}, "explore_share"),
        ({"baseline": "z"}, "baseline"),
        ({"mode": "guess"}, "mode"),
        ({"actions": ["x"]}, "actions"),
        ({"actions": ["x", "x"]}, "action"),
        ({"contexts": ["a" * 257]}, "context"),
        ({"reward_window": 0.0}, "reward_window"),
        ({"default_reward": 1e31}, "default_reward"),
        ({"aggregation": "mean"}, "aggregation"),
        ({"colour": "red"}, "colour"),
        ({"method": "magic"}, "magic"),
        ({"max_interactions_per_user": 0}, "max_interactions_per_user"),
        ({"max_interactions_per_user": 10**30}, "max_interactions_per_user"),
        ({"retention": 1e300}, "retention"),
        ({"webhook": "file:///etc"}, "webhook"),
        ({"webhook_share": 2.0}, "webhook_share"),
        ({"learn_every": -1.0}, "learn_every"),
        ({"target": 0.0}, "target"),
    ):
        with pytest.raises(InputError, match=word):
            parsed_settings({**good, **change}, "here")


def test_a_sum_of_rewards_stays_within_the_range(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(
        SHOP, aggregation="sum", lowest_reward=-2.0, highest_reward=3.0
    )
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
        high, low, middle = (server.decide(user) for user in ("ann", "bob", "cleo"))
        for number in range(5):
            for decision, value in ((high, 1.0), (low, -1.0), (middle, 0.25)):
                body = {"token": decision["token"], "reward": value, "reward_id": str(number)}
                server.post("/v1/shop/reward", body)
        found = closed(server)
    assert [found[one["id"]]["reward"] for one in (high, low, middle)] == [3.0, -2.0, 1.25]


@pytest.mark.parametrize("years", [-60, -1])
def test_a_clock_that_is_behind_loses_no_reward(
    sqlite_shop: Running, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + years * 365 * 86_400 * 10**9)
    decision = sqlite_shop.decide()
    body = {"token": decision["token"], "reward": 1.0}
    sqlite_shop.post("/v1/shop/reward", body)
    monkeypatch.setattr(time, "time_ns", real)
    assert closed(sqlite_shop)[decision["id"]]["reward"] == 1.0


def test_counters_count_only_new_rewards(shop: Running) -> None:
    for _ in range(3):
        decision = shop.decide(idempotency_key="once")
        shop.post("/v1/shop/reward", {"token": decision["token"], "reward": 1.0})
    rows = [{"token": decision["token"], "reward": 1.0}] * 2
    shop.post("/v1/shop/reward/batch", {"rewards": rows})
    text = shop.call("GET", "/metrics").text
    assert 'unswayed_decisions_total{campaign="shop",mode="explore"} 1\n' in text
    assert 'unswayed_rewards_total{campaign="shop"} 1\n' in text
    until(lambda: shop.get("/v1/shop/status")["decisions"] == 1)
    assert shop.get("/v1/shop/status")["rewards"] == 1
    another = shop.decide(idempotency_key="again")
    shop.post("/v1/shop/reward", {"token": another["token"], "reward": 1.0})
    status = shop.get("/v1/shop/status")
    assert (status["decisions"], status["rewards"]) == (2, 2)


def test_names_that_a_database_cannot_store_are_refused(shop: Running) -> None:
    for method, path, body in (
        ("GET", "/v1/a%00b", None),
        ("GET", "/v1/shop/learn/a%00b", None),
        ("GET", "/v1/shop/policy/%00", None),
        ("DELETE", "/v1/keys/a%00b", None),
        ("GET", "/v1/shop/decisions?user=%00", None),
        ("POST", "/v1/keys", {"role": "admin", "campaign": "a\0b"}),
        ("POST", "/v1/campaigns", {"name": "a\0b", "settings": SHOP}),
        ("PATCH", "/v1/shop", {"baseline": "\0"}),
        ("PATCH", "/v1/shop", {"webhook": "http://a\0b/"}),
    ):
        assert 400 <= shop.refused(method, path, body)[0] < 500, path
    assert shop.decide()["token"]


def test_a_page_reports_shown_decisions_by_an_image(tmp_path: Path) -> None:
    """The image's address contains the decision's token, and needs no key."""
    settings = msgspec.structs.replace(SHOP, is_deferred=True)
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
        seen, unseen = server.decide("ann"), server.decide("bob")
        server.post("/v1/keys", {"role": "admin"})
        path = Client(server.address, "shop").pixel(seen["token"])
        for _ in range(2):
            response = server.call("GET", path)
            assert (response.status_code, response.content[:3]) == (200, b"GIF")
            assert response.headers["cache-control"] == "no-store"
        forged = path[:-4] + "AAAA"
        assert server.refused("GET", forged) == (403, "bad_token")
        with server.prepared.database.connected() as connection:
            rows = connection.execute("SELECT decision FROM activations")
        assert [bytes(row[0]).hex() for row in rows] == [seen["id"]] != [unseen["id"]]


def test_with_activation_unseen_decisions_do_not_count(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SHOP, is_deferred=True)
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
        for number in range(40):
            decision = server.decide(f"user {number}")
            for crawler in range(4):
                server.decide(f"crawler {number} {crawler}")
            if number % 4:
                server.post("/v1/shop/activate", {"token": decision["token"]})
            else:
                server.post("/v1/shop/reward", {"token": decision["token"], "reward": 1.0})
        close_windows(server)
        with server.prepared.database.connected() as connection:
            events, plays, n_silent = learnable(export_batches(connection, "shop"), SHOP)
    assert (len(plays), n_silent) == (40, 30)
    assert set(events["user"].to_pylist()) == {f"user {number}" for number in range(40)}
