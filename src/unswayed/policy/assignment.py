"""Who is asked to play what: a keyed hash of (user, context, epoch), nothing stored.

A coalition that may choose its account names could otherwise try names until they all fall into
the group of one action. With a secret key the groups cannot be predicted, and whoever holds the
key can later check every decision.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.events import Label

Digests = npt.NDArray[np.uint64]

#: Bytes of a secret: the key length of SipHash.
SECRET_BYTES = 16


def new_secret() -> bytes:
    """Return a fresh secret from the operating system's generator."""
    return secrets.token_bytes(SECRET_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Pseudo-random actions that only the holder of the secret can predict.

    Labels are first hashed with keyed BLAKE2b to 64 bits; SipHash-2-4 of (user, context, epoch,
    play) then gives the action. Both are pseudo-random functions of the secret.

    Parameters
    ----------
    secret
        16 bytes; keep it as long as decisions may have to be checked, and show it to nobody.
    epoch
        Raise it to draw all assignments anew.

    Examples
    --------
    >>> draw = Assignment(secret=bytes(16))
    >>> users, contexts = draw.digests("user", ["ann", "bob"]), draw.digests("context", ["home"])
    >>> draw.actions(users, contexts[[0, 0]], n_actions=10).tolist()
    [3, 0]
    """

    secret: bytes = field(repr=False)
    epoch: int = 0

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise InputError(
                f"the secret has {len(self.secret)} bytes and needs {SECRET_BYTES}; "
                "make one with new_secret()."
            )

    def digests(self, kind: str, labels: Iterable[Label]) -> Digests:
        """Return 64 bits for each label of a kind ("user", "context"); shape (n,).

        The integer 7 and the string "7" get different bits.
        """
        tag = kind.encode()
        return np.array(
            [
                int.from_bytes(
                    hashlib.blake2b(
                        (b"i" if isinstance(label, int) else b"s") + str(label).encode(),
                        digest_size=8,
                        key=self.secret,
                        person=tag,
                    ).digest(),
                    "little",
                )
                for label in labels
            ],
            dtype=np.uint64,
        )

    def actions(
        self,
        users: Digests,
        contexts: Digests,
        *,
        n_actions: int,
        plays: npt.NDArray[np.int64] | None = None,
    ) -> npt.NDArray[np.int64]:
        """Return the action of each (user, context), uniform over ``n_actions``; shape (n,).

        Parameters
        ----------
        users, contexts
            Shape (n,); digests.
        plays
            Shape (n,); the number of the play for draws that change from play to play. None for
            the one action a_{i,s} that a user always gets in a context.
        """
        messages = np.empty((len(users), 4), dtype=np.uint64)
        messages[:, 0] = users
        messages[:, 1] = contexts
        messages[:, 2] = np.uint64(self.epoch)
        messages[:, 3] = 0 if plays is None else plays.astype(np.uint64) + np.uint64(1)
        key = np.frombuffer(self.secret, dtype="<u8").astype(np.uint64)
        # The upper 32 bits times n_actions: the bias is below n_actions / 2^32.
        upper = siphash(key, messages) >> np.uint64(32)
        return ((upper * np.uint64(n_actions)) >> np.uint64(32)).astype(np.int64)


@compiled
def siphash(key: Digests, messages: Digests) -> Digests:
    """Return SipHash-2-4 of each row of 64-bit words (Aumasson & Bernstein 2012); shape (n,)."""
    n_rows, n_words = messages.shape
    hashes = np.empty(n_rows, np.uint64)
    length = np.uint64((8 * n_words) % 256) << np.uint64(56)
    for row in range(n_rows):
        v0 = key[0] ^ np.uint64(0x736F6D6570736575)
        v1 = key[1] ^ np.uint64(0x646F72616E646F6D)
        v2 = key[0] ^ np.uint64(0x6C7967656E657261)
        v3 = key[1] ^ np.uint64(0x7465646279746573)
        for word in range(n_words + 1):
            m = messages[row, word] if word < n_words else length
            v3 ^= m
            for _ in range(2):
                v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
            v0 ^= m
        v2 ^= np.uint64(0xFF)
        for _ in range(4):
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        hashes[row] = v0 ^ v1 ^ v2 ^ v3
    return hashes


@compiled
def _sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 += v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 += v3
    v3 = _rotated(v3, 16) ^ v2
    v0 += v3
    v3 = _rotated(v3, 21) ^ v0
    v2 += v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@compiled
def _rotated(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))
