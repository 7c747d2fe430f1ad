"""Old decisions are deleted, a little at a time, so that a disk never fills for ever."""

from __future__ import annotations

import time

from unswayed.service.database import Connection, Database
from unswayed.service.writing import LONGEST_CHUNK_MS

#: Ours: what one transaction deletes, so that rewards never wait long for it.
_SLICE_MS = 10_000

#: Ours: how long the deleting may take at once.
_SECONDS = 0.2


def delete_old(database: Database, campaign: str, before_ms: int) -> bool:
    """Delete decisions made before a time, and all that came of them; whether none is left."""
    end = time.monotonic() + _SECONDS
    with database.connected() as connection:
        while (oldest := _oldest_ms(connection, campaign)) is not None and oldest < before_ms:
            if time.monotonic() > end:
                return False
            with connection.transaction():
                _delete_slice(connection, campaign, min(oldest + _SLICE_MS, before_ms))
    return True


def _oldest_ms(connection: Connection, campaign: str) -> int | None:
    """Return the time of the oldest decision that can be deleted."""
    found = []
    for column, table in (("first_ms", "decisions"), ("time_ms", "asked")):
        rows = connection.execute(
            f"SELECT {column} FROM {table} WHERE campaign = ? ORDER BY {column} LIMIT 1",
            (campaign,),
        )
        # A row of decisions goes when the last that may be in it does.
        more = LONGEST_CHUNK_MS if table == "decisions" else 0
        found += [int(row[0]) + more for row in rows]
    for table in ("rewards", "activations"):
        rows = connection.execute(
            f"SELECT decision FROM {table} WHERE campaign = ? ORDER BY decision LIMIT 1",
            (campaign,),
        )
        found += [int.from_bytes(bytes(row[0])[:6], "big") for row in rows]
    return min(found, default=None)


def _delete_slice(connection: Connection, campaign: str, until_ms: int) -> None:
    connection.execute(
        "DELETE FROM decisions WHERE campaign = ? AND first_ms < ?",
        (campaign, until_ms - LONGEST_CHUNK_MS),
    )
    connection.execute("DELETE FROM asked WHERE campaign = ? AND time_ms < ?", (campaign, until_ms))
    for table in ("rewards", "activations"):
        connection.execute(
            f"DELETE FROM {table} WHERE campaign = ? AND decision < ?",
            (campaign, until_ms.to_bytes(6, "big")),
        )
