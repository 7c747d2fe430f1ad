"""Assign actions to users by a keyed hash of (user, context, epoch); nothing is stored.

Without a secret key, a coalition could try account names until all of its accounts are assigned the
same action. With one, assignments cannot be predicted, and the owner of the key can check every
decision later.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from unswayed.arrays import IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError
from unswayed.events import Label

Digests = npt.NDArray[np.uint64]
State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

#: One word, or an array of them.
Words = TypeVar("Words", np.uint64, Digests)

SECRET_BYTES = 16  # Bytes of a secret: the key length of SipHash


def new_secret() -> bytes:
    """Return a fresh secret from the operating system's generator."""
    return secrets.token_bytes(SECRET_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Pseudo-random actions that only the holder of the secret can predict.

    Labels are first hashed with keyed BLAKE2b to 64 bits; SipHash-2-4 of (user, context, epoch,
    play) then gives the action. Both are pseudo-random functions of the secret: keep it as long as
    decisions may have to be checked, and keep it confidential.

    >>> draw = Assignment(secret=bytes(16))
    >>> users, contexts = draw.digests("user", ["ann", "bob"]), draw.digests("context", ["home"])
    >>> draw.actions(users, contexts[[0, 0]], n_actions=10).tolist()
    [3, 0]
    """

    secret: bytes = field(repr=False)
    epoch: int = 0  # increase it to change all assignments

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
        return np.array([self.digest(kind, label) for label in labels], np.int64).view(np.uint64)

    def digest(self, kind: str, label: Label) -> int:
        """Return the bits that ``digests`` gives one label, as a signed integer."""
        message = (b"i" if isinstance(label, int) else b"s") + str(label).encode()
        hashed = hashlib.blake2b(message, digest_size=8, key=self.secret, person=kind.encode())
        return int.from_bytes(hashed.digest(), "little", signed=True)

    def for_campaign(self, campaign: str) -> Assignment:
        """Return the assignment of one campaign; draws of different campaigns are independent."""
        key = hashlib.blake2b(
            campaign.encode(), digest_size=SECRET_BYTES, key=self.secret, person=b"campaign"
        )
        return Assignment(secret=key.digest(), epoch=self.epoch)

    @property
    def key(self) -> tuple[int, int]:
        """The secret as two signed words, as ``siphash_of_four`` takes it."""
        low, high = np.frombuffer(self.secret, dtype="<i8").tolist()
        return low, high

    def actions(
        self, users: Digests, contexts: Digests, *, n_actions: int, plays: IntArray | None = None
    ) -> IntArray:
        """Return the action of each (user, context), uniform over ``n_actions``; shape (n,).

        Users and contexts are given by their digests. ``plays`` are the numbers of the plays, for
        draws that change from play to play; None for the one action a_{i,s} that a user always
        gets in a context.
        """
        numbers = np.zeros(len(users), np.int64) if plays is None else plays + 1
        hashes = _hashes(
            self.key, users.view(np.int64), contexts.view(np.int64), self.epoch, numbers
        )
        return uniform_index(hashes, np.uint64(n_actions)).astype(np.int64)


@compiled
def siphash_of_four(key: tuple[int, int], a: int, b: int, c: int, d: int) -> np.uint64:
    """Return SipHash-2-4 of four words, each given as a signed integer of the same bits."""
    state = _begun(np.uint64(key[0]), np.uint64(key[1]))
    state = _absorbed(state, np.uint64(a))
    state = _absorbed(state, np.uint64(b))
    state = _absorbed(state, np.uint64(c))
    state = _absorbed(state, np.uint64(d))
    return _finished(_absorbed(state, np.uint64(32) << np.uint64(56)))


@compiled
def _hashes(
    key: tuple[int, int], users: IntArray, contexts: IntArray, epoch: int, plays: IntArray
) -> Digests:
    hashes = np.empty(len(users), np.uint64)
    for row in range(len(users)):
        hashes[row] = siphash_of_four(key, users[row], contexts[row], epoch, plays[row])
    return hashes


@compiled
def uniform_index(hashes: Words, n: np.uint64) -> Words:
    """Return numbers below n from the upper 32 bits of hashes: the bias is below n / 2^32."""
    return ((hashes >> np.uint64(32)) * n) >> np.uint64(32)


@compiled
def _begun(low: np.uint64, high: np.uint64) -> State:
    return (
        low ^ np.uint64(0x736F6D6570736575),
        high ^ np.uint64(0x646F72616E646F6D),
        low ^ np.uint64(0x6C7967656E657261),
        high ^ np.uint64(0x7465646279746573),
    )


@compiled
def _absorbed(state: State, word: np.uint64) -> State:
    v0, v1, v2, v3 = state
    v0, v1, v2, v3 = _sip_round(*_sip_round(v0, v1, v2, v3 ^ word))
    return v0 ^ word, v1, v2, v3


@compiled
def _finished(state: State) -> np.uint64:
    v0, v1, v2, v3 = state
    v2 ^= np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@compiled
def _sip_round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> State:
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
