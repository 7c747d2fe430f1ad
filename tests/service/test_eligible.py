"""Decisions among eligible actions: exact propensities, no manipulation, and rankings."""

import time
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.service.learned import learned_policy, publish_learned
from tests.service.running import SHOP, Running, running
from tests.service.test_propensities import CASES, FAILURE
from tests.service.test_rewards import closed
from unswayed.policy import Decider
from unswayed.service.catalogue import Campaign
from unswayed.service.client import Client
from unswayed.service.deciding import MOST_ACTIONS, DecideRequest, Serving
from unswayed.service.planning import make_plan, next_plan_of
from unswayed.service.settings import Settings
from unswayed.service.tokens import Record, decode_record, encode_record


def served(settings: Settings, secret: bytes) -> Serving:
    policy = learned_policy(settings.contexts[:2], settings.actions)
    plan = next_plan_of(make_plan("shop", settings), settings, policy)
    campaign = Campaign("shop", "active", 0, 1, 0, settings)
    return Serving.of(campaign, Decider(plan, secret), policy)


def decided(serving: Serving, *asked: DecideRequest) -> list[Record]:
    return [decode_record(encode_record(serving.decided(one, 1_000_000))) for one in asked]


@pytest.mark.parametrize("case", [name for name in CASES if name != "shadow"])
@pytest.mark.parametrize("places", [(0, 1), (1, 2), (2,), (0, 1, 2)])
def test_propensities_are_exact_for_every_list(
    case: str, places: tuple[int, ...], rng: np.random.Generator
) -> None:
    settings = CASES[case]
    serving = served(settings, rng.bytes(16))
    names = [settings.actions[place] for place in places]
    n = 4_000
    context = settings.contexts[0]
    records = decided(
        serving, *(DecideRequest(f"user {k}", context, actions=list(names)) for k in range(n))
    )
    plays = Counter(record.action for record in records)
    stated = {record.action: record.propensity for record in records}
    assert set(stated) <= set(names)
    assert {(record.action, record.propensity) for record in records} == set(stated.items())
    assert sum(stated.values()) == pytest.approx(1.0) or len(stated) < len(names)
    tolerance = np.sqrt(np.log(2 * 60 / FAILURE) / (2 * n))  # Hoeffding, over all cases
    for name in names:
        assert abs(plays[name] / n - stated.get(name, 0.0)) < tolerance


@pytest.mark.parametrize("case", ["learn, sticky", "learn, at every play", "serve, held back"])
def test_a_list_takes_decisions_out_of_learning_and_never_moves_them(
    case: str, rng: np.random.Generator
) -> None:
    """A coalition explores no other action with lists than without."""
    settings = CASES[case]
    serving = served(settings, rng.bytes(16))
    context, cola = settings.contexts[0], settings.actions[2]
    n_kept = n_gone = 0
    for number in range(2_000):
        wanted = [cola, settings.actions[number % 2]]
        id_ = rng.bytes(16)
        due = serving.decider.decide(f"bot {number}", context, int.from_bytes(id_[-8:], "big") >> 2)
        ruling = serving.ranking.ruling(due, context, frozenset(wanted))
        if ruling.mode == "explore":
            assert (ruling.mode, ruling.action) == (due.mode, due.action)
            n_kept += 1
        elif due.mode == "explore":
            assert ruling.mode == "substitute"
            n_gone += 1
    assert n_kept > 50
    assert n_gone > 20


def test_a_list_of_few_among_thousands_takes_about_a_millisecond() -> None:
    """Otherwise a batch of a thousand such requests would keep a worker busy for many seconds."""
    actions = tuple(f"action {number}" for number in range(MOST_ACTIONS))
    settings = msgspec.structs.replace(SHOP, actions=actions)
    there = Campaign("shop", "active", 0, 1, 0, settings)
    serving = Serving.of(there, Decider(make_plan("shop", settings), bytes(16)))
    requests = [DecideRequest("ann", "lunch", actions=[name]) for name in actions[:200]]
    start = time.process_time()
    records = decided(serving, *requests)
    assert time.process_time() - start < 1.0
    assert [record.action for record in records] == list(actions[:200])


def test_lists_are_recorded_exported_explained_and_repeated(store: str, tmp_path: Path) -> None:
    with running(store, tmp_path) as server:
        publish_learned(server, SHOP.contexts, SHOP.actions)
        modes = set()
        ids = {}
        for number in range(20):
            body = {"actions": ["curry", "cola"], "top": 3, "idempotency_key": f"k{number}"}
            first = server.decide(f"user {number}", "lunch", **body)
            assert server.decide(f"user {number}", "lunch", **body) == first
            assert first["action"] in ("curry", "cola")
            assert sorted(first["ranked"]) == ["cola", "curry"]
            assert first["ranked"][0] == first["action"]
            server.post("/v1/shop/reward", {"token": first["token"], "reward": 1.0})
            told = server.get(f"/v1/shop/decisions/{first['id']}/explain")
            assert told["is_reproduced"]
            assert told["eligible"] == ["curry", "cola"]
            modes.add(first["mode"])
            ids[first["id"]] = first
        assert modes == {"explore", "substitute"}
        other = {"actions": ["soup"], "idempotency_key": "k0"}
        visit = {"user": "user 0", "context": "lunch", **other}
        assert server.refused("POST", "/v1/shop/decide", visit) == (409, "idempotency_conflict")
        ranked = server.decide("zoe", "dinner", top=2)["ranked"]
        assert len(ranked) == 2
        for row in closed(server).values():
            if row["decision"] in ids:
                assert row["eligible"] == ["curry", "cola"]
                assert row["propensity"] == ids[row["decision"]]["propensity"]
                assert row["mode"] == ids[row["decision"]]["mode"]


def test_a_wrong_list_is_refused(sqlite_shop: Running) -> None:
    visit = {"user": "ann", "context": "lunch"}
    for wrong, code in (([], "no_action"), (["soup", "pizza"], "unknown_action")):
        body = {**visit, "actions": wrong}
        assert sqlite_shop.refused("POST", "/v1/shop/decide", body) == (422, code)
    assert sqlite_shop.refused("POST", "/v1/shop/decide", {**visit, "top": 0}) == (422, "bad_body")
    with Client(sqlite_shop.address, "shop") as client:
        decision = client.decide("ann", "lunch", actions=["cola"], top=3)
        assert (decision.action, decision.propensity, decision.ranked) == ("cola", 1.0, ["cola"])


def test_in_shadow_mode_the_callers_action_must_be_listed(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SHOP, mode="shadow")
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
        body = {"user": "ann", "context": "lunch", "action": "soup", "actions": ["curry", "cola"]}
        assert server.refused("POST", "/v1/shop/decide", body) == (400, "bad_request")
        shown = server.decide(action="cola", propensity=0.5, actions=["curry", "cola"])
        assert (shown["action"], shown["mode"], shown["propensity"]) == ("cola", "shadow", 0.5)
