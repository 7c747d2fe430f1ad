"""Every code block of every page runs unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, Block, Reader, blocks_of

SHELL = ("sh", "console")
LANGUAGES = ("python", "toml", *SHELL)

#: Maximum number of blocks that may be skipped, so that pages are really tested.
MOST_UNRUN = 11


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.kind and block.reason is None]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the demo that most pages begin with, and return the folder of its files."""
    folder = tmp_path_factory.mktemp("demo")
    Reader(folder).run(Block("sh", "unswayed demo\n", 0, None))
    return folder / "demo"


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_every_code_block_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: Path
) -> None:
    """Blocks run in order in one folder; doctests and transcripts print what the page shows."""
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path, demo=demo)
    try:
        for block in runnable(page):
            reader.run(block)
    finally:
        reader.leave()


def test_every_block_can_be_run_or_has_a_reason_not_to() -> None:
    """Blocks without a language are output or drawings."""
    unrun = 0
    for page in PAGES:
        for block in blocks_of(page):
            assert block.kind in ("", *LANGUAGES), f"{name_of(page)}, line {block.line}"
            unrun += block.reason is not None
            if not block.kind:
                assert "unswayed " not in block.text, f"{name_of(page)}, line {block.line}"
    assert unrun <= MOST_UNRUN


def test_the_page_runner_detects_errors(tmp_path: Path) -> None:
    """Negative controls: wrong output, a command that fails, a wrong transcript."""
    for kind, text in (
        ("python", ">>> 1 + 1\n3\n"),
        ("python", "raise AssertionError\n"),
        ("sh", "unswayed learn nowhere.csv\n"),
        ("console", "$ echo yes\nno\n"),
        ("ruby", "puts 1\n"),
    ):
        with pytest.raises(AssertionError):
            Reader(tmp_path).run(Block(kind, text, 1, None))


def test_examples_of_extensions_are_short() -> None:
    """The page promises fewer than fifty lines for each."""
    files = [b for b in blocks_of(ROOT / "docs/extend.md") if b.text.startswith("# file: ")]
    assert len(files) == 3
    assert all(block.text.count("\n") < 50 for block in files)
