"""Forgetting a user: all that was recorded of one is deleted, and nothing of it comes back.

Decisions lie many to a row, so rows are read and written again without the user's. A token that is
still out carries its whole decision; it is refused from then on, by a pseudonym and not by the
user's name.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from unswayed.service.catalogue import bump, now_ms
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.database import Connection, Database
from unswayed.service.tokens import Record, decode_record, encode_record

_records = msgspec.msgpack.Decoder(list[Record])

#: Ours: rows that are looked through in one transaction, so that rewards never wait long.
_ROWS = 50


def pseudonym(secret: bytes, campaign: str, user: str) -> str:
    """Return a name for a user that says nothing to whoever does not have the secret.

    >>> pseudonym(bytes(16), "shop", "ann") == pseudonym(bytes(16), "other", "ann")
    False
    """
    return hashlib.blake2b(
        f"{campaign}\0{user}".encode(), key=secret, digest_size=16, person=b"unswayed-user"
    ).hexdigest()


def forgotten_of(connection: Connection, name: str) -> dict[str, int]:
    """Return until when tokens of forgotten users are refused, by pseudonym."""
    rows = connection.execute(
        "SELECT pseudonym, before_ms FROM forgotten WHERE campaign = ?", (name,)
    )
    return {row[0]: int(row[1]) for row in rows}


def refuse_tokens(connection: Connection, name: str, user: str, secret: bytes) -> None:
    """Refuse rewards and activations of all decisions that were made for a user so far."""
    campaign_of(connection, name)
    key = (name, pseudonym(secret, name, user))
    connection.execute("DELETE FROM forgotten WHERE campaign = ? AND pseudonym = ?", key)
    connection.execute(
        "INSERT INTO forgotten (campaign, pseudonym, before_ms) VALUES (?, ?, ?)",
        (*key, now_ms() + 1),
    )
    # What names accounts is not kept either; the next report is made without this one.
    connection.execute("DELETE FROM reports WHERE campaign = ?", (name,))
    bump(connection)


def delete_user(database: Database, name: str, user: str) -> dict[str, int]:
    """Delete all that was recorded of a user, and return how much it was."""
    deleted = {"decisions": 0, "rewards": 0, "activations": 0, "idempotency_keys": 0}
    with database.connected() as connection:
        for first_ms in _chunk_times(connection, name):
            with connection.transaction():
                deleted["decisions"] += _rewrite(connection, name, first_ms, user)
        for table, column, what in (
            ("rewards", "decision", "rewards"),
            ("activations", "decision", "activations"),
            ("asked", "key", "idempotency_keys"),
        ):
            deleted[what] += _delete_rows(connection, name, table, column, user)
    return deleted


def _chunk_times(connection: Connection, name: str) -> list[int]:
    rows = connection.execute(
        "SELECT DISTINCT first_ms FROM decisions WHERE campaign = ? ORDER BY first_ms", (name,)
    )
    return [int(row[0]) for row in rows]


def _rewrite(connection: Connection, name: str, first_ms: int, user: str) -> int:
    """Write the rows of a time again without a user's decisions; return how many these were."""
    n_deleted = 0
    where = "campaign = ? AND first_ms = ? AND records = ?"
    for (data,) in connection.execute(
        "SELECT records FROM decisions WHERE campaign = ? AND first_ms = ?", (name, first_ms)
    ):
        records = _records.decode(data)
        kept = [record for record in records if record.user != user]
        if len(kept) == len(records):
            continue
        n_deleted += len(records) - len(kept)
        if not kept:
            connection.execute(f"DELETE FROM decisions WHERE {where}", (name, first_ms, data))
            continue
        payloads = b"".join(map(encode_record, kept))
        new = b"\xdd" + len(kept).to_bytes(4, "big") + payloads
        connection.execute(
            f"UPDATE decisions SET records = ?, n = ? WHERE {where}",
            (new, len(kept), name, first_ms, data),
        )
    return n_deleted


def _delete_rows(connection: Connection, name: str, table: str, column: str, user: str) -> int:
    """Delete the rows of a table whose record is a user's, some at a time."""
    n_deleted = 0
    last: Any = None
    while True:
        after = "" if last is None else f"AND {column} > ?"
        with connection.transaction():
            rows = connection.execute(
                f"SELECT {column}, record FROM {table} WHERE campaign = ? {after} "
                f"ORDER BY {column} LIMIT {_ROWS}",
                (name,) if last is None else (name, last),
            )
            for key in {row[0] for row in rows if decode_record(bytes(row[1])).user == user}:
                found = connection.execute(
                    f"SELECT COUNT(*) FROM {table} WHERE campaign = ? AND {column} = ?", (name, key)
                )
                n_deleted += int(found[0][0])
                connection.execute(
                    f"DELETE FROM {table} WHERE campaign = ? AND {column} = ?", (name, key)
                )
        if len(rows) < _ROWS:
            return n_deleted
        last = rows[-1][0]
