from __future__ import annotations

from pathlib import Path

from unswayed.limits import can_hide

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"


def test_the_page_quotes_what_the_command_says() -> None:
    assert "\n".join(can_hide(0.1, 10, 0.2).words) in PAGE.read_text(encoding="utf-8")


def test_the_pictures_of_the_page_exist_in_both_formats() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in ("limits-hidden-worlds", "limits-smallest-coalition"):
        assert f"images/{name}.svg" in text
        assert (PAGE.parent / "images" / f"{name}.svg").is_file()
        assert (PAGE.parent / "images" / f"{name}.png").is_file()
