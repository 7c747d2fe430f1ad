"""Campaigns with features: attributes are mapped to leaves, which act as contexts."""

import html
import io
import json
import secrets
import shutil
import subprocess
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode

from tests.policy.test_policy import policy_by_age
from tests.service.running import Running, command, running, until
from tests.service.test_learning import learned
from tests.service.test_typescript import CLIENT
from tests.service.test_upkeep import unswayed
from unswayed import Client, learn_log
from unswayed.errors import InputError
from unswayed.policy import Policy
from unswayed.policy.partition import Feature, Partition, Split
from unswayed.service.client import ServedDecision, ServiceError
from unswayed.service.deciding import MOST_ACTIONS, MOST_BYTES
from unswayed.service.openfeature import UnswayedProvider
from unswayed.service.records import GRACE_MS
from unswayed.service.settings import (
    EXPORTED,
    LONGEST_LABEL,
    MOST_FEATURES,
    FeatureSettings,
    Settings,
    load_configuration,
)
from unswayed.service.tokens import TAG_BYTES, Record, decode_record

COUNTRIES = ("NO", "SE", "DE", "FR")
FEATURES = {
    "country": FeatureSettings(levels=COUNTRIES),
    "age": FeatureSettings(type="number"),
    "hour": FeatureSettings(type="number", bins=(6.0, 12.0, 18.0), trusted=True),
}
CAFE = Settings(actions=("tea", "milk", "cola"), features=FEATURES, reward_window=3.0, alpha=0.2)
N_USERS = 1_000

Attributes = dict[str, Any]


def best(attributes: Mapping[str, Any]) -> str:
    """Return the best action for honest customers of the café."""
    return "tea" if attributes["country"] in ("NO", "SE") else "milk"


