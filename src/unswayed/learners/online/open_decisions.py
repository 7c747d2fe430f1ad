"""Decisions that wait for their reward, each under an id that counts once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unswayed.errors import InputError
from unswayed.events import Label

#: Ours: decisions that may wait for their reward; about 300 bytes each.
MAX_OPEN_DECISIONS = 1_000_000

_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """An action to play, and the id under which its reward is reported."""

    id: str
    action: Label


class OpenDecisions:
    """The codes (user, context, action) of decisions without a reward, by id.

    Ids are drawn from the operating system's generator, so nobody can guess one. When there are
    more than ``limit`` the oldest are forgotten, and their rewards refused.

    Examples
    --------
    >>> waiting = OpenDecisions(limit=10)
    >>> id_ = waiting.add((0, 1, 2))
    >>> waiting.find(id_)
    (0, 1, 2)
    """

    def __init__(self, *, limit: int) -> None:
        if limit < 1:
            raise InputError(f"max_open_decisions is {limit}; at least one must be kept.")
        self._limit = limit
        self._codes: dict[str, tuple[int, int, int]] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, codes: tuple[int, int, int]) -> str:
        """Keep a decision and return its id."""
        decision_id = secrets.token_hex(_ID_BYTES)
        self._codes[decision_id] = codes
        if len(self._codes) > self._limit:
            del self._codes[next(iter(self._codes))]
        return decision_id

    def find(self, decision_id: str) -> tuple[int, int, int]:
        """Return the codes of a decision, or refuse an id that is not open."""
        codes = self._codes.get(decision_id) if isinstance(decision_id, str) else None
        if codes is None:
            raise InputError(
                f"decision {decision_id!r} is not open: it was never made here, its reward was "
                f"reported before, or more than {self._limit:,} decisions were made since; report "
                "each reward once, under the id of its decision."
            )
        return codes

    def recoded(self, codes_of_actions: Mapping[int, int]) -> None:
        """Give actions other codes; decisions for actions without one are forgotten."""
        self._codes = {
            id_: (user, context, codes_of_actions[action])
            for id_, (user, context, action) in self._codes.items()
            if action in codes_of_actions
        }

    def to_json(self) -> dict[str, list[int]]:
        """Return the open decisions as plain JSON values, the oldest first."""
        return {id_: list(codes) for id_, codes in self._codes.items()}

    def restore(self, value: Mapping[str, Any], *, most: tuple[int, int, int]) -> None:
        """Take over the decisions that ``to_json`` returned; codes must be below ``most``."""
        for id_, codes in value.items():
            user, context, action = (int(code) for code in codes)
            numbers = (user, context, action)
            if not all(0 <= code < end for code, end in zip(numbers, most, strict=True)):
                raise ValueError(f"decision {id_!r} is of nobody")
            self._codes[str(id_)] = numbers

    def close(self, decision_id: str) -> None:
        """Forget a decision whose reward was taken in."""
        del self._codes[decision_id]
