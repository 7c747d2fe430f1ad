"""Reading and changing the store beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from unswayed.service.calls import Call
from unswayed.service.database import Connection

Result = TypeVar("Result")


async def read(call: Call, look: Callable[[Connection], Result]) -> Result:
    """Read from the store, beside the event loop."""

    def run() -> Result:
        with call.service.database.connected() as connection:
            return look(connection)

    return await run_in_threadpool(run)


async def change(
    call: Call, make: Callable[[Connection], Result], *, refresh: bool = True
) -> Result:
    """Change the store in one transaction; this process knows of it at once."""

    def run() -> Result:
        with call.service.database.connected() as connection, connection.transaction():
            result = make(connection)
        if refresh:
            call.service.watcher.refresh()
        return result

    return await run_in_threadpool(run)