def test_rewards_count_with_the_longest_feature_names(tmp_path: Path) -> None:
    names = [f"{number:02d} {'é' * 126}" for number in range(MOST_FEATURES)]
    actions = tuple(f"{number} {'x' * 200}" for number in range(MOST_ACTIONS))
    features = {name: FeatureSettings() for name in names}
    wide = Settings(actions=actions, features=features)
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, wide) as shop:
        visit = {
            "user": "u" * LONGEST_LABEL,
            "attributes": dict.fromkeys(names, "x" * (MOST_BYTES // MOST_FEATURES)),
            "actions": actions[:2],
        }
        token = shop.post("/v1/shop/decide", visit)["token"]
        assert shop.post("/v1/shop/reward", {"token": token, "reward": 1.0})["reward"] == 1.0


def honest(rng: np.random.Generator) -> Callable[[int], Attributes]:
    """Return the attributes of users; the hour changes from visit to visit."""
    countries = rng.choice(COUNTRIES, N_USERS)
    ages = rng.integers(18, 80, N_USERS)
    return lambda user: {
        "country": str(countries[user]),
        "age": int(ages[user]),
        "hour": int(rng.integers(24)),
    }


def visit(
    server: Running, rng: np.random.Generator, *, visits: int, colluders: int = 0
) -> dict[tuple[str, str], list[float]]:
    """Let every user visit several times; return rewards by (best action, action).

    The first users are colluders: they claim other attributes at every visit, and push cola.
    """
    true = honest(np.random.default_rng(7))
    rewards: dict[tuple[str, str], list[float]] = {}
    for _ in range(visits):
        rows: list[Attributes] = [
            {"user": f"user-{n}", "attributes": true(n)} for n in range(N_USERS)
        ]
        for row in rows[:colluders]:
            row["attributes"] = {**true(0), "country": str(rng.choice(COUNTRIES))}
        found = server.post("/v1/shop/decide/batch", {"decisions": rows})["decisions"]
        reported = []
        for number, (row, decision) in enumerate(zip(rows, found, strict=True)):
            attributes, action = row["attributes"], decision["action"]
            rate = 0.27 if action == best(attributes) else 0.12
            value = float(action == "cola" if number < colluders else rng.random() < rate)
            reported.append({"token": decision["token"], "reward": value})
            rewards.setdefault((best(attributes), action), []).append(value)
        taken = server.post("/v1/shop/reward/batch", {"rewards": reported})["rewards"]
        assert all("error" not in one for one in taken)
    return rewards


def wait_for_windows() -> None:
    time.sleep(CAFE.reward_window + GRACE_MS / 1000.0 + 0.2)


def decide(server: Running, user: str = "ann", **more: Any) -> dict[str, Any]:
    """Return a decision that is stored on disk."""
    body = {"user": user, "idempotency_key": secrets.token_hex(8), **more}
    found: dict[str, Any] = server.post("/v1/shop/decide", body)
    return found


def record_of(token: str) -> Record:
    """Return the decision that a token carries."""
    return decode_record(urlsafe_b64decode(token.partition(".")[2])[:-TAG_BYTES])


def exported(server: Running) -> Any:
    return pq.read_table(io.BytesIO(server.call("GET", "/v1/shop/export").content))


def test_a_partition_is_learned_served_and_rolled_back_while_accounts_claim_attributes(
    store: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    with running(store, tmp_path, CAFE) as server:
        first = decide(server, attributes={"country": "DE"})
        assert (first["leaf"], first["is_known"], first["plan"]) == ("everybody", True, 1)
        rewards = visit(server, rng, visits=8, colluders=200)
        # The plain mean is misled in both: .30 against .22 in 1,300 plays each, five deviations.
        for segment in ("tea", "milk"):
            means = {action: np.mean(rewards[segment, action]) for action in CAFE.actions}
            assert max(CAFE.actions, key=means.__getitem__) == "cola"
        wait_for_windows()
        log = exported(server)
        assert learned(server)["state"] == "done"
        served = server.get("/v1/shop/policy")
        policy = Policy.from_json(served["policy"])
        assert policy.partition is not None
        assert len(policy.context_labels) >= 2
        assert list(served["plan"]["contexts"]) == policy.context_labels.texts
        assert served["plan"]["epoch"] == 1

        # Learning from the export, which has a column for each feature, gives the same partition.
        again = learn_log(log, features=list(FEATURES), trusted=["hour"], alpha=CAFE.alpha).policy
        assert again.partition is not None
        assert again.partition.hash == policy.partition.hash
        assert set(log.column_names) == EXPORTED | set(FEATURES)

        server.call("PATCH", "/v1/shop", {"mode": "serve", "explore_share": 0.0})
        for country in COUNTRIES:
            asked = {"country": country, "age": 40, "hour": 9}
            decision = decide(server, "new", attributes=asked)
            assert decision["action"] == best(asked)
            record = record_of(decision["token"])
            assert record.context == decision["leaf"]
            assert record.context in policy.context_labels.texts
            assert record.partition.hex() == policy.partition.hash
            assert record.attributes == {"country": country, "age": 40.0, "hour": 6.0}
            found = server.get(f"/v1/shop/decisions/{decision['id']}/explain")
            assert found["is_reproduced"]
            assert found["attributes"] == record.attributes

        # A value unknown to a split gets the fallback and a flag, and its reward counts.
        other = decide(server, "new", attributes={"country": "XX", "age": 40, "hour": 9})
        assert (other["leaf"], other["is_known"]) == (None, False)
        assert other["action"] == policy.action_labels[policy.default_action]
        assert record_of(other["token"]).attributes["country"] == "(other)"
        server.post("/v1/shop/reward", {"token": other["token"], "reward": 1.0})
        assert server.get(f"/v1/shop/decisions/{other['id']}/explain")["is_reproduced"]

        # Reports and audits are by leaf, too.
        audit = server.get("/v1/shop/audit")
        # Of 200 colluders, 160 ± 6 have praised cola twice or more, and nothing else.
        assert audit["flagged"] > 100
        assert server.get("/v1/shop/report")["policy"] == 1
        status = server.get("/v1/shop/status")
        assert set(status["exploration"]) == set(policy.context_labels.texts)

        # The console shows leaves as rules, and the attributes of a decision.
        page = server.call("GET", "/console/c/shop").text
        assert all(html.escape(rule) in page for rule in policy.context_labels.texts)
        assert "everybody" not in page.partition("Latest decisions")[0]
        why = server.call("GET", f"/console/c/shop/decisions/{other['id']}").text
        assert "<dt>country</dt><dd>(other)</dd>" in why
        changes = server.call("GET", "/console/c/shop/policies/0/activate").text
        assert "<td>everybody</td><td>-</td><td>tea</td>" in changes

        # Rolling back and forth begins an epoch each time, and restores the leaves.
        server.post("/v1/shop/policy/0/activate")
        back = decide(server, "new", attributes={"country": "DE", "age": 40, "hour": 9})
        assert (back["leaf"], back["action"]) == ("everybody", "tea")
        server.post("/v1/shop/policy/1/activate")
        forth = decide(server, "new", attributes={"country": "DE", "age": 40, "hour": 9})
        assert forth["action"] == "milk"
        plan = server.get("/v1/shop/policy")["plan"]
        assert (set(plan["contexts"]), plan["epoch"]) == (set(served["plan"]["contexts"]), 3)


def test_within_an_epoch_the_partition_stays_and_the_next_one_learns_it_again(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """The partition differs then, since a feature was added meanwhile."""

    def partition() -> tuple[str, int]:
        assert learned(server)["state"] == "done"
        served = server.get("/v1/shop/policy")
        return served["policy"]["partition"]["hash"], served["plan"]["epoch"]

    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, CAFE) as server:
        visit(server, rng, visits=4)
        wait_for_windows()
        first, epoch = partition()
        more = {"features": {**FEATURES, "device": FeatureSettings()}}
        assert server.call("PATCH", "/v1/shop", more).status_code == 200
        visit(server, rng, visits=1)
        wait_for_windows()
        assert partition() == (first, epoch)
        visit(server, rng, visits=2 ** (epoch + 2))
        wait_for_windows()
        second, later = partition()
        assert second != first
        assert later > epoch


def test_lists_rankings_and_shadow_mode_work_with_attributes(tmp_path: Path) -> None:
    asked = {"country": "NO", "age": 31, "hour": 7}
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, CAFE) as server:
        found = decide(server, attributes=asked, actions=["cola", "milk"], top=2)
        assert sorted(found["ranked"]) == ["cola", "milk"]
        assert found["ranked"][0] == found["action"]
        assert found["leaf"] == "everybody"
        # The same key returns the same decision, and conflicts with other attributes.
        body = {"user": "bob", "attributes": asked, "idempotency_key": "once", "top": 3}
        first = server.post("/v1/shop/decide", body)
        assert server.post("/v1/shop/decide", body) == first
        conflict = {**body, "attributes": {**asked, "age": 32}}
        assert server.refused("POST", "/v1/shop/decide", conflict) == (409, "idempotency_conflict")
        server.call("PATCH", "/v1/shop", {"mode": "shadow"})
        own = decide(server, "eve", attributes=asked, action="cola", propensity=0.5)
        assert (own["action"], own["mode"], own["is_known"]) == ("cola", "shadow", True)
        record = record_of(own["token"])
        assert record.planned_action in CAFE.actions
        assert record.attributes["country"] == "NO"


def test_long_rules_are_shortened_and_stay_distinct() -> None:
    """They are database keys, and PostgreSQL accepts keys of 2,700 bytes."""
    features = tuple(
        Feature(f"x{n}", levels=tuple(f"{letter * 60} {n}" for letter in "abcdef"))
        for n in range(6)
    )
    nodes: list[Split | None] = []
    for n in range(6):
        nodes += [Split(n, ((2, 3, 4), (5, 6, 7)), (2 * n + 1, 2 * n + 2)), None]
    partition = Partition(features, (*nodes, None))
    rules = partition.labels.texts
    assert len(set(rules)) == 7
    assert max(len(rule.encode()) for rule in rules) < 1_050
    asked = {f"x{n}": f"{'f' * 60} {n}" for n in range(6)}
    assert partition.leaf(asked) in rules


def test_a_policy_learned_from_features_is_served(tmp_path: Path) -> None:
    policy = policy_by_age()
    policy.save(tmp_path / "cafe.json")
    with command("--policy", "cafe.json", folder=tmp_path) as (_, address):
        with Client(address, "cafe") as client:
            old, young = (client.decide(f"user {n}", {"age": n}) for n in (50, 20))
            missing = client.decide("new", {})
        assert {old.leaf, young.leaf} == set(policy.context_labels.texts)
        assert (missing.leaf, missing.is_known) == (None, False)
        for decision, asked in ((old, {"age": 50}), (young, {"age": 20})):
            if decision.mode == "exploit":
                assert decision.action == policy.decide(asked).action


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"attributes": {"contry": "NO"}}, "did you mean 'country'"),
        ({"attributes": {"age": "old"}}, "'age' must be a finite number"),
        ({"attributes": {"age": True}}, "'age' must be a finite number"),
        ({"attributes": {"country": ["NO"]}}, "attributes"),
        ({"context": "everybody"}, "give 'attributes'"),
        ({"context": "everybody", "attributes": {}}, "give 'attributes'"),
        ({}, "give 'attributes'"),
    ],
)
def test_wrong_attributes_are_refused(cafe: Running, body: dict[str, Any], words: str) -> None:
    single = cafe.call("POST", "/v1/shop/decide", {"user": "ann", **body})
    assert single.status_code in (400, 422)
    batch = cafe.call("POST", "/v1/shop/decide/batch", {"decisions": [{"user": "ann", **body}]})
    for text in (single.text, batch.text):
        assert words in text
        assert "error" in text


