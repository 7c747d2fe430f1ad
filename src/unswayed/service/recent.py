"""The latest decisions of a campaign, or of one of its users, with their rewards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from unswayed.policy import Decider
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.catalogue import plan_of
from unswayed.service.database import Connection
from unswayed.service.export import aggregated
from unswayed.service.tokens import Record

#: Ours: decisions that are listed, and those that are looked through for a user.
MOST_LISTED = 50
_MOST_READ = 200_000

#: Ours: rows of the store that are read at once.
_ROWS = 200

_records = msgspec.msgpack.Decoder(list[Record])


def recent_decisions(connection: Connection, name: str, user: str | None) -> dict[str, Any]:
    """Return the latest decisions, the newest first; of one user, if one is named.

    ``n_read`` says how many were looked through: a user who was not asked for long is not found.
    """
    settings = campaign_of(connection, name).settings
    found: list[Record] = []
    n_read = 0
    for record in _newest_first(connection, name):
        n_read += 1
        if user is None or record.user == user:
            found.append(record)
        if len(found) == MOST_LISTED or n_read == _MOST_READ:
            break
    rewards = _rewards(connection, name, [record.id for record in found])
    return {
        "n_read": n_read,
        "decisions": [
            {
                "decision": record.id.hex(),
                "time_ms": record.time_ms,
                "user": record.user,
                "context": record.context,
                "action": record.action,
                "propensity": record.propensity,
                "mode": record.mode,
                "plan": record.plan,
                "reward": aggregated(rewards[record.id], settings)
                if record.id in rewards
                else None,
            }
            for record in found
        ],
    }


def assignments(connection: Connection, name: str, user: str, secret: bytes) -> dict[str, Any]:
    """Return what a user gets in each context now; no action where it is drawn at every play."""
    plan, _ = plan_of(connection, name, campaign_of(connection, name).plan_version)
    decider = Decider(plan, secret)
    found = {}
    for context in plan.contexts.texts:
        ruling, rule = decider.decide(user, context), plan.rule(context)
        is_drawn = ruling.mode == "explore" and not rule.is_sticky
        found[context] = {
            "mode": str(ruling.mode),
            "action": None if is_drawn else str(ruling.action),
        }
    return found


def _newest_first(connection: Connection, name: str) -> Iterator[Record]:
    """Yield decisions by falling time of the rows that hold them."""
    offset = 0
    while True:
        rows = connection.execute(
            "SELECT records FROM decisions WHERE campaign = ? ORDER BY first_ms DESC "
            "LIMIT ? OFFSET ?",
            (name, _ROWS, offset),
        )
        for (records,) in rows:
            yield from sorted(_records.decode(records), key=lambda one: one.id, reverse=True)
        if len(rows) < _ROWS:
            return
        offset += _ROWS


def _rewards(
    connection: Connection, name: str, ids: list[bytes]
) -> dict[bytes, list[tuple[int, float]]]:
    found: dict[bytes, list[tuple[int, float]]] = {}
    for id_ in ids:
        for received_ms, value in connection.execute(
            "SELECT received_ms, value FROM rewards WHERE campaign = ? AND decision = ?",
            (name, id_),
        ):
            found.setdefault(id_, []).append((received_ms, value))
    return found
