"""The file of secrets: it keys assignments and signs tokens, and is never logged or stored."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from unswayed.errors import InputError
from unswayed.policy import new_secret
from unswayed.storage import whole_file

_FORMAT = "unswayed-secrets"
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
        Keys of tokens by id, the newest last.
    """

    assignment: bytes = field(repr=False)
    signing: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def drawn(cls) -> Secrets:
        """Return fresh secrets from the operating system's generator."""
        return cls(new_secret(), {}).rotated()

    def rotated(self) -> Secrets:
        """Return the secrets with a new signing key; tokens of the old ones stay good."""
        key_id = f"k{secrets.token_hex(4)}"
        return replace(self, signing={**self.signing, key_id: secrets.token_bytes(_SIGNING_BYTES)})

    def without(self, key_id: str) -> Secrets:
        """Return the secrets without an old signing key; its tokens are refused from then on."""
        if key_id not in self.signing:
            raise InputError(f"there is no signing key {key_id!r}.")
        if key_id == next(reversed(dict(self.signing))):
            raise InputError(f"{key_id!r} signs now; rotate first, then retire it.")
        return replace(
            self, signing={name: key for name, key in self.signing.items() if name != key_id}
        )

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
        try:
            value = json.loads(text)
            found = cls(
                bytes.fromhex(value["assignment"]),
                {str(name): bytes.fromhex(key) for name, key in value["signing"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not a secret file of this program.") from error
        if value.get("format") != _FORMAT or not found.signing:
            raise InputError(f"{path} is not a secret file of this program.")
        return found


def load_or_make(path: Path) -> Secrets:
    """Return the secrets of a file, made with mode 0600 if it is not there."""
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
