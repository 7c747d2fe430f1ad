"""Signed tokens of decisions, and the secret that keys assignments and signatures.

The secret is never logged or stored. A store is bound to it by a fingerprint: with another secret,
users would get other actions and issued tokens would be refused. Signing keys are derived from the
secret and from nonces in the store: all servers of a store rotate them together, and a copy of the
store is not enough to sign.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from unswayed.errors import InputError, option
from unswayed.policy import new_secret
from unswayed.service.catalogue import bump
from unswayed.service.database import Connection
from unswayed.service.errors import Refusal, bad_request
from unswayed.storage import whole_file

TAG_BYTES = 16  # Bytes of a tag; forging one takes about 2^128 requests

#: Ours: longest token that is decoded. A record has up to 13,000 bytes: 32 feature names and five
#: labels of 256 bytes each, and 1,000 each for attributes, their leaf and a list of actions.
LONGEST_TOKEN = 20_000

_PERSON = b"unswayed-token"


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One decision, as signed, recorded and exported."""

    campaign: str
    id: bytes  # 16 bytes: six of milliseconds since 1970, so ids are ordered by time; ten random
    user: str
    context: str
    action: str  # the caller's action in shadow mode
    # probability of the action over the secret, under the plan; 0 if the caller gave none
    propensity: float
    mode: str  # "explore", "exploit", "control", "substitute" or "shadow"
    plan: int  # the plan's version
    is_deferred: bool = False  # whether it counts only if it was activated
    planned_action: str = ""  # the action that the plan would have played, in shadow mode
    planned_propensity: float = 0.0
    eligible: bytes = b""  # one bit for each action of the plan, if the caller listed eligible ones
    attributes: dict[str, str | float | None] = {}  # only in a campaign with features
    partition: bytes = b""  # SHA-256 of the partition, if the context is one of its leaves

    @property
    def time_ms(self) -> int:
        """Time of the decision, in milliseconds since 1970."""
        return int.from_bytes(self.id[:6], "big")


_encode = msgspec.msgpack.Encoder().encode


def encode_record(record: Record) -> bytes:
    """Encode a record for signing, without empty fields at the end."""
    if record.partition:
        return _encode(record)
    n_fields = 12 if record.eligible else 11 if record.planned_action else 9
    return _encode(msgspec.structs.astuple(record)[:n_fields])


decode_record = msgspec.msgpack.Decoder(Record).decode
decode_records = msgspec.msgpack.Decoder(list[Record]).decode


def encode_records(payloads: Sequence[bytes]) -> bytes:
    """Join encoded records to one row of the store, an array in MessagePack."""
    return b"\xdd" + len(payloads).to_bytes(4, "big") + b"".join(payloads)


class Signer:
    """Signs with the newest key, the last one, and accepts tokens of all its keys.

    >>> signer = Signer({"k1": bytes(32)})
    >>> record = Record("shop", bytes(16), "ann", "lunch", "soup", 0.5, "explore", 1)
    >>> signer.opened(signer.token(encode_record(record)).decode())[0] == record
    True
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        # Hash the key once, as copying the state is cheaper. The first byte makes BLAKE2 process
        # the key now and not with every token.
        self.keys = {
            name: hashlib.blake2b(b"\0", digest_size=TAG_BYTES, key=key, person=_PERSON)
            for name, key in keys.items()
        }
        newest = next(reversed(self.keys))
        self._prefix = newest.encode() + b"."
        self._begun = self.keys[newest]

    def token(self, payload: bytes) -> bytes:
        """Return the token of a payload: the key's id, a dot, payload and tag in base64."""
        tagging = self._begun.copy()
        tagging.update(payload)
        text = b2a_base64(payload + tagging.digest(), newline=False)
        return self._prefix + text.translate(_FOR_ADDRESSES)

    def opened(self, token: str) -> tuple[Record, bytes]:
        """Return the record and the payload of a token; reject one that was not signed here."""
        if len(token) > LONGEST_TOKEN:
            raise bad_request(f"the token is longer than {LONGEST_TOKEN} characters.", "bad_token")
        name, _, text = token.partition(".")
        raw = b""
        with suppress(Base64Error, ValueError):
            raw = urlsafe_b64decode(text.encode("ascii"))
        payload, tag = raw[:-TAG_BYTES], raw[-TAG_BYTES:]
        # Base64 is not unique; a token is valid only as it was issued.
        if name in self.keys and raw and urlsafe_b64encode(raw) == text.encode():
            tagging = self.keys[name].copy()
            tagging.update(payload)
            if hmac.compare_digest(tag, tagging.digest()):
                return decode_record(payload), payload
        raise Refusal(
            403,
            "bad_token",
            "the token was not signed by this service, or its key is retired; send it unchanged.",
        )


_FOR_ADDRESSES = bytes.maketrans(b"+/", b"-_")  # From base64 to its URL-safe alphabet


