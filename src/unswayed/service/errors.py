"""What the service refuses, in the one shape that every client reads."""

from __future__ import annotations

import msgspec


class Refusal(Exception):  # noqa: N818  # it is an answer, and not always an error of ours
    """A request that cannot be served: an HTTP status, a code for programs, a sentence for people.

    Every error of the service is answered as ``{"error": {"code": …, "message": …}}``.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> bytes:
        """Return the answer's body."""
        return msgspec.json.encode({"error": {"code": self.code, "message": self.message}})


def bad_request(message: str, code: str = "bad_request") -> Refusal:
    """Return a refusal of a request that is not as documented."""
    return Refusal(400, code, message)


def not_found(message: str, code: str = "not_found") -> Refusal:
    """Return a refusal for something that is not there."""
    return Refusal(404, code, message)


def conflict(message: str, code: str = "conflict") -> Refusal:
    """Return a refusal of what contradicts something accepted before."""
    return Refusal(409, code, message)


def store_unavailable() -> Refusal:
    """Return the refusal while the store cannot be written; nothing was acknowledged."""
    return Refusal(
        503,
        "store_unavailable",
        "the store cannot be written now, and nothing was recorded; send the same request again.",
    )
