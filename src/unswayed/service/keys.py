"""API keys, each with a role in a campaign and stored as a hash; and rate limits."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from unswayed.errors import InputError
from unswayed.service.catalogue import bump, now_ms
from unswayed.service.database import Connection
from unswayed.service.errors import Refusal

Role = Literal["decide", "reward", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

EVERY_CAMPAIGN = "*"  # Stands for every campaign; an admin of it may create campaigns

_PREFIX = "usk"


@dataclass(frozen=True, slots=True)
class Key:
    """A key as stored: only its hash is known."""

    id: str
    campaign: str
    role: Role
    hash: str
    created_ms: int

    def may(self, roles: tuple[Role, ...], campaign: str) -> bool:
        """Whether the key grants one of these roles, or admin, in a campaign."""
        return self.campaign in (campaign, EVERY_CAMPAIGN) and (
            self.role == "admin" or self.role in roles
        )


def make_key(connection: Connection, campaign: str, role: str) -> str:
    """Make a key and return it; it cannot be shown again."""
    if role not in ROLES:
        raise InputError(f"the role is {role!r}; choose one of: {', '.join(ROLES)}.")
    if campaign != EVERY_CAMPAIGN and not connection.select("campaigns", "name", name=campaign):
        raise InputError(f"there is no campaign {campaign!r}; name one, or * for all.")
    connection.insert_new("meta", [("keyed", "1")])
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = f"{_PREFIX}_{key_id}_{secret}"
    row = (key_id, campaign, role, _hash(key), now_ms())
    connection.insert("keys", [row])
    bump(connection)
    return key


def all_keys(connection: Connection) -> dict[str, Key]:
    """Return all keys by id."""
    return {row[0]: Key(*row) for row in connection.select("keys")}


def had_keys(connection: Connection) -> bool:
    """Whether a key was ever created: if so and none is left, nobody has access."""
    return connection.meta("keyed") is not None or bool(connection.select("keys", more="LIMIT 1"))


def remove_key(connection: Connection, campaign: str, key_id: str) -> None:
    """Remove a key of a campaign, which revokes its access."""
    if not connection.select("keys", "id", id=key_id, campaign=campaign):
        raise Refusal(404, "unknown_key", f"campaign {campaign!r} has no key {key_id[:80]!r}.")
    connection.insert_new("meta", [("keyed", "1")])
    connection.execute("DELETE FROM keys WHERE id = ?", key_id)
    bump(connection)


def key_of(presented: str, keys: Mapping[str, Key]) -> Key:
    """Return the key that a caller presented, compared in constant time; reject unknown keys."""
    parts = presented.split("_", 2)
    key = keys.get(parts[1]) if len(parts) == 3 else None
    given = _hash(presented)
    if not hmac.compare_digest(given, given[::-1] if key is None else key.hash) or key is None:
        raise Refusal(401, "bad_key", "unknown key; send the one that was created for you.")
    return key


def _hash(key: str) -> str:
    # Keys have 256 random bits: a slow hash would protect nothing more.
    return hashlib.sha256(key.encode()).hexdigest()


# Ours: maximum number of callers that are tracked; beyond it all buckets are reset
_MOST_CALLERS = 10_000


class Rates:
    """A token bucket for each caller, which holds the requests of one second.

    Examples
    --------
    >>> rates = Rates(2.0)
    >>> rates.take("ann"), rates.take("ann")
    (None, None)
    >>> rates.take("ann")
    Traceback (most recent call last):
    ...
    unswayed.service.errors.Refusal: more than 2 requests a second; wait and send it again.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> None:
        """Count a request, or reject it with status 429."""
        now = time.monotonic()
        room, then = self._buckets.get(caller, (self._per_second, now))
        room = min(room + (now - then) * self._per_second, self._per_second)
        if room < 1.0:
            text = f"more than {self._per_second:g} requests a second; wait and send it again."
            raise Refusal(429, "too_many_requests", text)
        if len(self._buckets) >= _MOST_CALLERS:
            self._buckets.clear()
        self._buckets[caller] = (room - 1.0, now)
