"""The command and its subcommands; bad input ends in one sentence and exit code 2."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

import unswayed
from unswayed.errors import InputError

#: Every subcommand `a-b` is the function `a_b` of the module `unswayed.cli.a_b`.
COMMANDS = (
    "demo",
    "learn",
    "predict",
    "compare",
    "simulate",
    "attacks",
    "attack-search",
    "limits",
    "plan",
    "reproduce",
)

_STYLE: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",  # the default swallows what stands in [brackets]
}


class _Subcommands(TyperGroup):
    """Imports a subcommand when it is asked for, so that each pays only for what it needs."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, name: str) -> object:  # type: ignore[override]  # noqa: ARG002
        if name not in COMMANDS:
            return None
        function = name.replace("-", "_")
        single = typer.Typer(**_STYLE)
        single.command(name)(getattr(import_module(f"unswayed.cli.{function}"), function))
        return typer.main.get_command(single)


app = typer.Typer(name="unswayed", cls=_Subcommands, no_args_is_help=True, **_STYLE)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"unswayed {unswayed.__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Decisions that a coalition of fake users cannot sway."""


def main() -> None:
    """Run the command line."""
    # Read when a subcommand first imports numpy, which else asks for large pages. On a virtual
    # machine these cost more to get than they save: 0.4 to 1 s of 11 s for 20 million events.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    try:
        app()
    except InputError as error:
        message = Text.assemble(("error: ", "bold red"), str(error))
        Console(file=sys.stderr, soft_wrap=True).print(message)
        sys.exit(2)
