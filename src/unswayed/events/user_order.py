"""One order for users, whatever file, day or block they come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unswayed.errors import InputError
from unswayed.events.connection import quiet_connection
from unswayed.events.encoding import as_arrow
from unswayed.events.hashing import text_hashes
from unswayed.events.labels import Labels

#: SQL: users are ordered by a hash of their label. So every range of hashes is a fair sample of
#: them, and blocks of users are ranges whatever users there are.
USER_HASH = "md5_number_lower({user}::VARCHAR)"


def ordered_users(values: pa.Array | None) -> tuple[Labels, npt.NDArray[np.int32]]:
    """Return distinct users in their order, and for each value its place in it."""
    if values is None:
        return Labels.of([]), np.empty(0, np.int32)
    hashes = _hashes(values)
    order = np.argsort(hashes)
    if (hashes[order[1:]] == hashes[order[:-1]]).any():  # of equal hashes the smaller label first
        labels = values.to_pylist()
        order = np.array(sorted(range(len(labels)), key=lambda row: (hashes[row], labels[row])))
    codes = np.empty(len(values), np.int32)
    codes[order] = np.arange(len(values), dtype=np.int32)
    return labels_of_column(pa.chunked_array([values.take(as_arrow(order))])), codes


def union_of_users(parts: Sequence[Labels]) -> tuple[Labels, list[npt.NDArray[np.int32]]]:
    """Return the users of all parts in their order, and for each part their codes in it."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return Labels.of([]), [np.empty(0, np.int32) for _ in parts]
    if len({part.type_name for part in filled}) > 1:
        kinds = ", ".join(sorted({part.type_name for part in filled}))
        raise InputError(f"users are of different types ({kinds}); write them all as strings.")
    labels = pa.chunked_array([pa.array(part.values) for part in filled])
    with quiet_connection() as connection:
        connection.register("listed", pa.table({"label": labels, "place": np.arange(len(labels))}))
        connection.sql(
            f"""
            CREATE TABLE coded AS SELECT label, row_number() OVER (ORDER BY hash, label) - 1 AS code
            FROM (SELECT label, {USER_HASH.format(user="label")} AS hash FROM listed GROUP BY label)
            """
        )
        ordered: pa.ChunkedArray = connection.sql(
            "SELECT label FROM coded ORDER BY code"
        ).to_arrow_table()[0]
        codes: pa.ChunkedArray = connection.sql(
            "SELECT code::INTEGER AS code FROM listed JOIN coded USING (label) ORDER BY place"
        ).to_arrow_table()[0]
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    return labels_of_column(ordered), np.split(codes.to_numpy(), bounds)


def user_hashes(users: Labels) -> npt.NDArray[np.uint64]:
    """Return the hash of each user; shape (n_users,)."""
    return _hashes(pa.array(users.values))


def _hashes(labels: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the hash of each label, in their order; shape (n,)."""
    if pa.types.is_string(labels.type):
        return text_hashes(labels)
    with quiet_connection() as connection:  # which writes numbers as it does everywhere else
        connection.register("listed", pa.table({"label": labels}))
        texts = connection.sql("SELECT label::VARCHAR AS label FROM listed").to_arrow_table()[0]
    return np.concatenate([np.empty(0, np.uint64), *map(text_hashes, texts.chunks)])


def labels_of_column(values: pa.ChunkedArray) -> Labels:
    """Return the distinct values of an Arrow column as labels."""
    if pa.types.is_int64(values.type):
        return Labels(values.to_numpy())  # without a list in between: there may be millions
    if pa.types.is_string(values.type):  # whose to_numpy imports pandas, and is no faster
        texts = np.empty(len(values), object)
        texts[:] = values.to_pylist()
        return Labels(texts)
    return Labels.of(values.to_pylist())
