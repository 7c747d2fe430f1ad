"""The OpenFeature provider against a running server."""

from pathlib import Path

import msgspec
import pytest
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.track import TrackingEventDetails

from tests.service.running import SHOP, Running, running
from unswayed.service.client import ServiceError
from unswayed.service.openfeature import UnswayedProvider

ANN = EvaluationContext("ann", {"context": "lunch"})


def test_flags_are_decided_and_rewards_are_tracked(sqlite_shop: Running) -> None:
    api.set_provider(UnswayedProvider(sqlite_shop.address))
    try:
        flags = api.get_client()
        shown = flags.get_string_details("shop", "soup", ANN)
        assert shown.error_code is None
        assert shown.value in SHOP.actions
        assert shown.flag_metadata["mode"] == "explore"
        token = shown.flag_metadata["token"]
        flags.track("shop", ANN, TrackingEventDetails(0.5, {"token": token}))
        told = sqlite_shop.get(f"/v1/shop/decisions/{shown.flag_metadata['id']}/explain")
        assert [one["reward"] for one in told["rewards"]] == [0.5]
        only = EvaluationContext("ann", {"context": "lunch", "actions": ["cola"]})
        assert flags.get_string_value("shop", "soup", only) == "cola"
        assert flags.get_object_value("shop", {}, only)["action"] == "cola"  # type: ignore[call-overload]
        with pytest.raises(ServiceError, match="token"):
            UnswayedProvider(sqlite_shop.address).track("shop", ANN)
    finally:
        api.shutdown()
        api.clear_providers()


def test_unresolvable_flags_get_the_default_and_the_reason(sqlite_shop: Running) -> None:
    provider = UnswayedProvider(sqlite_shop.address)
    nowhere = EvaluationContext("ann", {"context": "nowhere"})
    for campaign, asked, code in (
        ("shop", None, ErrorCode.TARGETING_KEY_MISSING),
        ("shop", EvaluationContext("ann"), ErrorCode.INVALID_CONTEXT),
        ("shop", nowhere, ErrorCode.INVALID_CONTEXT),
        ("other", ANN, ErrorCode.FLAG_NOT_FOUND),
    ):
        found = provider.resolve_string_details(campaign, "tea", asked)
        assert (found.value, found.error_code) == ("tea", code)
    wrong = provider.resolve_integer_details("shop", 7, ANN)
    assert (wrong.value, wrong.error_code) == (7, ErrorCode.TYPE_MISMATCH)
    provider.shutdown()


def test_actions_may_be_switches_and_numbers(tmp_path: Path) -> None:
    numbers = ("1", "2")
    for actions, name in ((("on", "off"), "boolean"), (numbers, "integer"), (numbers, "float")):
        settings = msgspec.structs.replace(SHOP, actions=actions)
        folder = tmp_path / name
        folder.mkdir()
        with running(f"sqlite:///{folder}/shop.db", folder, settings) as server:
            provider = UnswayedProvider(server.address)
            found = getattr(provider, f"resolve_{name}_details")("shop", 0, ANN)
            assert found.error_code is None
            assert found.value in ({True, False} if name == "boolean" else {1, 2})
            provider.shutdown()
