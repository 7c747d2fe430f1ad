"""Options that several commands share, as a dataclass whose fields become parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

Command = Callable[..., None]


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
