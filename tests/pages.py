"""Run the code blocks of the documentation as a reader would."""

from __future__ import annotations

import doctest
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: A comment above a block says why it is not run. Blocks inside comments are run, but not shown.
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+?) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$"
    r"|^<!-- run first\n(?P<first>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)

#: Timeout in seconds for each block of a page.
_LIMIT = 300

#: The port of servers on the pages, which is replaced by a free one.
_PORT = "8321"

_DEMO = re.compile(r"^unswayed demo(?: --out (\w+))?(?= *(?:#.*)?$)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block: language, text, line number, and the reason if it is skipped."""

    kind: str
    text: str
    line: int
    reason: str | None


def blocks_of(page: Path) -> list[Block]:
    """Return the code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["first"] is not None:
            found.append(Block("sh", match["first"], line, None))
        else:
            found.append(Block(match["kind"], match["text"], line, match["reason"]))
    return found


class Reader:
    """Runs the blocks of a page in one folder and one Python session."""

    def __init__(
        self, folder: Path, *, installed: Path | None = None, demo: Path | None = None
    ) -> None:
        """Start in a folder, with the commands of this source tree or with installed ones.

        ``demo`` has the files of ``unswayed demo``, which are then copied instead of made.
        """
        self.folder, self.demo = folder, demo
        self.commands = installed or Path(sys.executable).parent
        self.environment = {**os.environ, "PYTHONPATH": "" if installed else str(ROOT / "src")}
        self.names: dict[str, object] = {}
        self.exported: dict[str, str] = {}
        self.sessions: list[int] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])

    def leave(self) -> None:
        """Stop processes that a page left running."""
        for session in self.sessions:
            with suppress(ProcessLookupError):
                os.killpg(session, signal.SIGTERM)

    def run(self, block: Block) -> None:
        """Run a block; a failure names its line."""
        match block.kind:
            case "python" | "toml" if block.text.startswith("# file: "):
                name = block.text.partition("\n")[0].removeprefix("# file: ")
                text = block.text.replace(_PORT, self.port)
                (self.folder / name).write_text(text, encoding="utf-8")
            case "python" if ">>>" in block.text:
                self._check_examples(block)
            case "python":
                exec(compile(block.text, f"line {block.line}", "exec"), self.names)
            case "sh":
                self._typed(block.text, block.line)
            case "console":
                self._check_transcript(block)
            case _:
                raise AssertionError(f"line {block.line}: nobody can run {block.kind!r}")

    def _check_examples(self, block: Block) -> None:
        parsed = doctest.DocTestParser().get_doctest(
            block.text, self.names, "page", "page", block.line
        )
        result = doctest.DocTestRunner().run(parsed, clear_globs=False)
        self.names.update(parsed.globs)
        assert not result.failed, f"line {block.line}: an example is not so"

    def _check_transcript(self, block: Block) -> None:
        """Run the commands of a transcript; each must print the lines that follow it."""
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            printed = self._typed(command, block.line)
            assert " ".join(expected.split()) in " ".join(printed.split()), (
                f"line {block.line}: `{command}` does not print that"
            )

    def _typed(self, text: str, line: int) -> str:
        """Run a shell script; exported variables persist."""
        for name, value in re.findall(r"^export (\w+)=(\S+)$", text, flags=re.MULTILINE):
            self.exported[name] = value
        if self.demo is not None:
            text = _DEMO.sub(lambda match: f"cp -r {self.demo} {match[1] or 'demo'}", text)
        with subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text.replace(_PORT, self.port)],
            cwd=self.folder,
            env={
                **self.environment,
                "PATH": f"{self.commands}:{os.environ['PATH']}",
                **self.exported,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as shell:
            self.sessions.append(shell.pid)
            printed, problems = shell.communicate(timeout=_LIMIT)
        assert shell.returncode == 0, f"line {line}: {text}\n{problems}"
        return printed
