"""The error message with which invalid input is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from unswayed.errors import InputError


def refusal(function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Return the message of a refused call."""
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    return str(caught.value)
