"""Text that is safe to print: escaped control characters, and formatted numbers."""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Decimal

Cell = str | int | float | None

#: Ours: maximum length of a table cell, and of a sentence that names labels.
LABEL_LENGTH = 200
SENTENCE_LENGTH = 2_000

#: Control and format characters, such as bidirectional overrides, and line ends.
_ESCAPED = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: Format characters that some scripts and emoji need, and that are harmless.
_HARMLESS = "\u200c\u200d"


#: A number in common notation, with an optional sign, unit or mark.
_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?(e[+-]?[0-9]+)?( ?%)?")


def visible(text: str, *, most: int, keep: str = "") -> str:
    r"""Return a text with control characters escaped, and its middle left out if it is long.

    At most about ``most`` characters are shown; characters in ``keep`` are not escaped.

    >>> visible("\x1b[31mred", most=20)
    '\\x1b[31mred'
    >>> visible("a" * 1_000_000, most=24)
    'aaaa… (1,000,000) …aaaa'
    """
    return escaped(shortened(text, most), keep=keep)


def escaped(text: str, *, keep: str = "") -> str:
    r"""Return a text with control characters written as ``\x1b`` or ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _ESCAPED and character not in keep + _HARMLESS
        else character
        for character in text
    )


def shortened(text: str, most: int) -> str:
    """Shorten a long text, keeping its beginning and end."""
    if len(text) <= most:
        return text
    middle = f"… ({len(text):,}) …"
    side = max(most - len(middle), 2) // 2
    return text[:side] + middle + text[-side:]


def counted(number: float, noun: str) -> str:
    """Return a count with its noun, in the singular or plural.

    >>> counted(1, "account"), counted(1200.4, "account"), counted(2, "decision")
    ('1 account', '1,200 accounts', '2 decisions')
    """
    return f"{number:,.0f} {noun}{'' if round(number) == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share as a percentage with three digits.

    >>> percent(0.27273), percent(0.000832), percent(1.0), percent(2.9e-7)
    ('27.3%', '0.0832%', '100%', '0.000029%')
    """
    return f"{number(100 * share)}%"


def is_number(cell: Cell) -> bool:
    """Whether a cell is empty or a number, with or without a percent sign.

    >>> is_number("1,234.5%"), is_number(None), is_number("0.1 to 0.2")
    (True, True, False)
    """
    return not isinstance(cell, str) or _NUMBER.fullmatch(cell) is not None


def shown(cell: Cell) -> str:
    """Return a cell of a table as text: numbers with four digits, whole ones in full.

    >>> shown(0.123456), shown(12345), shown(None)
    ('0.1235', '12,345', '-')
    """
    if cell is None or isinstance(cell, str):
        return cell or "-"
    return f"{cell:,}" if isinstance(cell, int) else number(cell, 4)


def number(value: float, digits: int = 3, *, sign: str = "") -> str:
    """Format a number with ``digits`` significant digits, without an exponent if it is readable.

    >>> number(2.822e-05), number(1030.4), number(0.25, sign="+"), number(4.459e-21)
    ('0.0000282', '1,030', '+0.25', '4.46e-21')
    """
    text = f"{value:{sign}.{digits}g}"
    if not math.isfinite(value):
        return "no bound" if math.isinf(value) else "-"
    return f"{Decimal(text):{sign},f}" if value == 0.0 or 1e-6 <= abs(value) < 1e15 else text
