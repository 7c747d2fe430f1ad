"""Errors name options in the caller's terms: flags on the command line, parameters in Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from unswayed.errors import Note, option

SOURCE = Path(__file__).parent.parent / "src" / "unswayed"


def flags_in_errors(source: str) -> list[str]:
    """Return command-line options in messages of InputErrors that are not wrapped in ``option``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InputError":
            within = {
                id(constant)
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "option"
                for constant in ast.walk(call)
            }
            found += [
                constant.value
                for constant in ast.walk(node)
                if isinstance(constant, ast.Constant)
                and isinstance(constant.value, str)
                and id(constant) not in within
                and re.search(r"(^|[ (`])--[a-z]", constant.value)
            ]
    return found


def test_only_the_command_line_package_names_options_as_flags() -> None:
    """Other packages use ``errors.option``, which has both names."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "cli" not in path.parts:
            assert flags_in_errors(path.read_text(encoding="utf-8")) == [], path


def test_flags_in_error_messages_are_detected() -> None:
    assert flags_in_errors('raise InputError(f"use --memory for {x}.")') == ["use --memory for "]
    assert flags_in_errors("raise InputError(f\"use {option('--memory')}.\")") == []


def test_a_note_names_options_in_the_terms_of_its_reader() -> None:
    note = Note(f"see {option('--memory')}.")
    assert str(note) == "see `memory`."
    assert note.on_command_line == "see --memory."