@pytest.fixture(scope="module")
def cafe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("cafe")
    features = {"note": FeatureSettings(), "age": FEATURES["age"], "country": FEATURES["country"]}
    settings = msgspec.structs.replace(CAFE, features=features)
    with running(f"sqlite:///{folder}/shop.db", folder, settings) as server:
        yield server


VISIT = """
import { Client } from %s;
const client = new Client(%s, "shop");
console.log(JSON.stringify(await client.decide("ann", { age: 31, country: null }, { top: 2 })));
"""


def test_clients_accept_attributes_instead_of_a_context(cafe: Running, tmp_path: Path) -> None:
    asked = {"age": 31, "country": None}
    with Client(cafe.address, "shop") as client:
        decision = client.decide("ann", asked)
        assert (decision.leaf, decision.is_known) == ("everybody", True)
        assert client.reward(decision.token, 1.0)["reward"] == 1.0
        good, bad = client.decide_many([("ann", asked), ("bob", {"contry": "NO"})])
        assert isinstance(good, ServedDecision)
        assert isinstance(bad, ServiceError)
        assert bad.code == "bad_attributes"
    provider = UnswayedProvider(cafe.address)
    found = provider.resolve_string_details("shop", "", EvaluationContext("ann", {"age": 31}))
    assert found.value in CAFE.actions
    assert (found.flag_metadata["leaf"], found.flag_metadata["is_known"]) == ("everybody", True)
    wrong = provider.resolve_string_details("shop", "", EvaluationContext("ann", {"age": "x"}))
    assert wrong.error_code == ErrorCode.INVALID_CONTEXT
    provider.shutdown()
    options = ("--address", cafe.address, "--user", "ann")
    done = unswayed(tmp_path, "decide", "shop", *options, "--attributes", '{"age": 31}', "--json")
    assert json.loads(done.stdout)["leaf"] == "everybody"
    for more in ((), ("--attributes", "{age"), ("--attributes", "[]"), ("--context", "lunch")):
        refused = unswayed(tmp_path, "decide", "shop", *options, *more)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    if shutil.which("node"):
        script = tmp_path / "visit.mjs"
        script.write_text(VISIT % (json.dumps(str(CLIENT / "index.mjs")), json.dumps(cafe.address)))
        ran = subprocess.run(["node", script], capture_output=True, text=True, check=True)
        assert json.loads(ran.stdout)["leaf"] == "everybody"


