"""Finding things by the names people type."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from unswayed.errors import InputError

T = TypeVar("T")


def find(name: str, choices: Mapping[str, T], *, kind: str) -> T:
    """Return the choice of this name, or raise an error that lists them, the closest first.

    >>> find("pusk", {"push": 1, "nuke": 2}, kind="attack")
    Traceback (most recent call last):
    ...
    unswayed.errors.InputError: unknown attack 'pusk': did you mean push? Choices: nuke, push.
    """
    if name in choices:
        return choices[name]
    close = get_close_matches(name, choices, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(f"unknown {kind} '{name}': {hint}Choices: {', '.join(sorted(choices))}.")
