"""Error responses in the documented format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from unswayed.names import closest
from unswayed.visible import LABEL_LENGTH, visible

Given = TypeVar("Given")
Made = TypeVar("Made")


class Refusal(Exception):  # noqa: N818  # it is a response
    """A request that cannot be served: an HTTP status, a code for programs, a message for people.

    Every error of the service has the body ``{"error": {"code": …, "message": …}}``.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> bytes:
        """Return the body of the response."""
        return msgspec.json.encode({"error": {"code": self.code, "message": self.message}})


def each(rows: Iterable[Given | Refusal], work: Callable[[Given], Made]) -> list[Made | Refusal]:
    """Apply a function to each row of a batch; rows that are refusals already are kept."""
    made: list[Made | Refusal] = []
    for row in rows:
        try:
            made.append(row if isinstance(row, Refusal) else work(row))
        except Refusal as refusal:
            made.append(refusal)
    return made


def bad_request(message: str, code: str = "bad_request") -> Refusal:
    """Return the response to a malformed request."""
    return Refusal(400, code, message)


def store_unavailable() -> Refusal:
    """Return the response to requests while the store cannot be written."""
    return Refusal(
        503,
        "store_unavailable",
        "the store cannot be written now, and nothing was recorded; send the same request again.",
    )


_FIELD = re.compile("field `(.*)`", re.DOTALL)
_KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def wrong_body(error: msgspec.ValidationError, body: Any) -> str:
    """Return an error message for an invalid body.

    >>> wrong_body(msgspec.ValidationError("Expected `float`, got `str` - at `$.reward`"), dict)
    "'reward' must be a number, not a string."
    """
    what, _, place = str(error).partition(" - at ")
    where = place.strip("`").removeprefix("$").lstrip(".")
    name = repr(visible(where, most=LABEL_LENGTH)) if where else "the body"
    field = _FIELD.search(what)
    if what.startswith("Object contains unknown") and field:
        return f"{name} has no field {suggested(field[1], _fields(body))}"
    if what.startswith("Object missing required") and field:
        return f"{name} lacks the field {field[1]!r}."
    kinds = re.fullmatch("Expected `(.*)`, got `(.*)`", what)
    if kinds:
        wanted = " or ".join(_KINDS.get(kind, kind) for kind in kinds[1].split(" | "))
        return f"{name} must be {wanted}, not {_KINDS.get(kinds[2], kinds[2])}."
    return f"{name}: {what[:1].lower()}{what[1:].rstrip('.')}."


def suggested(typed: str, known: Sequence[str]) -> str:
    """Return an unknown name with a suggestion, or with the known names."""
    close = closest(typed[:LABEL_LENGTH], known)
    hint = f"did you mean {close!r}?" if close else f"it takes {', '.join(known)}."
    return f"{visible(typed, most=LABEL_LENGTH)!r}; {hint}"


@cache  # a batch may need it for every row
def _fields(kind: Any) -> tuple[str, ...]:
    """Return the names of all fields of a body and of nested structs, sorted."""
    info = msgspec.inspect.type_info(kind)
    names: set[str] = set()
    if isinstance(info, msgspec.inspect.StructType):
        for field in info.fields:
            names.add(field.encode_name)
            part = getattr(field.type, "item_type", None)
            if isinstance(part, msgspec.inspect.StructType):
                names.update(_fields(part.cls))
    return tuple(sorted(names))
