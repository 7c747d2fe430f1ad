"""Shared by several commands: options, groups of options, parsers, and a client of the service."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from unswayed.errors import InputError

if TYPE_CHECKING:
    from unswayed.service.client import Client

Seed = Annotated[int, typer.Option(help="Random seed; the same seed gives the same results.")]
Processes = Annotated[
    int | None, typer.Option(help="Number of processes [all cores]; does not change the results.")
]
Store = Annotated[
    str,
    typer.Option(
        help="sqlite:///FILE, or postgresql://USER@HOST/DATABASE.", envvar="UNSWAYED_STORE"
    ),
]
Address = Annotated[str, typer.Option(help="Address of the service.")]
KeyVariable = Annotated[
    str, typer.Option(help="Environment variable that holds your key, if one is needed.")
]
Figures = Annotated[
    Path | None,
    typer.Option(help="Write the figures to this folder, as PNG and SVG with their data as JSON."),
]

Command = Callable[..., None]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def check_outputs(*outputs: Path | None, inputs: Sequence[object]) -> None:
    """Reject a file that would replace an input, or one to which two results would be written."""
    taken = {os.path.realpath(path) for path in inputs if isinstance(path, str | Path)}
    for path in filter(None, outputs):
        target = os.path.realpath(path)
        if target in taken:
            raise InputError(
                f"{path} cannot be written: it is an input, or named for two results; name another "
                "file."
            )
        if not target.startswith(("/dev/", "/proc/")):  # devices may be named twice
            taken.add(target)


def names_in(text: str) -> tuple[str, ...]:
    """Return the distinct names in a comma-separated text."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def process_count(processes: Processes) -> int:
    """Return the given number, or the number of cores."""
    return (os.cpu_count() or 1) if processes is None else processes


def probabilities_in(text: str) -> str | tuple[float, ...]:
    """Return the numbers in the file of this name, or the text itself if there is no such file."""
    path = Path(text)
    try:
        if not path.is_file():
            return text
        return tuple(float(number) for number in path.read_text().replace(",", " ").split())
    except (ValueError, OSError) as error:
        raise InputError(f"{path} must hold one number for each context: {error}.") from None


@contextmanager
def asking(address: str, campaign: str, key: str | None) -> Iterator[Client]:
    """Yield a client of the service; raise its errors as an ``InputError``."""
    from unswayed.service.client import Client, ServiceError

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
    """Return a command for typer, with help from its docstring and options from dataclasses.

    An option is described by a line ``name: help`` or ``name (METAVAR): help`` of the docstring,
    with indented lines to continue it, or as numpydoc does. Each field of a dataclass parameter
    becomes an option, listed in the dataclass's ``panel`` of the help if it has one; the command
    receives the dataclass. If two dataclasses have a field of the same name, only the first becomes
    an option.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    described = _Descriptions(command)
    for name, parameter in signature.parameters.items():
        kind = parameter.annotation
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters[name] = described.option(parameter)
            continue
        own = _Descriptions(kind)
        hints = get_type_hints(kind, include_extras=True)
        names = [
            field.name
            for field in fields(kind)
            if field.name not in parameters and _is_typed(hints[field.name])
        ]
        groups[name] = kind, names
        defaults = {field.name: field.default for field in fields(kind)}
        for each in names:
            made = inspect.Parameter(
                each, parameter.kind, default=defaults[each], annotation=hints[each]
            )
            parameters[each] = own.option(made)
    shown = signature.replace(parameters=list(parameters.values()))

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        bound = shown.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        made = {}
        for name, (kind, names) in groups.items():
            values = {each: given.pop(each) for each in names}
            stated = {each: value for each, value in values.items() if value is not None}
            made[name] = kind(**stated)
        command(**given, **made)

    run.__doc__ = described.summary
    run.__signature__ = shown  # type: ignore[attr-defined]  # what inspect and typer read first
    run.__annotations__ = {name: each.annotation for name, each in shown.parameters.items()}
    return run


#: An option in a docstring: its name, its metavar, and its help with further lines.
_DESCRIBED = re.compile(r"^(\w+)(?: \((\S+)\))?(?:: |\n {4})(.+(?:\n {4}.+)*)", re.MULTILINE)


class _Descriptions:
    """The options in a docstring, including those of base classes, and the text before them."""

    def __init__(self, described: Any) -> None:
        documents = described.mro()[::-1] if isinstance(described, type) else [described]
        text = "\n\n".join(inspect.cleandoc(each.__doc__ or "") for each in documents)
        names = inspect.signature(described).parameters
        found = [match for match in _DESCRIBED.finditer(text) if match[1] in names]
        self.summary = text[: found[0].start()].rstrip() if found else text
        self._panel: dict[str, Any] = {"rich_help_panel": getattr(described, "panel", None)}
        self._metavars = {match[1]: match[2] for match in found}
        self._help = {
            match[1]: re.sub(
                r"``(\w+)``",
                lambda name: f"--{name[1].replace('_', '-')}" if name[1] in names else name[1],
                " ".join(match[3].split()),
            )
            for match in found
        }

    def option(self, parameter: inspect.Parameter) -> inspect.Parameter:
        """Return a parameter as an option with its help, unless it is annotated already."""
        hint, name, default = parameter.annotation, parameter.name, parameter.default
        if get_origin(hint) is Annotated:
            return parameter
        kinds = {hint, *get_args(hint)}
        if kinds & {str, Sequence[str]} or any(get_origin(kind) is Literal for kind in kinds):
            hint = str if default else str | None  # such options are text on the command line
            if default is not parameter.empty:
                default = str(default) if default else None
        flags = [f"--{name.replace('_', '-')}"] if hint is bool else []
        option = typer.Option(
            *flags, help=self._help[name], metavar=self._metavars[name], **self._panel
        )
        return parameter.replace(annotation=Annotated[hint, option], default=default)


def _is_typed(hint: Any) -> bool:
    """Whether a value of this type can be typed on the command line."""
    plain = {str, int, float, bool, Path, list[str], Sequence[str]}
    return get_origin(hint) in (Annotated, Literal) or bool({hint, *get_args(hint)} & plain)
