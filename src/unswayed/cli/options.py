"""What several commands share: options, groups of options, parsers, and a client of the service."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from unswayed.errors import InputError

if TYPE_CHECKING:
    from unswayed.service.client import Client

Seed = Annotated[int, typer.Option(help="Random seed; the same seed gives the same results.")]
GoalName = Annotated[
    str,
    typer.Option(
        help="What to measure: suboptimality (of the final policy) or regret (of good users while "
        "learning)."
    ),
]
Processes = Annotated[
    int | None, typer.Option(help="Number of processes [all cores]; does not change the results.")
]
Address = Annotated[str, typer.Option(help="Address of the service.")]
KeyVariable = Annotated[
    str, typer.Option(help="Environment variable that holds your key, if one is needed.")
]
Figures = Annotated[
    Path | None,
    typer.Option(help="Write the figures to this folder, as PNG and SVG with their data as JSON."),
]
TableFormat = Annotated[
    str | None, typer.Option("--format", help="Format of the tables: parquet or csv.")
]

Command = Callable[..., None]


def reading_option(help: str, **more: Any) -> Any:  # noqa: A002  # as typer calls it
    """Return an option for reading a log; the help shows them in one panel."""
    return typer.Option(help=help, rich_help_panel="Reading the log", **more)


Memory = Annotated[
    str | None,
    reading_option(
        help="Memory limit, such as 2GB [three quarters of the free memory].",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a text with commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def process_count(processes: Processes) -> int:
    """Return the given number, or the number of cores."""
    return (os.cpu_count() or 1) if processes is None else processes


def probabilities_in(text: str) -> str | tuple[float, ...]:
    """Return the text, or the numbers of the file that it names."""
    path = Path(text)
    try:
        if not path.is_file():
            return text
        return tuple(float(number) for number in path.read_text().replace(",", " ").split())
    except (ValueError, OSError) as error:
        raise InputError(f"{path} must hold one number for each context: {error}.") from None


MISSING = "the service needs additional packages: install unswayed with the extra 'service'."


@contextmanager
def asking(address: str, campaign: str, key: str | None) -> Iterator[Client]:
    """Yield a client; errors of the service become one sentence."""
    try:
        from unswayed.service.client import Client, ServiceError
    except ImportError as error:
        raise InputError(MISSING) from error
    try:
        with Client(address, campaign, key=key) as client:
            yield client
    except ServiceError as error:
        if error.code == "unreachable":
            raise InputError(
                f"{error} Start it with `unswayed serve`, or give --address."
            ) from error
        raise InputError(f"the service refused the request ({error.code}): {error}") from error


def expanded(command: Command) -> Command:
    """Return a command that takes the fields of its dataclass parameters as options of their own.

    The command line sees one option for each field, where the parameter stands; the command gets
    the dataclass.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, type[Any]] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }

    def parameters() -> Iterator[inspect.Parameter]:
        for name, parameter in signature.parameters.items():
            if name in groups:
                yield from _parameters_of(groups[name], parameter.kind)
            else:
                yield parameter

    shown = signature.replace(parameters=list(parameters()))

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        bound = shown.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**given, **made)

    run.__signature__ = shown  # type: ignore[attr-defined]  # what inspect and typer read first
    run.__annotations__ = {name: each.annotation for name, each in shown.parameters.items()}
    return run


def _parameters_of(kind: type[Any], place: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield inspect.Parameter(
            field.name,
            place,
            default=field.default,
            annotation=hints[field.name],
        )
