"""Usage messages of the command line: placeholders in help, and errors in one sentence."""

from __future__ import annotations

from typing import Any

import typer

#: Where typer keeps click's exceptions depends on its version; it always exports this one's child.
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
    """Return what is wrong with the options and arguments of a command, and how to fix it."""
    see = f"; see `{error.ctx.command_path} --help`." if error.ctx else "."
    if hasattr(error, "possibilities"):
        close = sorted(error.possibilities or ())
        what = f"there is no option {error.option_name}"
        return f"{what}; did you mean {close[0]}?" if close else what + see
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
