"""Finding things by the names people type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from unswayed.errors import InputError

T = TypeVar("T")


def closest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that was probably meant, or None if none is close.

    >>> closest("Lunch", ["launch", "lunch"]), closest("xyz", ["lunch"])
    ('lunch', None)
    """
    by_lower = {choice.casefold(): choice for choice in choices}
    close = get_close_matches(name.casefold(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def find(name: str, choices: Mapping[str, T], *, kind: str) -> T:
    """Return the choice of this name, or raise an error that lists them, the closest first.

    >>> find("pusk", {"push": 1, "nuke": 2}, kind="attack")
    Traceback (most recent call last):
    ...
    unswayed.errors.InputError: unknown attack 'pusk': did you mean push? Choices: nuke, push.
    """
    if name in choices:
        return choices[name]
    if not choices:
        raise InputError(f"unknown {kind} '{name}': there are none.")
    close = closest(name, choices)
    hint = f"did you mean {close}? " if close else ""
    raise InputError(f"unknown {kind} '{name}': {hint}Choices: {', '.join(sorted(choices))}.")