def test_attributes_are_bounded_and_may_be_any_text(cafe: Running) -> None:
    long = {"user": "ann", "attributes": {"note": "ü" * 600}}
    nul = {"user": "ann", "attributes": {"note": "a\0b"}}
    for body in (long, nul):
        assert cafe.refused("POST", "/v1/shop/decide", body) == (422, "bad_attributes")
    for note in ("", "<script>", "ü" * 500, 5, 0.5, True):
        token = decide(cafe, attributes={"note": note})["token"]
        cafe.post("/v1/shop/reward", {"token": token, "reward": 1.0})


def test_labels_and_features_exclude_each_other(sqlite_shop: Running) -> None:
    body = {"user": "ann", "context": "lunch", "attributes": {"country": "NO"}}
    response = sqlite_shop.call("POST", "/v1/shop/decide", body)
    assert response.status_code == 400
    assert "give 'context' instead" in response.text
    change = {"features": {"age": {"type": "number"}}}
    assert sqlite_shop.call("PATCH", "/v1/shop", change).status_code == 422


def test_features_can_be_added_but_not_removed(cafe: Running) -> None:
    features = msgspec.to_builtins(cafe.get("/v1/shop")["settings"]["features"])
    for wrong in (
        {name: features[name] for name in ("age", "country")},
        {**features, "age": {"type": "category"}},
        {**features, "age": {"type": "number", "bins": [30]}},
    ):
        assert cafe.refused("PATCH", "/v1/shop", {"features": wrong}) == (422, "bad_input")
    more = {**features, "device": {"levels": ["phone"]}}
    assert cafe.call("PATCH", "/v1/shop", {"features": more}).status_code == 200
    found = decide(cafe, attributes={"age": 30, "device": "toaster"})
    assert record_of(found["token"]).attributes["device"] == "(other)"


