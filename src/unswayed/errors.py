"""Errors caused by invalid input, and notes for the user: one sentence each."""

from __future__ import annotations

import re

#: An option in a message: how the command line writes it, and how Python does.
_OPTION = re.compile("\x02([^\x02\x03\x1f]*)\x1f([^\x02\x03\x1f]*)\x03")


class _Sentence(Exception):  # noqa: N818 - the base of errors and notes
    """A message that names options in the reader's terms; see ``option``."""

    def __str__(self) -> str:
        return _OPTION.sub(r"\2", super().__str__())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def on_command_line(self) -> str:
        """The message with options as the command line writes them."""
        return _OPTION.sub(r"\1", super().__str__())


class InputError(_Sentence, ValueError):
    """Invalid input; the message names it and says how to fix it.

    The command line prints ``on_command_line`` alone and exits with code 2. In Python the same
    message names parameters instead of command-line options.
    """


class Note(_Sentence, UserWarning):
    """Something the user should know; the command line prints it without a traceback."""


def option(flag: str, value: str | None = None, *, python: str | None = None) -> str:
    """Return an option for the message of an ``InputError`` or ``Note``, perhaps with a value.

    ``flag`` is the name on the command line, such as ``--min-propensity``, and ``python`` the name
    in Python; by default the parameter of the same name.

    >>> error = InputError(f"use {option('--on-bad-rows', 'drop')}.")
    >>> str(error), error.on_command_line
    ('use `on_bad_rows="drop"`.', 'use --on-bad-rows drop.')
    """
    name = flag.removeprefix("--").replace("-", "_") + ("" if value is None else f'="{value}"')
    written = flag if value is None else f"{flag} {value}"
    return f"\x02{written}\x1f`{name if python is None else python}`\x03"


ALPHA = option("--alpha")


def check_adversarial_fraction(value: float, *, name: str = ALPHA) -> float:
    """Return the share of colluders as a float; raise an error if it is invalid.

    >>> check_adversarial_fraction(0.2)
    0.2
    """
    if not 0.0 <= value < 0.5:  # also rejects NaN
        meant = f"; did you mean {value / 100.0:g}?" if 1.0 <= value < 50.0 else "."
        raise InputError(
            f"{name} is {value:g}: it must be at least 0 and below 0.5, because a coalition of "
            f"half the users or more cannot be distinguished from the good users{meant}"
        )
    return float(value)
