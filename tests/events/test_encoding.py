"""Codes in one pass, against the plain dictionary of values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unswayed.events.encoding import Encoder


def check(pieces: Sequence[Sequence[object]], kind: pa.DataType) -> None:
    """Check that codes are places in the order in which the values were first seen."""
    encoder, places = Encoder(), dict[object, int]()
    for piece in pieces:
        codes = encoder.codes(pa.array(piece, kind))
        assert codes.tolist() == [places.setdefault(value, len(places)) for value in piece]
    values = encoder.values()
    assert (values.to_pylist() if values is not None else []) == list(places)


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])))))
def test_texts_are_numbered_in_the_order_of_first_sight(pieces: list[list[str]]) -> None:
    check(pieces, pa.string())


def test_texts_that_differ_in_trailing_zero_bytes_or_length_are_different() -> None:
    check([["", "\0", "a", "a\0", "a" * 7, "a" * 8, "a" * 9, "a" * 7 + "\0", "\x08"]], pa.string())


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_numbers_are_numbered_too(kind: pa.DataType) -> None:
    check([[3, -1, 3], [], [2**40, 0, -1]], kind)


def test_a_slice_of_a_column_is_read_from_where_it_begins() -> None:
    column = pa.array(["x", "y", "z", "y"])
    encoder = Encoder()
    assert encoder.codes(column.slice(1)).tolist() == [0, 1, 0]
    assert list(map(str, encoder.values() or [])) == ["y", "z"]
