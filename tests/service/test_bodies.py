"""Errors in request bodies name the invalid field."""

from tests.service.running import Running

#: Route, body, and error message.
WRONG = (
    (
        "decide",
        '{"user": "ann", "contxt": "lunch"}',
        "the body has no field 'contxt'; did you mean 'context'?",
    ),
    (
        "reward",
        '{"token": "x", "reward": 1, "zzz": 2}',
        "the body has no field 'zzz'; it takes reward, reward_id, token.",
    ),
    ("reward", '{"token": "x"}', "the body lacks the field 'reward'."),
    ("reward", '{"token": "x", "reward": "1"}', "'reward' must be a number, not a string."),
    ("reward", "[]", "the body must be an object, not a list."),
    ("reward", '{"token": "x", "reward": 1e999}', "'reward': number out of range."),
    (
        "decide",
        '{"user": null, "context": "lunch"}',
        "'user' must be a whole number or a string, not null.",
    ),
)


def test_an_error_names_the_invalid_field_of_a_body(sqlite_shop: Running) -> None:
    for route, sent, sentence in WRONG:
        response = sqlite_shop.http.post(f"/v1/shop/{route}", content=sent)
        assert (response.status_code, response.json()["error"]) == (
            422,
            {"code": "bad_body", "message": sentence},
        )
