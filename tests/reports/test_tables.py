import json

import pytest

from unswayed.reports.tables import print_json, print_line, print_table, progress_bar


def test_labels_that_look_like_markup_are_shown_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("A [b]title[/b]", ["[x]", "n"], [["[red]:tea:", 1], ["[/nonsense]", 0.25]])
    print_line("[bold]said[/bold]")
    printed = capsys.readouterr().out
    for text in ("A [b]title[/b]", "[x]", "[red]:tea:", "[/nonsense]", "0.25", "[bold]said"):
        assert text in printed


def test_json_speaks_unicode_and_refuses_what_json_cannot_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({"café": 1.5})
    assert json.loads(capsys.readouterr().out) == {"café": 1.5}
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json(float("nan"))


def test_progress_is_silent_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as progress:
        progress.advance(progress.add_task("working", total=2))
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""
