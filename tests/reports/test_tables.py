import json

import pytest
from rich.cells import cell_len

from unswayed.reports.tables import print_json, print_line, print_table, progress_bar, rate


def test_labels_that_look_like_markup_are_shown_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("A [b]title[/b]", ["[x]", "n"], [["[red]:tea:", 1], ["[/nonsense]", 0.25]])
    print_line("[bold]said[/bold]")
    printed = capsys.readouterr().out
    for text in ("A [b]title[/b]", "[x]", "[red]:tea:", "[/nonsense]", "0.25", "[bold]said"):
        assert text in printed


def test_json_writes_unicode_and_rejects_values_that_json_cannot_hold(
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


@pytest.mark.parametrize("width", [24, 40, 60, 80, 200])
def test_numbers_and_labels_are_never_broken(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.459e-21 without its last digit is another number."""
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [[f"context-{n}", 4.459e-21, "a-long-label", "MegaCola", 0.25, rate(0.5)] for n in "ab"]
    names = ["context", "p", "action", "runner-up", "mean", "share"]
    print_table("A table", names, rows, note="A note.")
    printed = capsys.readouterr().out
    for text in ("context-a", "context-b", "4.459e-21", "a-long-label", "MegaCola", "50%"):
        assert text in printed
    assert all(name in printed for name in names)
    assert all(cell_len(line) <= width for line in printed.splitlines())
