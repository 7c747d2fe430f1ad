"""The command, its subcommands and their help; bad input ends in one sentence and exit code 2."""

from __future__ import annotations

import ast
import atexit
import gc
import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

import unswayed
from unswayed.cli import COMMANDS
from unswayed.cli.options import expanded
from unswayed.errors import InputError, Note
from unswayed.names import closest
from unswayed.visible import SENTENCE_LENGTH, visible

_STYLE: dict[str, Any] = {
    "add_completion": False,  # the root command offers completion
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",  # the default, "rich", drops text in [brackets]
}

_SERVICE = ("httptools", "httpx", "jinja2", "msgspec", "starlette", "uvicorn", "uvloop")

#: Packages that may be missing, and the extra that installs each.
_EXTRAS = {"matplotlib": "plots", **dict.fromkeys(_SERVICE, "service")}

#: Some versions of typer contain their own copy of click; all of them export this exception class.
UsageError: type[Any] = typer.BadParameter.__base__  # type: ignore[assignment]


def with_plain_help(command: Any) -> Any:
    """Return a command whose help shows flags without a type, and arguments in capitals."""
    help_option = command.get_help_option(typer.Context(command))
    for parameter in (*command.params, help_option):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.metavar = parameter.metavar or parameter.name.upper()
        elif parameter.multiple:
            parameter.metavar = parameter.metavar or "<str>"
    return command


def usage_sentence(error: Any) -> str:
    """Rewrite click's usage error as one sentence that suggests a fix."""
    see = f"; see `{error.ctx.command_path} --help`." if error.ctx else "."
    if hasattr(error, "possibilities"):
        close = closest(error.option_name[2:], [name[2:] for name in error.possibilities or ()])
        what = f"there is no option {error.option_name}"
        return f"{what}; did you mean --{close}?" if close else what + see
    parameter = getattr(error, "param", None)
    if parameter is None:
        message: str = error.format_message()
        return message[:1].lower() + message[1:].removesuffix(".") + see
    is_argument = parameter.param_type_name == "argument"
    name = parameter.metavar if is_argument else max(parameter.opts, key=len)
    return f"{name} {_wrong_value(error)}{see}"


def _wrong_value(error: Any) -> str:
    if hasattr(error, "param_type"):
        return "is missing"
    message: str = error.message
    if "integer" in message:
        return "must be a whole number"
    if "number" in message or "float" in message:
        return "must be a number"
    return f"cannot be used: {message.removesuffix('.')}"


class _Subcommands(TyperGroup):
    """Imports a subcommand when it is run, so that each one imports only its own modules."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, name: str) -> Any:  # type: ignore[override]  # noqa: ARG002
        """Return the metadata of a subcommand that `--help` needs."""
        return TyperCommand(name, help=_summary(name)) if name in COMMANDS else None

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Return the subcommand itself, its name, and its arguments."""
        close = closest(args[0], COMMANDS) if args and args[0] not in COMMANDS else None
        if close is not None and not args[0].startswith("-"):
            raise InputError(f"there is no command {args[0]!r}; did you mean `unswayed {close}`?")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if command is None else subcommand(str(name)), rest


def subcommand(name: str) -> Any:
    """Import a subcommand, and return it as a click command."""
    function = name.replace("-", "_")
    single = typer.Typer(**_STYLE)
    single.command(name)(expanded(getattr(import_module(f"unswayed.cli.{function}"), function)))
    return with_plain_help(typer.main.get_command(single))


def _summary(name: str) -> str:
    """Return the first line of a subcommand's docstring without importing its module."""
    function = name.replace("-", "_")
    source = Path(__file__).with_name(f"{function}.py").read_text("utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    raise LookupError(f"{function}.py defines no {function}")


app = typer.Typer(
    name="unswayed",
    cls=_Subcommands,
    no_args_is_help=True,
    **{**_STYLE, "add_completion": True},
)


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


#: Ours: number of new objects between runs of Python's garbage collector. Imports create many
#: objects and hardly any garbage; Python's default of 700 costs 0.1 s of a short run.
_OBJECTS_PER_COLLECTION = 200_000


def main() -> None:
    """Run the command line, and end the process."""
    # NumPy reads this when it is first imported, and requests huge pages by default. On a virtual
    # machine these cost more than they save: 0.4 to 1 s of 11 s for 20 million events.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    warnings.showwarning = _show_note  # type: ignore[assignment]  # passes the rest on
    try:
        _leave(with_plain_help(typer.main.get_command(app))(standalone_mode=False) or 0)
    except InputError as error:
        _refuse(error.on_command_line)
    except UsageError as error:
        if error.format_message():  # empty if only the help was printed
            _refuse(usage_sentence(error))
        _leave(2)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _refuse(f"this needs {error.name}: install unswayed with the extra '{extra}'.")
    except MemoryError as error:
        _refuse(f"there is not enough memory ({error}); use smaller numbers or a larger machine.")
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            _leave(ended.code or 0)
        raise


def _refuse(reason: str) -> NoReturn:
    _print_to_stderr("error", "bold red", reason)
    _leave(2)


def _print_to_stderr(kind: str, style: str, sentence: str) -> None:
    message = Text.assemble((f"{kind}: ", style), visible(sentence, most=SENTENCE_LENGTH))
    Console(file=sys.stderr, soft_wrap=True).print(message)


_show_warning = warnings.showwarning


def _show_note(message: Warning | str, category: type[Warning], *rest: Any) -> None:
    """Print notes as a sentence; other warnings as Python does."""
    if issubclass(category, Note):
        words = message.on_command_line if isinstance(message, Note) else str(message)
        _print_to_stderr("note", "bold", words)
    else:
        _show_warning(message, category, *rest)


def _leave(code: int) -> NoReturn:
    """End the process at once, since freeing every object takes 0.2 to 0.4 s."""
    atexit._run_exitfuncs()  # as at a normal exit
    with suppress(BrokenPipeError):  # for example if the output is piped into `head`
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
