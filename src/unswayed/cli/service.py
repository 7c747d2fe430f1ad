"""What the commands that talk to a service share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from unswayed.errors import InputError

if TYPE_CHECKING:
    from unswayed.service.client import Client

MISSING = "the service needs more packages: pip install 'unswayed[service]'."


@contextmanager
def asking(address: str, campaign: str, key: str | None) -> Iterator[Client]:
    """Yield a client; what the service refuses becomes one sentence."""
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
        raise InputError(f"the service refused it ({error.code}): {error}") from error
