"""Logs: a line for each event on standard error, as text or as JSON; none of them names a user."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
from datetime import UTC, datetime
from typing import Any

from unswayed.service.settings import ServerSettings

#: Of the loggers of the service, which pass on what others log.
_NAMES = ("unswayed.service", "uvicorn.error")

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


class TextLines(logging.Formatter):
    """Lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line, and below it the traceback if there is one."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname.lower()} {record.getMessage()}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonLines(logging.Formatter):
    """Lines for programs: ``time``, ``level``, ``message``, and what the event brings along."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, whatever the message holds."""
        said: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "process": record.process,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def _time(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = getattr(record, "fields", {})
    return found


def start_logs(settings: ServerSettings) -> None:
    """Log to standard error from now on, as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    for name in _NAMES:
        one = logging.getLogger(name)
        one.handlers = [handler]
        one.propagate = False
        one.setLevel(settings.log_level.upper())
    # Its warnings are about malformed requests, which anybody can send.
    logging.getLogger("uvicorn.error").setLevel("ERROR")


def request_id(given: bytes | None) -> str:
    """Return the id that the caller gave its request if it can be logged, else a new one."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return secrets.token_hex(8)
