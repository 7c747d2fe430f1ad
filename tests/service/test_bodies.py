from __future__ import annotations

import msgspec
import pytest

from unswayed.service.deciding import DecideRequest
from unswayed.service.endpoints import DecideBatch
from unswayed.service.errors import wrong_body
from unswayed.service.service import RewardRequest


@pytest.mark.parametrize(
    ("kind", "sent", "sentence"),
    [
        (
            DecideRequest,
            b'{"user": "ann", "contxt": "lunch"}',
            "the body has no field 'contxt'; did you mean 'context'?",
        ),
        (
            RewardRequest,
            b'{"token": "x", "reward": 1, "zzz": 2}',
            "the body has no field 'zzz'; it takes reward, reward_id, token.",
        ),
        (RewardRequest, b'{"token": "x"}', "the body lacks the field 'reward'."),
        (
            RewardRequest,
            b'{"token": "x", "reward": "1"}',
            "'reward' must be a number, not a string.",
        ),
        (RewardRequest, b"[]", "the body must be an object, not a list."),
        (
            RewardRequest,
            b'{"token": "x", "reward": 1e999}',
            "'reward': number out of range.",
        ),
        (
            DecideBatch,
            b'{"decisions": [{"usr": "ann", "context": "lunch"}]}',
            "'decisions[0]' has no field 'usr'; did you mean 'user'?",
        ),
        (
            DecideRequest,
            b'{"user": null, "context": "lunch"}',
            "'user' must be a whole number or a string, not null.",
        ),
    ],
)
def test_a_wrong_body_is_explained_by_its_field(kind: type, sent: bytes, sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(sent, type=kind)
    assert wrong_body(caught.value, kind) == sentence
