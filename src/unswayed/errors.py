"""Errors caused by invalid input, and notes for whoever runs the program: one sentence each."""

from __future__ import annotations


class InputError(ValueError):
    """Something the caller gave cannot be used; the message names it and says how to mend it.

    The command line prints the message alone and exits with code 2.
    """


class Note(UserWarning):
    """Something that whoever runs the program should know; the command line prints it alone."""


def check_adversarial_fraction(value: float, *, option: str = "adversarial_fraction") -> float:
    """Return the corrupted share of users as a float, or say why it cannot be one.

    >>> check_adversarial_fraction(0.2)
    0.2
    """
    if not 0.0 <= value < 0.5:  # also refuses NaN
        raise InputError(
            f"{option} is {value}: it must be at least 0 and below 0.5, because a coalition of "
            "half the users or more cannot be told from the good users."
        )
    return float(value)