VARIABLE = "UNSWAYED_SECRET"  # Environment variable with the secret, if no file is given
_SECRET_FORMAT = "unswayed-secrets"
_SECRET_BYTES = 16
_SIGNING_BYTES = 32


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secret of a service: 16 bytes that determine the assignment of actions.

    It cannot change during the life of a store: past decisions are recomputed from it.
    """

    assignment: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """A fingerprint that identifies the secret without revealing it."""
        return hashlib.blake2b(
            key=self.assignment, digest_size=8, person=b"unswayed-print"
        ).hexdigest()

    def derived(self, nonce: str) -> bytes:
        """Derive the signing key of a nonce."""
        return hashlib.blake2b(
            nonce.encode(), key=self.assignment, digest_size=_SIGNING_BYTES, person=b"unswayed-sign"
        ).digest()

    def save(self, path: Path) -> None:
        """Write the file, readable by its owner alone."""
        text = json.dumps({"format": _SECRET_FORMAT, "assignment": self.assignment.hex()})
        with whole_file(path) as draft:
            draft.chmod(0o600)
            draft.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Secrets:
        """Read the file; reject one that others can read."""
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the secret file {path}: {error}.") from error
        if mode & 0o077:
            raise InputError(f"{path} can be read by others; run: chmod 600 {path}")
        return cls.parsed(text, str(path))

    @classmethod
    def parsed(cls, text: str, where: str) -> Secrets:
        """Parse the content of a secret file, or 32 hexadecimal digits."""
        assignment = b""
        with suppress(ValueError, KeyError, TypeError):
            is_file = text.lstrip().startswith("{")
            assignment = bytes.fromhex(json.loads(text)["assignment"] if is_file else text.strip())
        if len(assignment) != _SECRET_BYTES:
            digits = f"{2 * _SECRET_BYTES} hexadecimal digits"
            raise InputError(f"{where} is neither a secret file of unswayed nor {digits}.")
        return cls(assignment)


def load_or_make(path: Path) -> Secrets:
    """Return the secret in a file, which is created with mode 0600 if missing."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        Secrets(new_secret()).save(draft)
        try:
            with suppress(FileExistsError):  # if two processes start at once, the first wins
                os.link(draft, path)
        except OSError as error:
            raise InputError(f"cannot write the secret file {path}: {error.strerror}.") from error
        finally:
            draft.unlink()
    return Secrets.load(path)


def bound_secrets(connection: Connection, path: Path | None, default: Path) -> Secrets:
    """Return the secret of a store: from the given file, the environment, or ``default``.

    A new store is bound to it.
    """
    before = connection.meta("secret")
    text = os.environ.get(VARIABLE)
    if path is None and text:
        found, where = Secrets.parsed(text, VARIABLE), VARIABLE
    else:
        path = default if path is None else path
        where = str(path)
        if before is not None and not path.exists():
            raise InputError(
                f"the store was made with a secret (fingerprint {before}), but {path} does not "
                f"exist; give {option('--secret')} the file it was made with, or set {VARIABLE}."
            )
        found = load_or_make(path)
    with connection.transaction():
        connection.insert_new("meta", [("secret", found.fingerprint)])
        bound = connection.meta("secret")
        if bound != found.fingerprint:
            raise InputError(
                f"the store belongs to the secret with fingerprint {bound}, but {where} has "
                f"{found.fingerprint}: users would get other actions and their rewards would be "
                f"refused; give {option('--secret')} the file it was made with, or another store."
            )
        if not signing_keys(connection, found):
            rotate(connection)
    return found


def signing_keys(connection: Connection, found: Secrets) -> dict[str, bytes]:
    """Return the keys that sign tokens by id, the newest last."""
    return {key_id: found.derived(nonce) for key_id, nonce in _nonces(connection)}


def rotate(connection: Connection) -> None:
    """Sign with a new key from now on; tokens of old keys stay valid."""
    # Tokens contain the id but not the nonce, so the secret alone does not reveal the key.
    new = [f"k{secrets.token_hex(4)}", secrets.token_hex(16)]
    _keep(connection, [*_nonces(connection), new])


def retire(connection: Connection, key_id: str) -> None:
    """Refuse tokens of an old key from now on."""
    nonces = _nonces(connection)
    if key_id not in [one for one, _ in nonces]:
        raise InputError(f"there is no signing key {key_id[:80]!r}.")
    if key_id == nonces[-1][0]:
        raise InputError(f"{key_id!r} signs now; rotate first, then retire it.")
    _keep(connection, [one for one in nonces if one[0] != key_id])


def _nonces(connection: Connection) -> list[list[str]]:
    """Return ids and nonces of the signing keys, the newest last."""
    found: list[list[str]] = json.loads(connection.meta("signing") or '{"nonces": []}')["nonces"]
    return found


def _keep(connection: Connection, nonces: list[list[str]]) -> None:
    row = ("signing", json.dumps({"nonces": nonces, "retired": []}))
    connection.insert("meta", [row], "ON CONFLICT (name) DO UPDATE SET value = excluded.value")
    bump(connection)
