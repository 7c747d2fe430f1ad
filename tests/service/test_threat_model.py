"""Every row of the threat model names the tests that cover it."""

import re
from pathlib import Path

import msgspec
import numpy as np

from tests.service.running import SHOP, Running
from unswayed.policy import Decider
from unswayed.service.endpoints import ENDPOINTS
from unswayed.service.planning import make_plan
from unswayed.service.settings import ServerSettings, Settings
from unswayed.service.tokens import signing_keys

ROOT = Path(__file__).parents[2]


def test_every_row_of_the_threat_model_names_existing_tests() -> None:
    page = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert len(lines) >= 20
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for line in lines:
        named = re.findall(r"`(test_\w+)`", line.split("|")[-2])
        assert named, line
        for name in named:
            assert f"def {name}(" in tests, name


def test_every_setting_and_route_is_documented() -> None:
    page = (ROOT / "docs/service-reference.md").read_text(encoding="utf-8")
    for struct in (Settings, ServerSettings):
        for name in struct.__struct_fields__:
            assert f"| `{name}`" in page, name
    for one in ENDPOINTS:
        assert f"| `{one.method} {one.path.replace('/v1/{campaign}', '…')}`" in page, one.path


def test_accounts_selected_by_their_plays_have_no_advantage_in_the_next_epoch() -> None:
    settings = msgspec.structs.replace(SHOP, mode="learn")
    first, second = (
        Decider(make_plan("shop", settings, epoch=epoch), bytes(range(16))) for epoch in (0, 1)
    )
    users = [f"bot-{number}" for number in range(30_000)]
    chosen = [user for user in users if first.decide(user, "lunch").action == "cola"]
    for decider, context in ((second, "lunch"), (first, "dinner")):
        share = np.mean([decider.decide(user, context).action == "cola" for user in chosen])
        # Hoeffding: a false alarm in a million runs.
        assert abs(share - 1 / 3) < np.sqrt(np.log(2e6) / (2 * len(chosen)))


def test_the_store_holds_no_secret(sqlite_shop: Running) -> None:
    token = sqlite_shop.decide()["token"]
    sqlite_shop.post("/v1/shop/reward", {"token": token, "reward": 1.0})
    secrets = sqlite_shop.prepared.secrets
    sqlite_shop.post("/v1/signing-keys")
    with sqlite_shop.prepared.database.connected() as connection:
        stored = "".join(
            repr(connection.execute(f"SELECT * FROM {table}"))
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        )
    assert "ann" in stored
    with sqlite_shop.prepared.database.connected() as connection:
        signing = signing_keys(connection, secrets)
    assert len(signing) == 2
    for secret in (secrets.assignment, *signing.values()):
        assert secret.hex() not in stored
        assert repr(secret)[2:-1] not in stored
    assert token not in stored
