"""Look up names, suggest close matches, and check keywords."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from unswayed.errors import InputError, Note

T = TypeVar("T")
Target = TypeVar("Target", bound=Callable[..., Any])


# Ours: minimum similarity of a suggestion; the default, 0.6, suggests "secret" for "user"
_CLOSE = 0.65


def closest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that was probably meant, or None if none is close.

    >>> closest("Lunch", ["launch", "lunch"]), closest("xyz", ["lunch"])
    ('lunch', None)
    """
    by_lower = {choice.casefold(): choice for choice in choices}
    close = get_close_matches(name.casefold(), by_lower, n=1, cutoff=_CLOSE)
    return by_lower[close[0]] if close else None


def find(name: str, choices: Mapping[str, T], *, kind: str) -> T:
    """Return the object with this name; the error for unknown names lists the closest first.

    >>> find("pusk", {"push": 1, "nuke": 2}, kind="attack")
    Traceback (most recent call last):
    ...
    unswayed.errors.InputError: unknown attack 'pusk': did you mean push? Choices: nuke, push.
    """
    if name in choices:
        return choices[name]
    if not choices:
        raise InputError(f"unknown {kind} '{name}': there are none.")
    close = closest(name, choices)
    hint = f": did you mean {close}?" if close else "."
    raise InputError(f"unknown {kind} '{name}'{hint} Choices: {', '.join(sorted(choices))}.")


def known_keywords(**renamed: str) -> Callable[[Target], Target]:
    """Decorate a function or class: old keywords work with a note, unknown ones get a suggestion.

    ``renamed`` has the new name of each old one.

    >>> @known_keywords()
    ... def learn(*, alpha: float) -> float:
    ...     return alpha
    >>> learn(alhpa=0.1)
    Traceback (most recent call last):
    ...
    TypeError: learn has no parameter 'alhpa'; did you mean 'alpha'?
    """

    def decorated(target: Target) -> Target:
        function = vars(target)["__init__"] if isinstance(target, type) else target
        names = list(signature(target).parameters)

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            for name in [name for name in keywords if name not in names]:
                if name in renamed and renamed[name] not in keywords:
                    warnings.warn(f"{name} is now called {renamed[name]}.", Note, stacklevel=2)
                    keywords[renamed[name]] = keywords.pop(name)
                    continue
                close = closest(name, names)
                hint = f"did you mean {close!r}?" if close else f"it has {', '.join(names)}."
                raise TypeError(f"{target.__name__} has no parameter {name!r}; {hint}")
            return function(*arguments, **keywords)

        if isinstance(target, type):
            target.__init__ = call  # type: ignore[misc]  # the same signature
            return target
        return cast("Target", call)

    return decorated
