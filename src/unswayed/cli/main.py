"""The command and its subcommands; bad input ends in one sentence and exit code 2."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

import unswayed
from unswayed.cli.attacks import attacks
from unswayed.cli.demo import demo
from unswayed.cli.limits import limits
from unswayed.cli.simulate import simulate
from unswayed.errors import InputError

app = typer.Typer(
    name="unswayed",
    help="Decisions that a coalition of fake users cannot sway.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for command in (demo, simulate, attacks, limits):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"unswayed {unswayed.__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Decisions that a coalition of fake users cannot sway."""


def main() -> None:
    """Run the command line."""
    try:
        app()
    except InputError as error:
        message = Text.assemble(("error: ", "bold red"), str(error))
        Console(file=sys.stderr, soft_wrap=True).print(message)
        sys.exit(2)
