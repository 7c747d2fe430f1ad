"""Versioned JSON objects in files (policies and plans), and conversion of numbers to JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unswayed.errors import InputError
from unswayed.storage import whole_file


def json_number(value: float) -> float | None:
    """Return a number that JSON can represent; None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def write_object(path: str | os.PathLike[str], value: Mapping[str, Any]) -> None:
    """Write an object as JSON; the file is replaced atomically."""
    with whole_file(path) as draft:
        draft.write_text(_written(value, n_levels=2) + "\n", encoding="utf-8")


def read_object(path: str | os.PathLike[str], kind: str, *, format_name: str) -> dict[str, Any]:
    """Read a JSON object of a format from a file; ``kind`` names it in error messages."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        is_missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file; check the path" if is_missing else str(error)
        raise InputError(f"cannot read the {kind} {os.fspath(path)}: {reason}.") from error
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise InputError(f"{os.fspath(path)} is not a {kind}: it is nested too deep.") from error
    except ValueError as error:  # also raised for integers of thousands of digits
        raise InputError(f"{os.fspath(path)} is not a {kind}: it is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise InputError(f"{os.fspath(path)} is not a {kind}: it holds no JSON object.")
    if value.get("format") != format_name:
        raise InputError(f"{os.fspath(path)} is not a {kind}: its 'format' is not {format_name!r}.")
    return value


def check_version(value: Mapping[str, Any], kind: str, *, format_name: str, version: int) -> None:
    """Reject an object of another format or of a version that this program does not read."""
    if value.get("format") != format_name:
        raise InputError(f"this is not a {kind}: its 'format' is not {format_name!r}.")
    if value.get("version") != version:
        raise InputError(
            f"the {kind} has version {value.get('version')} and this program reads version "
            f"{version}; learn it again or use the program that wrote it."
        )


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


def _written(value: Mapping[str, Any], *, n_levels: int) -> str:
    """Return JSON with a line for each key of the outer levels.

    One line per value, as with ``indent``, takes five times as long: that path is not implemented
    in C.
    """
    items = (
        f"{json.dumps(key, ensure_ascii=False)}: "
        + (
            _written(item, n_levels=n_levels - 1)
            if n_levels > 1 and isinstance(item, Mapping) and item
            else json.dumps(item, allow_nan=False, ensure_ascii=False)
        )
        for key, item in value.items()
    )
    return "{\n" + ",\n".join(items) + "\n}"
