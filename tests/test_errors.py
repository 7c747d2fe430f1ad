"""Errors name options as the caller knows them: flags on the command line, parameters in Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from unswayed.errors import Note, option

SOURCE = Path(__file__).parent.parent / "src" / "unswayed"


def flags_in_errors(source: str) -> list[str]:
    """Return command-line options in messages of InputErrors, but for those within ``option``."""
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


def test_no_error_outside_of_the_command_line_names_its_options() -> None:
    """They are written with ``errors.option``, which knows both names."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "cli" not in path.parts:
            assert flags_in_errors(path.read_text(encoding="utf-8")) == [], path


def test_such_an_option_would_be_noticed() -> None:
    assert flags_in_errors('raise InputError(f"use --memory for {x}.")') == ["use --memory for "]
    assert flags_in_errors("raise InputError(f\"use {option('--memory')}.\")") == []


def test_a_note_names_options_as_its_reader_writes_them() -> None:
    note = Note(f"see {option('--memory')}.")
    assert str(note) == "see `memory`."
    assert note.on_command_line == "see --memory."
