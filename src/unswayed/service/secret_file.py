"""The secret: it keys assignments and signs tokens, and is never logged or stored.

A store is bound to its secret by a fingerprint: with another one, users would get other actions and
tokens that are out would be refused. Signing keys are derived from the secret and from nonces in
the store, so that all servers of a store rotate them together, and a copy of the store signs
nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unswayed.errors import InputError, option
from unswayed.policy import new_secret
from unswayed.service.catalogue import bump
from unswayed.service.database import Connection
from unswayed.storage import whole_file

#: Holds the secret where there is no file for it: 32 hexadecimal digits.
VARIABLE = "UNSWAYED_SECRET"

_FORMAT = "unswayed-secrets"
_SECRET_BYTES = 16
_SIGNING_BYTES = 32


@dataclass(frozen=True, slots=True)
class Secrets:
    """What only the service knows.

    Parameters
    ----------
    assignment
        16 bytes that decide who is asked to play what. It stays for the life of a store: decisions
        could not be explained without it.
    signing
        Keys of tokens by id that earlier versions kept beside it; new ones are derived.
    """

    assignment: bytes = field(repr=False)
    signing: Mapping[str, bytes] = field(repr=False, default_factory=dict)

    @classmethod
    def drawn(cls) -> Secrets:
        """Return a fresh secret from the operating system's generator."""
        return cls(new_secret())

    @property
    def fingerprint(self) -> str:
        """What tells this secret from others, and nothing else of it."""
        return hashlib.blake2b(
            key=self.assignment, digest_size=8, person=b"unswayed-print"
        ).hexdigest()

    def derived(self, nonce: str) -> bytes:
        """Return the signing key of a nonce."""
        return hashlib.blake2b(
            nonce.encode(),
            key=self.assignment,
            digest_size=_SIGNING_BYTES,
            person=b"unswayed-sign",
        ).digest()

    def save(self, path: Path) -> None:
        """Write the file, readable by its owner alone."""
        text = json.dumps(
            {
                "format": _FORMAT,
                "assignment": self.assignment.hex(),
                "signing": {name: key.hex() for name, key in self.signing.items()},
            }
        )
        with whole_file(path) as draft:
            draft.chmod(0o600)
            draft.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Secrets:
        """Read the file; refuse one that others can read."""
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
        """Return the secret of a text: a file's, or 32 hexadecimal digits."""
        try:
            if not text.lstrip().startswith("{"):
                found = cls(bytes.fromhex(text.strip()))
            else:
                value = json.loads(text)
                found = cls(
                    bytes.fromhex(value["assignment"]),
                    {str(name): bytes.fromhex(key) for name, key in value["signing"].items()},
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{where} is no secret file of this program.") from error
        if len(found.assignment) != _SECRET_BYTES:
            raise InputError(
                f"{where} is no secret file of this program, nor {2 * _SECRET_BYTES} hexadecimal "
                "digits."
            )
        return found


def load_or_make(path: Path) -> Secrets:
    """Return the secret of a file, made with mode 0600 if it is not there."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            Secrets.drawn().save(draft)
            try:
                os.link(draft, path)  # of two processes that start at once, the first one's stays
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        except OSError as error:
            raise InputError(f"cannot write the secret file {path}: {error.strerror}.") from error
    return Secrets.load(path)


def bound_secrets(connection: Connection, path: Path | None, default: Path) -> Secrets:
    """Return the secret of a store: from a file, or from the environment; bind a new store to it.

    Parameters
    ----------
    path
        The file that was named, if any.
    default
        The file where nothing was named.
    """
    rows = connection.execute("SELECT value FROM meta WHERE name = 'secret'")
    text = os.environ.get(VARIABLE)
    if path is None and text:
        found, where = Secrets.parsed(text, VARIABLE), VARIABLE
    else:
        path = default if path is None else path
        where = str(path)
        if rows and not path.exists():
            raise InputError(
                f"the store was made with a secret (fingerprint {rows[0][0]}) and {path} is not "
                f"there; give {option('--secret')} the file it was made with, or set {VARIABLE}."
            )
        found = load_or_make(path)
    with connection.transaction():
        connection.insert_new("meta", ("name", "value"), [("secret", found.fingerprint)])
        ((bound,),) = connection.execute("SELECT value FROM meta WHERE name = 'secret'")
        if bound != found.fingerprint:
            raise InputError(
                f"the store belongs to the secret with fingerprint {bound}, and {where} holds "
                f"{found.fingerprint}: users would get other actions and their rewards would be "
                f"refused; give {option('--secret')} the file it was made with, or another store."
            )
        if not signing_keys(connection, found):
            rotate(connection)
    return found


def signing_keys(connection: Connection, found: Secrets) -> dict[str, bytes]:
    """Return the keys that sign tokens by id, the newest last."""
    kept = _kept(connection)
    keys = {**found.signing, **{name: found.derived(nonce) for name, nonce in kept["nonces"]}}
    return {name: key for name, key in keys.items() if name not in kept["retired"]}


def rotate(connection: Connection) -> None:
    """Sign with a new key from now on; tokens of the old ones stay good."""
    kept = _kept(connection)
    # The id is in every token; the nonce is not, so the secret alone does not give the key away.
    kept["nonces"].append([f"k{secrets.token_hex(4)}", secrets.token_hex(16)])
    _keep(connection, kept)


def retire(connection: Connection, found: Secrets, key_id: str) -> None:
    """Refuse tokens of an old key from now on."""
    kept = _kept(connection)
    keys = signing_keys(connection, found)
    if key_id not in keys:
        raise InputError(f"there is no signing key {key_id[:80]!r}.")
    if key_id == next(reversed(keys)):
        raise InputError(f"{key_id!r} signs now; rotate first, then retire it.")
    kept["nonces"] = [one for one in kept["nonces"] if one[0] != key_id]
    if key_id in found.signing:
        kept["retired"].append(key_id)
    _keep(connection, kept)


def _kept(connection: Connection) -> dict[str, Any]:
    rows = connection.execute("SELECT value FROM meta WHERE name = 'signing'")
    kept: dict[str, Any] = json.loads(rows[0][0]) if rows else {"nonces": [], "retired": []}
    return kept


def _keep(connection: Connection, kept: dict[str, Any]) -> None:
    text = json.dumps(kept)
    connection.insert_new("meta", ("name", "value"), [("signing", text)])
    connection.execute("UPDATE meta SET value = ? WHERE name = 'signing'", (text,))
    bump(connection)
