"""Tokens cannot be forged, and their keys can be rotated while tokens are in use."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service.running import running, until
from unswayed.errors import InputError
from unswayed.policy import new_secret
from unswayed.service.errors import Refusal
from unswayed.service.tokens import (
    Record,
    Secrets,
    Signer,
    decode_record,
    encode_record,
    load_or_make,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
RECORDS = st.builds(
    Record,
    TEXTS,
    st.binary(min_size=16, max_size=16),
    TEXTS,
    TEXTS,
    TEXTS,
    st.floats(0.0, 1.0),
    st.sampled_from(["explore", "exploit", "control", "shadow"]),
    st.integers(0, 2**31),
    st.booleans(),
    TEXTS,
    st.floats(0.0, 1.0),
)


@given(record=RECORDS)
def test_a_token_decodes_to_its_record(record: Record) -> None:
    signer = Signer({"k": bytes(32)})
    payload = encode_record(record)
    assert signer.opened(signer.token(payload).decode()) == (record, payload)
    assert decode_record(payload) == record


@given(record=RECORDS, other=RECORDS)
def test_a_tag_is_valid_for_no_other_record(record: Record, other: Record) -> None:
    if record == other:
        return
    signer, name = Signer({"k": bytes(32)}), "k."
    from base64 import urlsafe_b64decode, urlsafe_b64encode

    tag = urlsafe_b64decode(signer.token(encode_record(record)).decode().removeprefix(name))[-16:]
    moved = name + urlsafe_b64encode(encode_record(other) + tag).decode()
    with pytest.raises(Refusal) as refused:
        signer.opened(moved)
    assert refused.value.status == 403


@given(text=st.text(max_size=200))
def test_any_other_text_is_refused_as_a_bad_token(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        Signer({"k": bytes(32)}).opened(text)
    assert refused.value.code == "bad_token"


def test_old_tokens_stay_valid_until_their_key_is_retired(store: str, tmp_path: Path) -> None:
    """Hosts that share a store rotate keys through it and accept each other's tokens at once."""
    with running(store, tmp_path) as one, running(store, tmp_path) as other:
        (old,) = one.get("/v1/signing-keys")["signing_keys"]
        early = one.decide()
        _, new = other.post("/v1/signing-keys")["signing_keys"]
        late = other.decide("bob")
        assert (early["token"].partition(".")[0], late["token"].partition(".")[0]) == (old, new)
        for server, decision in ((one, late), (other, early)):
            server.post("/v1/shop/reward", {"token": decision["token"], "reward": 1.0})
        assert one.refused("DELETE", f"/v1/signing-keys/{new}") == (422, "bad_input")
        assert one.call("DELETE", f"/v1/signing-keys/{old}").json() == {"signing_keys": [new]}
        body = {"token": early["token"], "reward": 1.0}
        until(lambda: other.call("POST", "/v1/shop/reward", body).status_code == 403)
        assert other.refused("POST", "/v1/shop/reward", body) == (403, "bad_token")


def test_a_signing_key_depends_on_both_the_secret_and_the_store() -> None:
    secrets = Secrets(new_secret())
    assert (
        len({secrets.derived("a"), secrets.derived("b"), Secrets(new_secret()).derived("a")}) == 3
    )
    assert secrets.derived("a") == Secrets(secrets.assignment).derived("a")


def test_the_secret_file_is_readable_by_its_owner_only_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "shop.secret"
    made = load_or_make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_make(path) == made
    made.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["shop.secret"]
    assert made.assignment.hex() not in repr(made)
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        load_or_make(path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "unswayed-secrets"}', "\xff"])
def test_a_damaged_secret_file_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "shop.secret"
    path.write_text(text, encoding="latin-1")
    path.chmod(0o600)
    with pytest.raises(InputError, match="secret file"):
        load_or_make(path)
