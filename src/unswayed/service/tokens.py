"""Signed tokens: what was decided, in a form that nobody but the service can make or change."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from binascii import b2a_base64
from collections.abc import Iterable, Mapping

import msgspec

from unswayed.service.errors import Refusal, bad_request

#: Bytes of a tag. Forging takes 2^128 tries, all of them online.
TAG_BYTES = 16

#: Ours: longer ones are refused before they are decoded; labels have at most 256 bytes each.
LONGEST_TOKEN = 4_096

_PERSON = b"unswayed-token"


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One decision, as it is signed, logged and exported.

    Parameters
    ----------
    campaign, id, user, context
        ``id`` has 16 bytes: milliseconds since 1970 in six of them, so that ids are in the order of
        time, and ten random ones.
    action, propensity
        The action, and its probability over the secret for a user in this context under the
        plan. In shadow mode the caller's own; 0 where it was not given.
    mode
        "explore", "exploit", "control", "substitute" or "shadow".
    plan
        Version of the plan.
    is_deferred
        Whether the decision counts only after it was activated.
    planned_action, planned_propensity
        In shadow mode what the plan would have played; else empty and 0.
    eligible
        Where the caller named the actions to choose from: a bit for each action of the plan, the
        first action in the lowest bit.
    """

    campaign: str
    id: bytes
    user: str
    context: str
    action: str
    propensity: float
    mode: str
    plan: int
    is_deferred: bool = False
    planned_action: str = ""
    planned_propensity: float = 0.0
    eligible: bytes = b""

    @property
    def time_ms(self) -> int:
        """When it was decided, in milliseconds since 1970."""
        return int.from_bytes(self.id[:6], "big")


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """Return a record as bytes."""
    return _encoder.encode(record)


def decode_record(payload: bytes) -> Record:
    """Return the record of bytes that ``encode_record`` made."""
    return _decoder.decode(payload)


class Signer:
    """Signs with the newest key, and accepts every key that it has.

    Parameters
    ----------
    keys
        Secrets by their ids, the newest last. An old key stays until its last token is too old for
        a reward.

    Examples
    --------
    >>> signer = Signer({"k1": bytes(32)})
    >>> record = Record("shop", bytes(16), "ann", "lunch", "soup", 0.5, "explore", 1)
    >>> signer.opened(signer.token(encode_record(record)).decode())[0] == record
    True
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        # The key goes in once; a copy of the state is cheaper than the key again.
        self._keys = {name: _tagging(key) for name, key in keys.items()}
        newest = next(reversed(self._keys))
        self._prefix = newest.encode() + b"."
        self._begun = self._keys[newest]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the keys, the newest last."""
        return tuple(self._keys)

    def tokens(self, payloads: Iterable[bytes]) -> list[bytes]:
        """Return a token for each payload: the key's id, a dot, payload and tag in base64."""
        copy, prefix, texts = self._begun.copy, self._prefix, []
        for payload in payloads:
            tagging = copy()
            tagging.update(payload)
            texts.append(prefix + b2a_base64(payload + tagging.digest()))
        # All at once: each text ends its line.
        return b"".join(texts).translate(_FOR_ADDRESSES).split(b"\n")[:-1]

    def token(self, payload: bytes) -> bytes:
        """Return the token of one payload."""
        tagging = self._begun.copy()
        tagging.update(payload)
        text = b2a_base64(payload + tagging.digest(), newline=False)
        return self._prefix + text.translate(_FOR_ADDRESSES)

    def knows(self, token: str) -> bool:
        """Whether the key that a token names is there."""
        return token.partition(".")[0] in self._keys

    def opened(self, token: str) -> tuple[Record, bytes]:
        """Return record and payload of a token, or refuse one that was not signed here."""
        if len(token) > LONGEST_TOKEN:
            raise bad_request(f"the token is longer than {LONGEST_TOKEN} characters.", "bad_token")
        name, _, text = token.partition(".")
        begun = self._keys.get(name)
        if begun is None:
            raise _forged()
        try:
            raw = urlsafe_b64decode(text.encode("ascii"))
        except (Base64Error, ValueError) as error:
            raise _forged() from error
        payload, tag = raw[:-TAG_BYTES], raw[-TAG_BYTES:]
        tagging = begun.copy()
        tagging.update(payload)
        # Base64 can be written in several ways; a token counts only as it was given out.
        if (
            not hmac.compare_digest(tag, tagging.digest())
            or urlsafe_b64encode(raw) != text.encode()
        ):
            raise _forged()
        return decode_record(payload), payload


def _tagging(secret: bytes) -> hashlib.blake2b:
    # The first byte makes it work through the key now, and not with every token.
    return hashlib.blake2b(b"\0", digest_size=TAG_BYTES, key=secret, person=_PERSON)


#: From the alphabet of base64 to the one that may stand in addresses.
_FOR_ADDRESSES = bytes.maketrans(b"+/", b"-_")


def _forged() -> Refusal:
    return Refusal(
        403,
        "bad_token",
        "the token was not signed by this service, or its key is retired; send it as it was given.",
    )
