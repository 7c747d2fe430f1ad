from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import unswayed.limits
from unswayed.limits import can_hide

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"


@pytest.mark.parametrize(
    "name", [found.name for found in pkgutil.iter_modules(unswayed.limits.__path__)]
)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"unswayed.limits.{name}"))
    assert result.failed == 0


def test_the_page_quotes_what_the_command_says() -> None:
    assert "\n".join(can_hide(0.1, 10, 0.2).words) in PAGE.read_text(encoding="utf-8")


def test_the_pictures_of_the_page_exist_in_both_formats() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in ("limits-hidden-worlds", "limits-smallest-coalition"):
        assert f"images/{name}.svg" in text
        assert (PAGE.parent / "images" / f"{name}.svg").is_file()
        assert (PAGE.parent / "images" / f"{name}.png").is_file()