def test_a_configuration_file_declares_features(tmp_path: Path) -> None:
    file = tmp_path / "cafe.toml"
    file.write_text(
        """
        [campaigns.cafe]
        actions = ["tea", "milk"]
        features.country = { levels = ["NO", "SE"] }
        features.age = { type = "number", bins = [30, 50] }
        features.hour = { type = "number", trusted = true }
        """
    )
    settings = load_configuration(file).campaigns["cafe"]
    assert settings.features["hour"] == FeatureSettings(type="number", trusted=True)
    assert settings.features["age"].bins == (30.0, 50.0)
    for line, words in (
        ("features.age = { type = 'number', levels = ['a'] }", "'age' is a number"),
        ("features.age = { bins = [3] }", "'age' is a category"),
        ("features.age = { type = 'number', bins = [3, 2] }", "increasing"),
        ("features.age = { type = 'date' }", "feature 'age': type: invalid enum value 'date'"),
        ("features.age = { kind = 'number' }", "feature 'age': unknown setting 'kind'"),
        *((f"features.{name} = {{}}", "column of exports") for name in sorted(EXPORTED)),
        ("contexts = ['all']\nfeatures.age = {}", "contexts or features, not both"),
    ):
        file.write_text(f"[campaigns.cafe]\nactions = ['tea', 'milk']\n{line}\n")
        with pytest.raises(InputError, match=f"cafe.*{words}"):
            load_configuration(file)


def test_rare_levels_share_a_leaf(tmp_path: Path, rng: np.random.Generator) -> None:
    """Otherwise accounts could create any number of leaves, since one feature has one per level."""
    settings = msgspec.structs.replace(CAFE, features={"country": FeatureSettings()})
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
        for _ in range(4):
            rows = [
                {"user": f"user-{n}", "attributes": {"country": "NO" if n < 300 else f"claim {n}"}}
                for n in range(400)
            ]
            found = server.post("/v1/shop/decide/batch", {"decisions": rows})["decisions"]
            rewards = [
                {"token": one["token"], "reward": float(rng.random() < 0.3)} for one in found
            ]
            server.post("/v1/shop/reward/batch", {"rewards": rewards})
        wait_for_windows()
        assert learned(server)["state"] == "done"
        leaves = list(server.get("/v1/shop/policy")["plan"]["contexts"])
        assert leaves == ["country is (other)", "country is NO"]
        for country in ("claim 310", "never seen"):
            asked = {"country": country}
            until(lambda asked=asked: decide(server, attributes=asked)["leaf"] == leaves[0])
